//! Which processes have a file open, and how.

use crate::proc::{Descriptor, descriptor};
use rustix::fs::{AtFlags, CWD, statat};
use weir_sys::Pid;
use weir_sys::proc::processes;

/// Most processes whose descriptors are searched.
const MOST_PROCESSES: usize = 8192;
/// Most descriptors of a process that are looked at.
const MOST_DESCRIPTORS: usize = 4096;

/// A descriptor of a process that refers to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The process.
    pub pid: Pid,
    /// Its descriptor.
    pub fd: i32,
    /// Whether it can be read.
    pub reads: bool,
    /// Whether it can be written.
    pub writes: bool,
}

/// Finds all descriptors that refer to a file, and tells whether the descriptors of some process
/// could not be seen.
pub fn openings(file: &Descriptor) -> (Vec<Opening>, bool) {
    let (mut found, mut unseen) = (Vec::new(), false);
    for pid in processes().into_iter().take(MOST_PROCESSES) {
        match descriptors(pid) {
            Some(fds) => found.extend(fds.into_iter().filter_map(|fd| opening(pid, fd, file))),
            None => unseen = true,
        }
    }
    (found, unseen)
}

fn descriptors(pid: Pid) -> Option<Vec<i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let number =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Some(entries.filter_map(number).take(MOST_DESCRIPTORS).collect())
}

fn opening(pid: Pid, fd: i32, file: &Descriptor) -> Option<Opening> {
    descriptor(pid, fd).filter(|found| found == file)?;
    // The bits of the link tell how the file was opened.
    let link = statat(CWD, format!("/proc/{pid}/fd/{fd}"), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(Opening { pid, fd, reads: link.st_mode & 0o400 != 0, writes: link.st_mode & 0o200 != 0 })
}

/// Returns the processes that hold a lock on a file, as the `lock:` lines of their descriptors show.
pub fn lock_holders(file: &Descriptor) -> Vec<Pid> {
    let (openings, _) = openings(file);
    let mut holders: Vec<Pid> =
        openings.into_iter().filter(|one| holds_lock(one.pid, one.fd)).map(|one| one.pid).collect();
    holders.dedup();
    holders
}

fn holds_lock(pid: Pid, fd: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    text.lines().any(|line| line.starts_with("lock:") && !line.contains("->"))
}
