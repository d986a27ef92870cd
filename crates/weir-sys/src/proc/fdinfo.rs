//! Parser of `fdinfo/FD`; see proc_pid_fdinfo(5).

use super::ProcDir;
use crate::Pid;

/// Most bytes read where a file may have many locks.
const LOCKS_BYTES: usize = 1 << 20;

/// What the kernel tells of a descriptor and of what it refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FdInfo {
    /// The position in the file.
    pub position: u64,
    /// The flags with which it was opened (`O_*`).
    pub flags: u32,
    /// The number of the mount of the file.
    pub mount: Option<u64>,
    /// The process that a pidfd refers to, until it has ended.
    pub process: Option<Pid>,
    /// The number of the terminal that the answering side of one belongs to.
    pub terminal: Option<u32>,
    /// The features of a descriptor of page faults.
    pub fault_features: Option<u64>,
    /// The descriptors for which an epoll set waits, with the events: some 50 at most.
    pub epoll: Vec<(i32, u32)>,
}

impl FdInfo {
    /// Reads that of descriptor `fd` of a process; `None` when it is closed or hidden.
    pub fn of(dir: impl Into<ProcDir>, fd: i32) -> Option<FdInfo> {
        dir.into().read(format_args!("fdinfo/{fd}"), FdInfo::parse).ok()
    }

    /// Whether it can only be read.
    pub fn is_only_read(&self) -> bool {
        self.flags & libc::O_ACCMODE as u32 == libc::O_RDONLY as u32
    }

    /// Whether its reads and writes never block.
    pub fn is_nonblocking(&self) -> bool {
        self.flags & libc::O_NONBLOCK as u32 != 0
    }

    fn parse(text: &[u8]) -> Option<FdInfo> {
        let mut found = FdInfo::default();
        for line in String::from_utf8_lossy(text).lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match name {
                "pos" => found.position = value.parse().ok()?,
                "flags" => found.flags = u32::from_str_radix(value, 8).ok()?,
                "mnt_id" => found.mount = value.parse().ok(),
                "Pid" => found.process = value.parse().ok().filter(|pid| *pid > 0),
                "tty-index" => found.terminal = value.parse().ok(),
                // API: aa:7c1:0
                "API" => {
                    let features = value.split(':').nth(1);
                    found.fault_features =
                        features.and_then(|hex| u64::from_str_radix(hex, 16).ok());
                }
                // tfd:        0 events:       19 data: 0  pos:0 ino:1
                "tfd" => found.epoll.extend(epoll_entry(value)),
                _ => {}
            }
        }
        Some(found)
    }
}

/// Returns the process that a pidfd of a process refers to; `None` for another descriptor, and when
/// that process has ended.
pub fn behind_pidfd(pid: Pid, fd: i32) -> Option<Pid> {
    FdInfo::of(pid, fd)?.process
}

fn epoll_entry(value: &str) -> Option<(i32, u32)> {
    let mut fields = value.split_ascii_whitespace();
    let fd = fields.next()?.parse().ok()?;
    Some((fd, u32::from_str_radix(fields.nth(1)?, 16).ok()?))
}

/// Returns the locks on the file behind a descriptor that were taken by it or by its process: the
/// fields of `/proc/locks`.
pub fn locks(pid: Pid, fd: i32) -> Vec<String> {
    let text = ProcDir::Process(pid).read_whole(format_args!("fdinfo/{fd}"), LOCKS_BYTES);
    let text = text.unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("lock:")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::path_of_own;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_position_is_that_of_the_open_file() {
        let memory = rustix::fs::memfd_create("a", rustix::fs::MemfdFlags::CLOEXEC);
        let mut file = std::fs::File::from(memory.expect("a file"));
        file.write_all(&[7; 100]).expect("written");
        let open = |write| {
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(write).open(path_of_own(&file)).expect("opened")
        };
        let of = |file: &std::fs::File| {
            let info = FdInfo::of(std::process::id() as Pid, file.as_raw_fd()).expect("known");
            (info.position, info.is_only_read(), info.is_nonblocking())
        };
        let mut again = open(true);
        again.read_exact(&mut [0; 60]).expect("read");
        assert_eq!(of(&again), (60, false, false));
        assert_eq!(of(&open(false)), (0, true, false));
        assert_eq!(FdInfo::of(ProcDir::This, 9_999), None);
    }

    #[test]
    fn an_epoll_set_tells_its_descriptors() {
        let text = b"pos:\t0\nflags:\t02\ntfd:        0 events:       19 data: 0  pos:0 ino:1\n";
        assert_eq!(FdInfo::parse(text).expect("a text").epoll, [(0, 0x19)]);
        assert_eq!(FdInfo::parse(b"tfd: x").expect("a text").epoll, []);
    }
}
