//! Parser of `mountinfo`; see proc_pid_mountinfo(5).

use super::ProcDir;
use std::path::PathBuf;

/// Most bytes read of a table of mounts.
const MOST_BYTES: usize = 1 << 20;

/// The mounts that a process sees.
#[derive(Clone, Debug, Default)]
pub struct Mounts(String);

impl Mounts {
    /// Reads those of a process; none where they are hidden.
    pub fn of(dir: impl Into<ProcDir>) -> Mounts {
        Mounts(dir.into().read_whole("mountinfo", MOST_BYTES).unwrap_or_default())
    }

    /// Returns each of them.
    pub fn iter(&self) -> impl Iterator<Item = Mount<'_>> {
        self.0.lines().filter_map(Mount::parse)
    }
}

impl<T: Into<String>> From<T> for Mounts {
    fn from(table: T) -> Mounts {
        Mounts(table.into())
    }
}

/// One mount.
#[derive(Clone, Debug)]
pub struct Mount<'t> {
    /// Its number.
    pub id: u64,
    /// The device of its file system.
    pub device: u64,
    /// What of the file system is mounted.
    pub root: &'t str,
    /// Where.
    pub point: PathBuf,
    /// The type of the file system.
    pub kind: &'t str,
    /// What it is on.
    pub source: &'t str,
    /// The options of the file system.
    pub options: &'t str,
}

impl Mount<'_> {
    fn parse(line: &str) -> Option<Mount<'_>> {
        let (first, last) = line.split_once(" - ")?;
        let (mut first, mut last) = (first.split(' '), last.split(' '));
        let (id, device) = (first.next()?.parse().ok()?, first.nth(1)?.split_once(':')?);
        let device = rustix::fs::makedev(device.0.parse().ok()?, device.1.parse().ok()?);
        let (root, point) = (first.next()?, first.next()?);
        let (kind, source, options) = (last.next()?, last.next()?, last.next()?);
        // Blanks and similar characters in a path are written as octal numbers.
        let point = PathBuf::from(point.replace("\\040", " ").replace("\\011", "\t"));
        Some(Mount { id, device, root, point, kind, source, options })
    }
}
