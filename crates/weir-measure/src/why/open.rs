//! Which processes have a file open, and how.

use crate::proc::{Descriptor, access, descriptor, descriptors};
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
            Some(fds) => {
                let fds = fds.take(MOST_DESCRIPTORS);
                found.extend(fds.filter_map(|fd| opening(pid, fd, file)));
            }
            None => unseen = true,
        }
    }
    (found, unseen)
}

fn opening(pid: Pid, fd: i32, file: &Descriptor) -> Option<Opening> {
    descriptor(pid, fd).filter(|found| found == file)?;
    let (reads, writes) = access(pid, fd)?;
    Some(Opening { pid, fd, reads, writes })
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
