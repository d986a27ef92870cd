//! Which processes have a file open, and how.

use crate::attribution::peers::MOST_OWNERS;
use std::cell::OnceCell;
use std::time::{Duration, Instant};
use weir_sys::Pid;
use weir_sys::proc::{Descriptor, FileKind, access, descriptor, descriptors, processes};

/// Most processes whose descriptors are searched.
const MOST_PROCESSES: usize = 8192;
/// Most descriptors of a process that are looked at.
const MOST_DESCRIPTORS: usize = 1 << 16;

/// Most descriptors of all processes that are remembered.
const MOST_FILES: usize = 1 << 20;

/// The longest search. What is not found by then is left out.
const MOST_TIME: Duration = Duration::from_millis(300);

/// What the processes of this host have open, at the time when that was first asked: a loop may wait
/// for many pipes and sockets, and each of them may be open anywhere.
#[derive(Debug, Default)]
pub struct Host {
    /// The process that is asked about: who has to do with it has mostly an id near by.
    near: Pid,
    files: OnceCell<Files>,
}

#[derive(Debug, Default)]
struct Files {
    all: Vec<(Descriptor, Pid, i32)>,
    unseen: bool,
    left_out: usize,
    took: Duration,
}

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

impl Host {
    /// Makes one that has not looked yet, for a process and those that have to do with it.
    pub fn near(near: Pid) -> Host {
        Host { near, files: OnceCell::new() }
    }

    /// Finds all descriptors of other processes that refer to a file, and tells whether the
    /// descriptors of some process could not be seen.
    pub fn openings(&self, file: &Descriptor) -> (Vec<Opening>, bool) {
        let files = self.files();
        let found = files.all.iter().filter(|(known, ..)| known == file);
        (found.filter_map(|(_, pid, fd)| opening(*pid, *fd, file)).collect(), files.unseen)
    }

    /// Finds the processes that have the socket with this inode.
    pub fn owners_of(&self, inode: u64) -> Vec<Pid> {
        let is = |file: &Descriptor| file.kind == FileKind::Socket && file.inode == inode;
        let found = self.files().all.iter().filter(|(file, ..)| is(file));
        let mut owners: Vec<Pid> = found.map(|(_, pid, _)| *pid).collect();
        owners.dedup();
        owners.truncate(MOST_OWNERS);
        owners
    }

    /// Returns the number of processes at which it did not look.
    pub fn left_out(&self) -> usize {
        self.files.get().map_or(0, |files| files.left_out)
    }

    /// Whether to search again costs little.
    pub fn is_quick(&self) -> bool {
        self.files.get().is_none_or(|files| files.took < MOST_TIME / 8)
    }

    /// Returns the other processes of this host, those with the nearest ids first.
    pub fn near_processes(&self) -> Vec<Pid> {
        let mut others: Vec<Pid> = processes().into_iter().filter(|pid| *pid != own()).collect();
        others.sort_by_key(|pid| pid.abs_diff(self.near));
        others
    }

    fn files(&self) -> &Files {
        self.files.get_or_init(|| {
            let begun = Instant::now();
            let mut files = Files::default();
            let others = self.near_processes();
            files.left_out = others.len();
            for pid in others.into_iter().take(MOST_PROCESSES) {
                if begun.elapsed() > MOST_TIME {
                    break;
                }
                files.left_out -= 1;
                let Some(mut fds) = descriptors(pid) else {
                    files.unseen = true;
                    continue;
                };
                let open = fds.by_ref().take(MOST_DESCRIPTORS).filter_map(|fd| {
                    let file = descriptor(pid, fd)?;
                    (file.kind != FileKind::Anonymous).then_some((file, pid, fd))
                });
                files.all.extend(open.take(MOST_FILES - files.all.len()));
                files.unseen |= fds.next().is_some();
            }
            files.unseen |= files.all.len() == MOST_FILES || files.left_out > 0;
            files.took = begun.elapsed();
            files
        })
    }
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

    /// A server of many connections had the other end of a pipe, and nobody seemed to have it.
    #[test]
    fn who_has_thousands_of_files_open_is_found() {
        use std::io::Read;
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let text = "ulimit -n 4999 && for ((i = 10; i < 4200; i++)); do eval \"exec $i<&0\"; done; \
             exec 4990>&1 >&0; echo up >&4990; exec sleep 1000";
        let mut command = Command::new("bash");
        command.args(["-c", text]).stdin(Stdio::null()).stdout(writer);
        let mut shell = command.spawn().expect("bash");
        drop(command);
        let up = reader.read_exact(&mut [0; 3]).is_ok();
        let pipe = Descriptor::of(&reader).expect("known");
        let (found, _) = Host::near(own()).openings(&pipe);
        shell.kill().expect("killed");
        shell.wait().expect("waited");
        if !up {
            eprintln!("SKIPPED: 5000 files may not be open here");
            return;
        }
        let found: Vec<(Pid, i32)> = found.iter().map(|one| (one.pid, one.fd)).collect();
        assert_eq!(found, [(shell.id() as Pid, 4990)]);
    }

    #[test]
    fn who_looks_is_not_among_those_that_have_a_file_open() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::null()).stdout(writer.try_clone().expect("a copy"));
        let mut child = command.spawn().expect("sleep");
        // It shares what `command` keeps open here.
        let output = descriptor(child.id() as Pid, 1).expect("its output");
        let host = Host::near(own());
        let (found, _) = host.openings(&output);
        // What is asked later is answered from the same look.
        command.stdout(writer.try_clone().expect("a copy"));
        let mut later = command.spawn().expect("sleep");
        assert_eq!(host.openings(&output).0, found);
        // What other tests start has it open too for a moment, so their number tells nothing.
        let now = Host::near(own()).openings(&output).0;
        assert!(now.iter().any(|one| one.pid == later.id() as Pid), "{now:?}");
        later.kill().expect("killed");
        later.wait().expect("waited");
        child.kill().expect("killed");
        child.wait().expect("waited");
        let pids: Vec<Pid> = found.iter().map(|one| one.pid).collect();
        assert!(pids.contains(&(child.id() as Pid)), "{pids:?}");
        assert!(!pids.contains(&own()), "{pids:?}");
        drop((reader, writer, command));
    }
}
