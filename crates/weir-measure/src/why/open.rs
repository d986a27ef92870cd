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

/// Returns the process that looks. It has open what its shell has open, and is gone when the answer
/// is read, so it is never the reason of a wait.
pub fn own() -> Pid {
    std::process::id() as Pid
}

/// Finds all descriptors of other processes that refer to a file, and tells whether the descriptors
/// of some process could not be seen.
pub fn openings(file: &Descriptor) -> (Vec<Opening>, bool) {
    let (mut found, mut unseen) = (Vec::new(), false);
    let others = processes().into_iter().filter(|pid| *pid != own());
    for pid in others.take(MOST_PROCESSES) {
        match openings_of(pid, file) {
            Some(all) => found.extend(all),
            None => unseen = true,
        }
    }
    (found, unseen)
}

/// Finds the descriptors of a process that refer to a file; `None` where they could not be seen.
pub fn openings_of(pid: Pid, file: &Descriptor) -> Option<Vec<Opening>> {
    let fds = descriptors(pid)?.take(MOST_DESCRIPTORS);
    Some(fds.filter_map(|fd| opening(pid, fd, file)).collect())
}

fn opening(pid: Pid, fd: i32, file: &Descriptor) -> Option<Opening> {
    descriptor(pid, fd).filter(|found| found == file)?;
    let (reads, writes) = access(pid, fd)?;
    Some(Opening { pid, fd, reads, writes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn who_looks_is_not_among_those_that_have_a_file_open() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::null()).stdout(writer.try_clone().expect("a copy"));
        let mut child = command.spawn().expect("sleep");
        // It shares what `command` keeps open here.
        let (found, _) = openings(&descriptor(child.id() as Pid, 1).expect("its output"));
        child.kill().expect("killed");
        child.wait().expect("waited");
        let pids: Vec<Pid> = found.iter().map(|one| one.pid).collect();
        assert!(pids.contains(&(child.id() as Pid)), "{pids:?}");
        assert!(!pids.contains(&own()), "{pids:?}");
        drop((reader, writer, command));
    }
}
