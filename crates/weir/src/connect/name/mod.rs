//! Names: a path with a unix socket, and a lock file beside it.
//!
//! Whoever listens holds the lock, and says in it who it is. A socket without a holder of its lock
//! is stale and is replaced. A lock can outlive its holder, where a child was forked that kept it:
//! then the recorded process decides, which is gone, and the lock file is replaced, by one in the
//! holder's pid namespace; for others the lock alone decides. All of that concerns only files that
//! are ours: what else lies at the names is left alone.

mod holder;
mod place;

pub use holder::Holder;
pub use place::directory;

use crate::error::{Error, ErrorKind, Result, Text};
use crate::memory::errno_of;
use holder::{is_locked, open};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_sys::forks::ParentOnly;

/// Tries for a lock that others take and leave meanwhile.
const TRIES: u32 = 8;
/// Between two looks whether a reader has come.
const LOOK: Duration = Duration::from_millis(5);

/// The path of a name: itself if it has a `/`, else one in [`directory`].
pub fn resolve(what: &Subject, name: &Path) -> Result<PathBuf> {
    let text = name.as_os_str().as_encoded_bytes();
    let refused = |why: Text| Err(what.error(ErrorKind::Invalid, name, why));
    let plain = text.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if plain.is_empty() || plain == b"." || plain == b".." || text.contains(&0) {
        return refused("it is not the name of a file".into());
    }
    if plain.ends_with(b".lock") {
        return refused("names do not end in '.lock', which is for their locks".into());
    }
    let path = if text.contains(&b'/') { name.to_owned() } else { directory()?.join(name) };
    let bytes = path.as_os_str().len();
    if bytes > MOST_PATH_BYTES {
        let why = format!("its path is too long: {bytes} bytes, {MOST_PATH_BYTES} are the most");
        return refused(why.into());
    }
    Ok(path)
}

/// Longest path of a socket (unix(7)).
const MOST_PATH_BYTES: usize = 107;

/// What a name is of, and what is done with it: for errors.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub operation: &'static str,
    pub noun: &'static str,
}

impl Subject {
    pub fn object(&self, name: &Path) -> String {
        format!("{} '{}'", self.noun, name.display())
    }

    pub fn error(&self, kind: ErrorKind, name: &Path, why: impl Into<Text>) -> Error {
        Error::new(kind, self.operation, self.object(name), why)
    }

    pub fn os(&self, name: &Path, cause: Errno) -> Error {
        Error::os(self.operation, self.object(name), cause)
    }
}

/// A name that is this process's, and the socket that listens there.
#[derive(Debug)]
pub struct Claim {
    socket: ParentOnly,
    _lock: ParentOnly,
    path: PathBuf,
}

impl Claim {
    /// Takes a name. `mode` is who may connect, as far as the directory lets them.
    pub fn new(what: &Subject, path: &Path, mode: Mode, backlog: i32) -> Result<Claim> {
        let Lock { file: lock, orphaned } = take_lock(what, path)?;
        let made = Claim::listen_at(what, path, mode, backlog, orphaned);
        let socket = made.inspect_err(|_| {
            // Ours, and held: a name that is not to be had is left without one.
            let _ = rustix::fs::unlink(lock_path(path));
        })?;
        Ok(Claim { socket, _lock: lock, path: path.to_owned() })
    }

    fn listen_at(
        what: &Subject,
        path: &Path,
        mode: Mode,
        backlog: i32,
        orphaned: bool,
    ) -> Result<ParentOnly> {
        let failed = |cause: Errno| what.os(path, cause);
        make_way(what, path, orphaned)?;
        let (made, address) = unix_socket(what, path)?;
        let socket = made.here().map_err(failed)?;
        // The socket's file gets its mode when it is bound, less the umask; what is missing then is
        // added, so that it never was open to more than it should be.
        rustix::fs::fchmod(socket, mode).map_err(failed)?;
        bind(socket, &address).map_err(failed)?;
        set_mode(path, mode).map_err(failed)?;
        listen(socket, backlog).map_err(failed)?;
        Ok(made)
    }

    /// The socket that listens, unless this is a forked child.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.get()
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.socket().is_some() {
            // While the lock is held, so that both are still ours.
            let _ = rustix::fs::unlink(&self.path);
            let _ = rustix::fs::unlink(lock_path(&self.path));
        }
    }
}

/// Sets the mode of a socket, unless the umask left it as it is to be. Not by its path: another may
/// lie there by now.
fn set_mode(path: &Path, mode: Mode) -> rustix::io::Result<()> {
    let there = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let there = there.here()?;
    let found = rustix::fs::fstat(there)?;
    let own = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket || found.st_uid != own {
        return Err(Errno::AGAIN);
    }
    if Mode::from_raw_mode(found.st_mode) & Mode::from_raw_mode(0o7777) == mode {
        return Ok(());
    }
    // What the descriptor refers to, and nothing else: fchmod(2) takes none of this kind.
    rustix::fs::chmod(format!("/proc/self/fd/{}", there.as_raw_fd()), mode)
}

/// Where the lock of a name lies.
pub fn lock_path(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    beside.into()
}

struct Lock {
    file: ParentOnly,
    /// A child of a holder that died had kept the lock, and may have kept the socket.
    orphaned: bool,
}

/// Wins the lock of a name, or says who has it.
fn take_lock(what: &Subject, path: &Path) -> Result<Lock> {
    let failed = |cause: Errno| what.os(path, cause);
    let beside = lock_path(path);
    let mut orphaned = false;
    for tried in 0..TRIES {
        let how = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let how = how | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = open(&beside, how, Mode::RUSR | Mode::WUSR).map_err(|cause| match cause {
            Errno::LOOP | Errno::ISDIR => foreign_lock(what, path),
            cause => failed(cause),
        })?;
        let lock = file.here().map_err(failed)?;
        let holder = Holder::read(lock).map_err(|()| foreign_lock(what, path))?;
        if rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // What was locked may have been removed or replaced meanwhile.
            if is_at(lock, &beside) {
                Holder::say_own(lock).map_err(failed)?;
                return Ok(Lock { file, orphaned });
            }
            continue;
        }
        match holder {
            // Taken a moment ago, by someone who has not yet said who it is.
            None => std::thread::sleep(LOOK),
            // One of another namespace: perhaps one who only looked had the lock.
            Some(holder) if holder.pid().is_none() && tried + 1 < TRIES => std::thread::sleep(LOOK),
            Some(holder) if holder.lives(|| true) => {
                let why = format!("{} is its reader", holder.describe());
                return Err(what.error(ErrorKind::Taken, path, why));
            }
            Some(_) => {
                replace_lock(&beside).map_err(failed)?;
                orphaned = true;
            }
        }
    }
    Err(what.error(ErrorKind::Taken, path, "others are taking the name"))
}

fn foreign_lock(what: &Subject, path: &Path) -> Error {
    let why = format!("another file has the name of its lock, '{}'", lock_path(path).display());
    what.error(ErrorKind::Taken, path, why)
}

/// Removes a lock file whose recorded holder is gone, and whose lock is held all the same. One
/// process at a time: who removes holds a lock on the directory, and looks again under it.
fn replace_lock(beside: &Path) -> rustix::io::Result<()> {
    let parent = beside.parent().filter(|parent| !parent.as_os_str().is_empty());
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(parent.unwrap_or(Path::new(".")), how, Mode::empty())?;
    if rustix::fs::flock(directory.here()?, FlockOperation::NonBlockingLockExclusive).is_err() {
        std::thread::sleep(LOOK);
        return Ok(());
    }
    let how = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open(beside, how, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        file => file?,
    };
    let lock = file.here()?;
    let held = is_locked(lock);
    let gone = matches!(Holder::read(lock), Ok(Some(holder)) if !holder.lives(|| held));
    if held && gone { rustix::fs::unlink(beside) } else { Ok(()) }
}

fn is_at(file: BorrowedFd, path: &Path) -> bool {
    let (ours, there) = (rustix::fs::fstat(file), rustix::fs::lstat(path));
    let (Ok(ours), Ok(there)) = (ours, there) else { return false };
    (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
}

/// Removes what a former holder has left at the path, and nothing else.
fn make_way(what: &Subject, path: &Path, orphaned: bool) -> Result<()> {
    let found = match rustix::fs::lstat(path) {
        Err(Errno::NOENT) => return Ok(()),
        found => found.map_err(|cause| what.os(path, cause))?,
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        let why = "a file that is no socket has the name";
        return Err(what.error(ErrorKind::Taken, path, why));
    }
    let (socket, address) = unix_socket(what, path)?;
    let connected = || connect(socket.here()?, &address);
    // Orphaned, it may still listen, for nobody.
    if !orphaned && connected() != Err(Errno::CONNREFUSED) {
        let why = "the socket of another program has the name";
        return Err(what.error(ErrorKind::Taken, path, why));
    }
    rustix::fs::unlink(path).map_err(|cause| what.os(path, cause))
}

fn unix_socket(what: &Subject, path: &Path) -> Result<(ParentOnly, SocketAddrUnix)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let make = || socket_with(family, kind, SocketFlags::CLOEXEC, None).map_err(io::Error::from);
    let socket = ParentOnly::make(make).map_err(|cause| what.os(path, errno_of(&cause)))?;
    let address = SocketAddrUnix::new(path).map_err(|_| {
        let why = format!("the path is longer than {MOST_PATH_BYTES} bytes");
        what.error(ErrorKind::Invalid, path, why)
    })?;
    Ok((socket, address))
}

/// Connects to who listens at a path, waiting for someone to, until then.
pub fn dial(what: &Subject, path: &Path, until: Option<Instant>) -> Result<ParentOnly> {
    loop {
        let (made, address) = unix_socket(what, path)?;
        let socket = made.here().map_err(|cause| what.os(path, cause))?;
        let cause = match connect_in_time(socket, &address, until) {
            Ok(()) if listens_for_nobody(socket) => Errno::CONNREFUSED,
            Ok(()) => return Ok(made),
            Err(cause) => cause,
        };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let is_missing = matches!(cause, Errno::CONNREFUSED | Errno::NOENT);
        match left {
            Some(left) if is_missing && !left.is_zero() => std::thread::sleep(LOOK.min(left)),
            _ if is_missing => {
                return Err(what.error(ErrorKind::NoReader, path, "no reader is listening"));
            }
            _ if cause == Errno::AGAIN => {
                let why = "the queue of its opens is full";
                return Err(what.error(ErrorKind::WouldBlock, path, why));
            }
            _ if cause == Errno::PROTOTYPE || cause == Errno::NOTSOCK => {
                let why = "what lies there belongs to another program";
                return Err(what.error(ErrorKind::Taken, path, why));
            }
            _ => return Err(what.os(path, cause)),
        }
    }
}

/// Whether the process that listened is dead, and a child of it has kept the socket.
fn listens_for_nobody(socket: BorrowedFd) -> bool {
    match weir_sys::peer::pidfd(socket) {
        Ok(pidfd) => wait_readable(pidfd, Duration::ZERO),
        // Reaped already; on kernels that do not know, nothing is known.
        Err(cause) => cause.raw_os_error() == Some(Errno::SRCH.raw_os_error()),
    }
}

/// Where the queue of connections is full, connect(2) waits as long as sends may.
fn connect_in_time(
    socket: BorrowedFd,
    address: &SocketAddrUnix,
    until: Option<Instant>,
) -> rustix::io::Result<()> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let time = left.unwrap_or_default().max(QUEUE_PATIENCE);
    set_socket_timeout(socket, Timeout::Send, Some(time))?;
    loop {
        match connect(socket, address) {
            Err(Errno::INTR) => {}
            connected => break connected?,
        }
    }
    set_socket_timeout(socket, Timeout::Send, None)
}

/// How long an open waits behind others where nothing is said.
const QUEUE_PATIENCE: Duration = Duration::from_secs(1);

/// What lies at a name, seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A process listens, of this number; one of another pid namespace has none here.
    Held(Holder),
    /// Its reader is gone.
    Stale,
}

/// The state of a name; `None` if it is none of ours.
pub fn state(path: &Path) -> Option<State> {
    let how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = open(&lock_path(path), how, Mode::empty()).ok()?;
    let lock = file.here().ok()?;
    let holder = Holder::read(lock).ok()??;
    // The lock is tried only where nothing else can tell: a reader that comes just now has to try
    // once more then.
    Some(if holder.lives(|| is_locked(lock)) { State::Held(holder) } else { State::Stale })
}

/// Removes what a reader that is gone has left.
pub fn remove(what: &Subject, path: &Path) -> Result<()> {
    match state(path) {
        Some(State::Stale) => {}
        Some(State::Held(holder)) => {
            let why = format!("{} is its reader", holder.describe());
            return Err(what.error(ErrorKind::Taken, path, why));
        }
        None => return Err(what.error(ErrorKind::Invalid, path, "there is none of that name")),
    }
    let lock = take_lock(what, path)?;
    make_way(what, path, lock.orphaned)?;
    rustix::fs::unlink(lock_path(path)).map_err(|cause| what.os(path, cause))?;
    drop(lock);
    Ok(())
}

/// Device and inode of the socket at a path.
pub fn socket_id(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::lstat(path).ok()?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    is_socket.then_some((found.st_dev, found.st_ino))
}

/// Whether a descriptor is readable or hung up by then.
pub fn wait_readable(socket: impl AsFd, time: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut asked = [PollFd::new(&socket, PollFlags::IN)];
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    poll(&mut asked, Some(&time)).is_ok_and(|count| count > 0)
}
