//! Defaults of pipes, which the user can change in a file while programs run.
//!
//! The first of these that sets a value wins: the call, the environment (`WEIR_PIPE_SIZE`,
//! `WEIR_PIPE_SEGMENT`), the user's file (`weir tune`), the file of the host (`weir tune --host`), the sizes of
//! the caches.

use crate::error::{Error, ErrorKind, Result};
use crate::memory;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use weir_policy::pipe::{self, OutOfRange, PipeShape};
use weir_policy::size::parse_size;
use weir_sys::forks;

/// What [`Endpoint::sizes`](crate::Endpoint::sizes) returns.
///
/// ```
/// let (writer, _reader) = weir::pipe(&weir::Options::new().capacity_bytes(65_536))?;
/// let sizes: weir::Sizes = writer.sizes();
/// assert_eq!(sizes.capacity_bytes, 65_536);
/// assert!(sizes.segment_bytes <= sizes.capacity_bytes);
/// # Ok::<(), weir::Error>(())
/// ```
pub use weir_policy::pipe::Sizes;

/// What [`caches`] returns.
///
/// ```
/// let caches: weir::tune::Caches = weir::tune::caches();
/// println!("second level: {} bytes, third: {}", caches.second_bytes, caches.third_bytes);
/// ```
pub use weir_policy::pipe::Caches;

/// The defaults that are set. `None` means not set.
///
/// ```
/// let mut settings = weir::tune::Settings::default();
/// settings.capacity_bytes = Some(1 << 20);
/// assert_eq!(settings.sizes()?.capacity_bytes, 1 << 20);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// How many bytes a pipe holds.
    pub capacity_bytes: Option<u64>,
    /// After how many bytes a longer write is published.
    pub segment_bytes: Option<u64>,
    /// The segment as a part of each pipe's capacity: capacity >> shift, and at least a page.
    /// `segment_bytes` ranks over it.
    pub segment_shift: Option<u32>,
    /// The longest write that appears whole, in bytes.
    pub atomic_bytes: Option<u64>,
}

const CAPACITY: &str = "capacity_bytes";
const SEGMENT: &str = "segment_bytes";
const SHIFT: &str = "segment_shift";
const ATOMIC: &str = "atomic_bytes";

/// Returns the path of the user's file of defaults: `WEIR_TUNE`, or else `weir/tune.toml` under
/// `XDG_STATE_HOME` or `~/.local/state`. `None` if there is no home.
pub fn path() -> Option<PathBuf> {
    weir_sys::places::kept("WEIR_TUNE", "tune.toml")
}

/// Returns the path of the host's file of defaults, which hold for each user who has set no other:
/// `WEIR_HOST_TUNE`, or else `/etc/weir/tune.toml`.
pub fn host_path() -> PathBuf {
    let set = weir_sys::places::variable("WEIR_HOST_TUNE").map(PathBuf::from);
    set.filter(|path| path.is_absolute()).unwrap_or_else(|| PathBuf::from("/etc/weir/tune.toml"))
}

/// Returns the sizes of the first CPU's caches, as the kernel reports them.
pub fn caches() -> Caches {
    let mut caches = Caches::default();
    for index in 0..8 {
        let read = |what: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
            std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
        };
        let bytes = read("size").and_then(|size| parse_size(&size)).unwrap_or(0);
        match read("level").as_deref() {
            Some("2") => caches.second_bytes = bytes,
            Some("3") => caches.third_bytes = bytes,
            _ => {}
        }
    }
    caches
}

/// As [`caches`], asked once.
fn known_caches() -> Caches {
    static CACHES: OnceLock<Caches> = OnceLock::new();
    *forks::get_or_make(&CACHES, caches)
}

/// What errors call the file of settings.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

impl Settings {
    /// Reads the user's file. Returns empty settings if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or a line in it is not a setting.
    pub fn read() -> Result<Settings> {
        path().map_or_else(|| Ok(Settings::default()), |path| Settings::read_from(&path))
    }

    /// Reads a file of settings. Returns empty settings if there is none.
    ///
    /// # Errors
    /// Those of [`Settings::read`].
    pub fn read_from(path: &Path) -> Result<Settings> {
        match std::fs::read_to_string(path) {
            Ok(text) => Settings::parse(&text).map_err(|line| {
                let reason = format!("'{line}' is not a setting");
                Error::new(ErrorKind::Invalid, "read", quoted(path), reason)
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Settings::default()),
            Err(error) => Err(Error::os("read", quoted(path), error)),
        }
    }

    /// Writes the user's file as a whole, or not at all.
    ///
    /// # Errors
    /// There is no home, or the file cannot be written. What is there is not a regular file.
    pub fn write(&self) -> Result<()> {
        let Some(path) = path() else {
            let why = "WEIR_TUNE is not set, nor XDG_STATE_HOME or HOME to a whole path";
            return Err(Error::new(ErrorKind::Invalid, "write", "the defaults of pipes", why));
        };
        self.write_to(&path)
    }

    /// Writes a file of settings as a whole, or not at all.
    ///
    /// # Errors
    /// The file cannot be written. What is there is not a regular file.
    pub fn write_to(&self, path: &Path) -> Result<()> {
        // Another file is put in its place: where that is a link, in the place of what it leads to.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let why = "it is not a regular file";
            return Err(Error::new(ErrorKind::Invalid, "write", quoted(&path), why));
        }
        let failed = |cause| Error::os("write", quoted(&path), cause);
        let text = self.text();
        if !weir_sys::may_reach(text.len() as u64) {
            return Err(failed(rustix::io::Errno::FBIG.into()));
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let new = path.with_extension(format!("new.{}", std::process::id()));
        let written = std::fs::write(&new, text);
        let replaced = written.and_then(|()| std::fs::rename(&new, &path));
        replaced.map_err(|cause| {
            let _ = std::fs::remove_file(&new);
            failed(cause)
        })
    }

    /// Returns these settings, with those of `others` where nothing is set. A segment that is set one way
    /// or the other is set.
    pub fn or(self, others: &Settings) -> Settings {
        let has_segment = self.segment_bytes.is_some() || self.segment_shift.is_some();
        let of_others = Some(others).filter(|_| !has_segment);
        Settings {
            capacity_bytes: self.capacity_bytes.or(others.capacity_bytes),
            segment_bytes: self.segment_bytes.or(of_others.and_then(|of| of.segment_bytes)),
            segment_shift: self.segment_shift.or(of_others.and_then(|of| of.segment_shift)),
            atomic_bytes: self.atomic_bytes.or(others.atomic_bytes),
        }
    }

    /// Returns the settings of a pipe made now: those of the environment, then those of the user's
    /// file, then those of the host's.
    ///
    /// # Errors
    /// A variable is not a size, or a line in a file is not a setting. A file that cannot be read
    /// is ignored.
    pub fn in_force() -> Result<Settings> {
        let readable = |read: Result<Settings>| match read {
            Err(error) if error.kind() == ErrorKind::Os => Ok(Settings::default()),
            read => read,
        };
        let host = readable(Settings::read_from(&host_path()))?;
        let mut settings = readable(Settings::read())?.or(&host);
        let size = |name: &'static str| {
            let Some(text) = std::env::var_os(name) else { return Ok(None) };
            let text = text.to_string_lossy();
            parse_size(&text).map(Some).ok_or_else(|| {
                let reason = format!("'{text}' is not a size, such as 65536, 64K or 1.5M");
                Error::new(ErrorKind::Invalid, "use", name, reason)
            })
        };
        settings.capacity_bytes = size("WEIR_PIPE_SIZE")?.or(settings.capacity_bytes);
        settings.segment_bytes = size("WEIR_PIPE_SEGMENT")?.or(settings.segment_bytes);
        Ok(settings)
    }

    /// Returns the capacity of pipes under these settings, as it was set or follows from the caches.
    pub fn usual_bytes(&self) -> u64 {
        self.capacity_bytes.unwrap_or_else(|| known_caches().capacity_bytes())
    }

    /// Returns the sizes of a pipe under these settings.
    ///
    /// # Errors
    /// A size is out of its range.
    pub fn sizes(&self) -> Result<Sizes> {
        let capacity = self.usual_bytes();
        let segment = self.segment_of(capacity);
        PipeShape::new(memory::page_bytes(), capacity, segment, self.atomic_bytes)
            .map(|shape| shape.sizes())
            .map_err(out_of_range)
    }

    /// Returns the segment that is set for a pipe of this capacity, if one is.
    pub(crate) fn segment_of(&self, capacity_bytes: u64) -> Option<u64> {
        let whole = capacity_bytes.clamp(memory::page_bytes(), pipe::MOST_BYTES);
        let part = |shift: u32| {
            let part = whole.next_power_of_two() >> shift.min(pipe::MOST_SHIFT);
            part.max(memory::page_bytes())
        };
        self.segment_bytes.or(self.segment_shift.map(part))
    }

    fn text(&self) -> String {
        let mut text = String::from("# Defaults of weir's pipes; see `weir tune --help`.\n");
        let sizes = [
            (CAPACITY, self.capacity_bytes),
            (SEGMENT, self.segment_bytes),
            (SHIFT, self.segment_shift.map(u64::from)),
            (ATOMIC, self.atomic_bytes),
        ];
        for (name, bytes) in sizes {
            if let Some(bytes) = bytes {
                text.push_str(&format!("{name} = {bytes}\n"));
            }
        }
        text
    }

    fn parse(text: &str) -> std::result::Result<Settings, String> {
        let mut settings = Settings::default();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let wrong = || line.to_owned();
            let (name, number) = line.split_once('=').ok_or_else(wrong)?;
            let number: u64 = number.trim().parse().map_err(|_| wrong())?;
            match name.trim() {
                CAPACITY => settings.capacity_bytes = Some(number),
                SEGMENT => settings.segment_bytes = Some(number),
                SHIFT if number <= u64::from(pipe::MOST_SHIFT) => {
                    settings.segment_shift = Some(number as u32);
                }
                ATOMIC => settings.atomic_bytes = Some(number),
                _ => return Err(wrong()),
            }
        }
        Ok(settings)
    }
}

pub(crate) fn out_of_range(refused: OutOfRange) -> Error {
    let OutOfRange { what, asked, least, most } = refused;
    let reason = format!("{asked} bytes are out of range: {least} to {most}");
    Error::new(ErrorKind::Invalid, "set", format!("the {what} of a pipe"), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_is_a_part_of_each_capacity() {
        let settings = Settings { segment_shift: Some(4), ..Settings::default() };
        let parts = [1, 4096, 100_000, 1 << 20].map(|capacity| settings.segment_of(capacity));
        assert_eq!(parts, [4096, 4096, 8192, 65_536].map(Some));
        // A part of less than a segment can have was refused, as was the size that was set with it.
        let shift = Some(pipe::MOST_SHIFT);
        let least =
            Settings { segment_shift: shift, capacity_bytes: Some(4096), ..settings.clone() };
        assert_eq!(least.sizes().map(|sizes| sizes.segment_bytes).ok(), Some(4096));
        let bytes = Settings { segment_bytes: Some(512), ..settings };
        assert_eq!(bytes.segment_of(1 << 20), Some(512));
        assert_eq!(Settings::default().segment_of(1 << 20), None);
    }

    #[test]
    fn settings_survive_a_round_trip_and_unknown_lines_are_named() {
        let settings = Settings {
            capacity_bytes: Some(1 << 21),
            segment_bytes: None,
            segment_shift: Some(4),
            atomic_bytes: Some(512),
        };
        assert_eq!(Settings::parse(&settings.text()), Ok(settings));
        assert_eq!(Settings::parse("\n# all\n"), Ok(Settings::default()));
        let wrong = ["capacity_bytes", "capacity_bytes = x", "speed = 9", "segment_shift = 9"];
        for line in wrong {
            assert_eq!(Settings::parse(line), Err(line.to_owned()));
        }
    }

    #[test]
    fn the_kernel_tells_the_caches_or_nothing() {
        let caches = caches();
        assert!(caches.third_bytes == 0 || caches.third_bytes >= caches.second_bytes);
    }
}
