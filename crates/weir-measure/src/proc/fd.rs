//! What a descriptor of another process refers to, and the descriptors of an epoll set.

use super::io::field;
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use weir_sys::Pid;
use weir_sys::proc::{read_small, refuse_foreign};

/// The file behind a descriptor, enough to distinguish two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// Device of the inode.
    pub device: u64,
    /// Number of the inode: for a pipe, the number that both of its ends share.
    pub inode: u64,
    /// Kind of file.
    pub kind: FileKind,
}

/// Kinds of files, as far as waiting for them differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A pipe or a FIFO.
    Pipe,
    /// A socket.
    Socket,
    /// A regular file, a directory or a block device: waiting means storage.
    Storage,
    /// A character device: a terminal, `/dev/null`, ...
    Device,
    /// The side of a pseudo-terminal that answers for it, as `script` and `ssh` have it.
    PtyMaster,
    /// An anonymous inode: eventfd, timerfd, epoll, pidfd.
    Anonymous,
}

/// `/dev/ptmx`, whose number every open master keeps (Documentation/admin-guide/devices.txt).
const PTMX: (u32, u32) = (5, 2);

/// Opens a pidfd for process `pid`, which stays valid whoever gets the id later; `None` when it has
/// ended.
pub fn pidfd(pid: Pid) -> Option<OwnedFd> {
    pidfd_open(rustix::process::Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Borrows a descriptor of process `pid` for one look; `None` when access is denied.
pub fn borrow(pid: Pid, fd: i32) -> Option<OwnedFd> {
    pidfd_getfd(pidfd(pid)?, fd, PidfdGetfdFlags::empty()).ok()
}

impl Descriptor {
    /// Returns what an open descriptor of this process refers to.
    pub fn of(fd: impl AsFd) -> Option<Descriptor> {
        Some(Descriptor::from_stat(&known(fd, "", AtFlags::EMPTY_PATH)?))
    }

    /// Whether it is a pipe or a FIFO.
    pub fn is_pipe(&self) -> bool {
        self.kind == FileKind::Pipe
    }

    /// Whether it is a socket.
    pub fn is_socket(&self) -> bool {
        self.kind == FileKind::Socket
    }

    fn from_stat(stat: &Statx) -> Descriptor {
        let kind = match type_of(stat) {
            FileType::Fifo => FileKind::Pipe,
            FileType::Socket => FileKind::Socket,
            FileType::CharacterDevice if number_of(stat) == PTMX => FileKind::PtyMaster,
            FileType::CharacterDevice => FileKind::Device,
            FileType::RegularFile | FileType::Directory | FileType::BlockDevice => {
                FileKind::Storage
            }
            _ => FileKind::Anonymous,
        };
        Descriptor { device: device_of(stat), inode: stat.stx_ino, kind }
    }
}

/// Returns what the kernel knows of a file without asking anybody: a server of files that does not
/// answer holds nobody up here.
fn known(directory: impl AsFd, path: &str, flags: AtFlags) -> Option<Statx> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE | StatxFlags::MTIME;
    rustix::fs::statx(directory, path, flags | AtFlags::STATX_DONT_SYNC, wanted).ok()
}

/// Returns that of descriptor `fd` of process `pid`; `None` when it is closed or hidden.
fn known_of(pid: Pid, fd: i32) -> Option<Statx> {
    let path = format!("/proc/{pid}/fd/{fd}");
    refuse_foreign(&path).ok()?;
    // The link leads to the open file itself, and nothing is opened.
    known(CWD, &path, AtFlags::empty())
}

/// Returns the device, the inode and the time of the last change of the program that process `pid` runs;
/// `None` when it has ended or is hidden.
pub fn program_file(pid: Pid) -> Option<(u64, u64, i64)> {
    let path = format!("/proc/{pid}/exe");
    refuse_foreign(&path).ok()?;
    let stat = known(CWD, &path, AtFlags::empty())?;
    Some((device_of(&stat), stat.stx_ino, stat.stx_mtime.tv_sec))
}

fn device_of(stat: &Statx) -> u64 {
    rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

fn type_of(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

fn number_of(stat: &Statx) -> (u32, u32) {
    (stat.stx_rdev_major, stat.stx_rdev_minor)
}

/// Whether a pipe has no name: then nobody can open it again once its ends are closed.
pub fn is_anonymous_pipe(file: &Descriptor) -> bool {
    thread_local! {
        static PIPEFS: Option<u64> =
            rustix::pipe::pipe().ok().and_then(|(r, _)| Some(Descriptor::of(r)?.device));
    }
    PIPEFS.with(|device| *device == Some(file.device))
}

/// Returns what descriptor `fd` of process `pid` refers to; `None` when it is closed or hidden.
pub fn descriptor(pid: Pid, fd: i32) -> Option<Descriptor> {
    Some(Descriptor::from_stat(&known_of(pid, fd)?))
}

/// Returns the regular file behind descriptor `fd` of process `pid`, and its size; `None` for anything
/// else, and when it is closed or hidden.
pub fn regular(pid: Pid, fd: i32) -> Option<(Descriptor, u64)> {
    let stat = known_of(pid, fd).filter(|stat| type_of(stat) == FileType::RegularFile)?;
    Some((Descriptor::from_stat(&stat), stat.stx_size))
}

/// Returns whether descriptor `fd` of process `pid` can be read, and whether it can be written: the
/// bits of the link tell how the file was opened.
pub fn access(pid: Pid, fd: i32) -> Option<(bool, bool)> {
    let path = format!("/proc/{pid}/fd/{fd}");
    refuse_foreign(&path).ok()?;
    let link = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((link.st_mode & 0o400 != 0, link.st_mode & 0o200 != 0))
}

/// Returns the path or the name that the kernel gives the file behind descriptor `fd` of process
/// `pid`; `None` when it is closed or hidden.
pub fn link(pid: Pid, fd: i32) -> Option<PathBuf> {
    let path = format!("/proc/{pid}/fd/{fd}");
    refuse_foreign(&path).ok()?;
    std::fs::read_link(path).ok()
}

/// Returns the numbers of the descriptors that process `pid` has open; `None` where they are hidden.
pub fn descriptors(pid: Pid) -> Option<impl Iterator<Item = i32>> {
    let path = format!("/proc/{pid}/fd");
    refuse_foreign(&path).ok()?;
    let entries = std::fs::read_dir(path).ok()?;
    Some(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// Returns the descriptors for which the epoll set `fd` of process `pid` waits, with the events.
///
/// Reads `/proc/PID/fdinfo/FD`; at most the first 4096 bytes of it, some 50 descriptors.
pub fn epoll_interest(pid: Pid, fd: i32) -> Vec<(i32, u32)> {
    let mut buffer = [0; 4096];
    let text = read_small(&format!("/proc/{pid}/fdinfo/{fd}"), &mut buffer);
    text.map_or_else(|_| Vec::new(), parse_epoll)
}

/// Returns the process that a pidfd of process `pid` refers to; `None` for another descriptor, and
/// when that process has ended.
pub fn behind_pidfd(pid: Pid, fd: i32) -> Option<Pid> {
    let mut buffer = [0; 512];
    let text = read_small(&format!("/proc/{pid}/fdinfo/{fd}"), &mut buffer).ok()?;
    let id = field(std::str::from_utf8(text).ok()?, "Pid")?.parse().ok()?;
    (id > 0).then_some(id)
}

/// Returns the device that descriptor `fd` of process `pid` is: its two numbers, and whether it is
/// one of blocks; `None` for anything else.
pub fn special(pid: Pid, fd: i32) -> Option<(u32, u32, bool)> {
    let stat = known_of(pid, fd)?;
    let block = match type_of(&stat) {
        FileType::CharacterDevice => false,
        FileType::BlockDevice => true,
        _ => return None,
    };
    let (major, minor) = number_of(&stat);
    Some((major, minor, block))
}

/// Returns the position in the file behind descriptor `fd` of process `pid`, and whether the file is
/// only read.
pub fn position(pid: Pid, fd: i32) -> Option<(u64, bool)> {
    let mut buffer = [0; 512];
    let text = read_small(&format!("/proc/{pid}/fdinfo/{fd}"), &mut buffer).ok()?;
    let text = std::str::from_utf8(text).ok()?;
    let flags = u32::from_str_radix(field(text, "flags")?, 8).ok()?;
    const ACCESS: u32 = 3;
    Some((field(text, "pos")?.parse().ok()?, flags & ACCESS == 0))
}

/// Whether reads and writes of descriptor `fd` of process `pid` never block.
pub fn is_nonblocking(pid: Pid, fd: i32) -> Option<bool> {
    let mut buffer = [0; 512];
    let text = read_small(&format!("/proc/{pid}/fdinfo/{fd}"), &mut buffer).ok()?;
    let flags = u32::from_str_radix(field(std::str::from_utf8(text).ok()?, "flags")?, 8).ok()?;
    Some(flags & libc::O_NONBLOCK as u32 != 0)
}

fn parse_epoll(text: &[u8]) -> Vec<(i32, u32)> {
    let text = String::from_utf8_lossy(text);
    let entry = |line: &str| {
        let mut fields = line.strip_prefix("tfd:")?.split_ascii_whitespace();
        let fd = fields.next()?.parse().ok()?;
        let events = fields.nth(1)?;
        Some((fd, u32::from_str_radix(events, 16).ok()?))
    };
    text.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_pipe_are_one_inode() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        assert_eq!(Descriptor::of(&reader), Descriptor::of(&writer));
        assert!(Descriptor::of(&reader).expect("known").is_pipe());
    }

    #[test]
    fn a_position_is_that_of_the_open_file() {
        use std::io::{Read, Write};
        use std::os::fd::AsRawFd;
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&[7; 100]).expect("written");
        let mut again = file.reopen().expect("opened");
        again.read_exact(&mut [0; 60]).expect("read");
        let me = std::process::id() as Pid;
        assert_eq!(position(me, again.as_raw_fd()), Some((60, false)));
        let only = std::fs::File::open(file.path()).expect("opened");
        assert_eq!(position(me, only.as_raw_fd()), Some((0, true)));
        assert_eq!(position(me, 9_999), None);
    }

    #[test]
    fn an_epoll_set_tells_its_descriptors() {
        let text = b"pos:\t0\nflags:\t02\ntfd:        0 events:       19 data: 0  pos:0 ino:1\n";
        assert_eq!(parse_epoll(text), vec![(0, 0x19)]);
        assert_eq!(parse_epoll(b"tfd: x"), vec![]);
    }
}
