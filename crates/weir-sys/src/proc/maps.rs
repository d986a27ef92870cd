//! Parser of `maps`; see proc_pid_maps(5).

use super::ProcDir;
use std::fs::File;
use std::io;

/// Most bytes read of a list of mappings.
const MOST_BYTES: usize = 4 << 20;

/// What a process has mapped.
#[derive(Clone, Debug, Default)]
pub struct Mappings(String);

impl Mappings {
    /// Reads those of a process; none where it has ended, or they are hidden.
    pub fn of(dir: impl Into<ProcDir>) -> Mappings {
        Mappings(dir.into().read_whole("maps", MOST_BYTES).unwrap_or_default())
    }

    /// Returns each of them, by address.
    pub fn iter(&self) -> impl Iterator<Item = Mapping<'_>> {
        self.0.lines().filter_map(Mapping::parse)
    }
}

/// Opens the list of where the pages of this process are.
///
/// # Errors
/// A sentence names the file.
pub fn own_page_map() -> io::Result<File> {
    let path = "/proc/self/pagemap";
    File::open(path)
        .map_err(|cause| io::Error::new(cause.kind(), format!("{path} cannot be read: {cause}")))
}

/// A part of the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'t> {
    /// Its first address.
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    /// Whether it can be executed.
    pub is_code: bool,
    /// Whether others who map the file see what is written to it.
    pub is_shared: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// The device of the file.
    pub device: u64,
    /// The inode of the file; 0 without one.
    pub inode: u64,
    /// The path of the file, a name in brackets, or nothing.
    pub path: &'t str,
}

impl Mapping<'_> {
    /// Parses a line.
    pub fn parse(line: &str) -> Option<Mapping<'_>> {
        // 7f10-7f20 r-xp 00002000 fe:00 1234                       /usr/lib/a b.so
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let access = words.next()?.as_bytes();
        let offset = hex(words.next()?)?;
        let (major, minor) = words.next()?.split_once(':')?;
        let number = |text| u32::from_str_radix(text, 16).ok();
        Some(Mapping {
            start: hex(start)?,
            end: hex(end)?,
            is_code: access.get(2) == Some(&b'x'),
            is_shared: access.get(3) == Some(&b's'),
            offset,
            device: rustix::fs::makedev(number(major)?, number(minor)?),
            inode: words.next()?.parse().ok()?,
            path: words.next().unwrap_or_default().trim_start(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let line = "7f10-7f20 r-xp 00002000 fe:00 1234                       /usr/lib/a b.so";
        let device = rustix::fs::makedev(0xfe, 0);
        let code = Mapping {
            start: 0x7f10,
            end: 0x7f20,
            is_code: true,
            is_shared: false,
            offset: 0x2000,
            device,
            inode: 1234,
            path: "/usr/lib/a b.so",
        };
        assert_eq!(Mapping::parse(line), Some(code));
        let shared = Mapping::parse("7f10-7f20 rw-s 0 fe:00 0 ").expect("a mapping");
        assert_eq!((shared.is_code, shared.is_shared, shared.path), (false, true, ""));
        assert_eq!(Mapping::parse("nonsense"), None);
        let own = Mappings::of(ProcDir::This);
        assert!(own.iter().any(|part| part.path == "[stack]"));
    }
}
