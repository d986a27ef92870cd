//! What a descriptor of another process refers to, and the descriptors of an epoll set.

use super::ProcDir;
use crate::Pid;
use rustix::fs::{AtFlags, CWD, FileType, OFlags, Statx, StatxFlags};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

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
    // The link leads to the open file itself, and nothing is opened.
    known(CWD, &path_of(pid, fd)?, AtFlags::empty())
}

/// Returns the path under which descriptor `fd` of process `pid` can be opened again, or, if it is a
/// directory, what is in it.
pub fn path_of(pid: Pid, fd: i32) -> Option<String> {
    ProcDir::Process(pid).path(format_args!("fd/{fd}")).ok()
}

/// Returns the path under which a descriptor of this process can be opened again, linked or changed.
pub fn path_of_own(fd: impl AsFd) -> String {
    format!("{}/fd/{}", ProcDir::This, fd.as_fd().as_raw_fd())
}

/// Returns the device, the inode and the time of the last change of the program that process `pid` runs;
/// `None` when it has ended or is hidden.
pub fn program_file(pid: Pid) -> Option<(u64, u64, i64)> {
    let stat = known(CWD, &super::program_path(pid)?, AtFlags::empty())?;
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

/// Checks that the descriptors of a process may be seen.
///
/// # Errors
/// It does not exist, or they are hidden from this user.
pub fn may_inspect(pid: Pid) -> rustix::io::Result<()> {
    ProcDir::Process(pid).open("fd", OFlags::RDONLY | OFlags::DIRECTORY).map(drop)
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
    let link = rustix::fs::statat(CWD, path_of(pid, fd)?, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((link.st_mode & 0o400 != 0, link.st_mode & 0o200 != 0))
}

/// Returns the path or the name that the kernel gives the file behind descriptor `fd` of a
/// process; `None` when it is closed or hidden.
pub fn link(dir: impl Into<ProcDir>, fd: i32) -> Option<PathBuf> {
    dir.into().link(format_args!("fd/{fd}"))
}

/// Returns the numbers of the descriptors that process `pid` has open; `None` where they are hidden.
pub fn descriptors(pid: Pid) -> Option<impl Iterator<Item = i32>> {
    ProcDir::Process(pid).numbers("fd")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_pipe_are_one_inode() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        assert_eq!(Descriptor::of(&reader), Descriptor::of(&writer));
        assert!(Descriptor::of(&reader).expect("known").is_pipe());
    }
}
