//! Parser of `/proc/PID/mountinfo`; see proc_pid_mountinfo(5).

use std::path::PathBuf;

/// One mount.
#[derive(Clone, Debug)]
pub struct Mount<'t> {
    /// Its number.
    pub id: &'t str,
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
    /// Parses a line.
    pub fn parse(line: &str) -> Option<Mount<'_>> {
        let (first, last) = line.split_once(" - ")?;
        let (mut first, mut last) = (first.split(' '), last.split(' '));
        let (id, root, point) = (first.next()?, first.nth(2)?, first.next()?);
        let (kind, source, options) = (last.next()?, last.next()?, last.next()?);
        // Blanks and similar characters in a path are written as octal numbers.
        let point = PathBuf::from(point.replace("\\040", " ").replace("\\011", "\t"));
        Some(Mount { id, root, point, kind, source, options })
    }
}
