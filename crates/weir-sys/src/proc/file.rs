//! Small files of `/proc`, kept open and read from their start each time.

use crate::Pid;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

/// A file of `/proc` that is kept open and can be read repeatedly.
#[derive(Debug)]
pub struct ProcFile {
    fd: OwnedFd,
}

impl ProcFile {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// `ENOENT`: the process is gone. `EACCES`: `/proc` hides it.
    pub fn open(path: &str) -> Result<ProcFile, Errno> {
        refuse_foreign(path)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(ProcFile { fd: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Reads the file from its start into `buffer`. A longer file is cut.
    ///
    /// # Errors
    /// `ESRCH`: the process is gone. `EPERM` or `EACCES`: no permission.
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
        let n = rustix::io::pread(&self.fd, &mut *buffer, 0)?;
        Ok(&buffer[..n])
    }
}

/// Whether `/proc` shows the pid namespace of this process. If it shows another one (`unshare --pid
/// --fork` without `--mount-proc`), its numbers mean other processes.
pub fn is_own() -> bool {
    static OWN: OnceLock<bool> = OnceLock::new();
    *crate::forks::get_or_make(&OWN, || {
        let mut buffer = [0; 4096];
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let status = rustix::fs::open("/proc/self/status", flags, Mode::empty())
            .and_then(|fd| ProcFile { fd }.read(&mut buffer).map(String::from_utf8_lossy));
        status.is_ok_and(|status| is_of_namespace(&status, std::process::id()))
    })
}

/// Whether a `status` of a process shows the number `pid` that the process itself sees, and no
/// further number. Processes of inner namespaces have more than one.
fn is_of_namespace(status: &str, pid: u32) -> bool {
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
    let Some(numbers) = field("NSpid:").or_else(|| field("Pid:")) else { return false };
    let mut numbers = numbers.split_ascii_whitespace().map(str::parse);
    numbers.next() == Some(Ok(pid)) && numbers.next().is_none()
}

/// Refuses files of processes if `/proc` shows another pid namespace, because they would belong to
/// other processes than those that are meant.
///
/// # Errors
/// `ENOENT`: it is such a file.
pub fn refuse_foreign(path: &str) -> Result<(), Errno> {
    let of_process = path
        .strip_prefix("/proc/")
        .is_some_and(|rest| rest.bytes().next().is_some_and(|first| first.is_ascii_digit()));
    if (of_process || path == "/proc") && !is_own() { Err(Errno::NOENT) } else { Ok(()) }
}

/// Opens, reads and closes a file of at most `buffer.len()` bytes. A longer one is cut.
///
/// # Errors
/// Those of [`ProcFile::open`] and [`ProcFile::read`].
pub fn read_small<'b>(path: &str, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    ProcFile::open(path)?.read(buffer)
}

/// Lists the ids of all visible processes.
pub fn processes() -> Vec<Pid> {
    numbers_in("/proc")
}

/// Lists the ids of the threads of a process. Empty if it is gone or hidden.
pub fn tasks(process: Pid) -> Vec<Pid> {
    numbers_in(&format!("/proc/{process}/task"))
}

fn numbers_in(directory: &str) -> Vec<Pid> {
    if refuse_foreign(directory).is_err() {
        return Vec::new();
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(fd) = rustix::fs::open(directory, flags, Mode::empty()) else { return Vec::new() };
    let Ok(dir) = Dir::new(fd) else { return Vec::new() };
    dir.filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_told_by_the_numbers_it_gives() {
        let me = std::process::id() as Pid;
        assert!(processes().contains(&me) && !tasks(me).is_empty());
        assert!(is_own(), "tests run where /proc is their own");
        assert!(is_of_namespace("Name:\tx\nPid:\t7\nNSpid:\t7\n", 7));
        for status in ["NSpid:\t700\t7\n", "NSpid:\t7\t7\n", "NSpid:\t8\n", ""] {
            assert!(!is_of_namespace(status, 7), "{status:?}");
        }
        assert!(is_of_namespace("Pid:\t7\n", 7), "a kernel without namespaces");
    }
}
