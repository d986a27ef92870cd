//! Names: a path with a unix socket, and a lock file beside it.
//!
//! The process that listens holds the lock and is recorded in its file. A socket whose lock nobody
//! holds is stale and is replaced. A forked child can keep the lock of a holder that died. A
//! process in the holder's pid namespace sees that the recorded process is gone, and replaces the
//! lock file; elsewhere the lock alone decides. Foreign files at these paths are left alone.

mod holder;
mod place;
mod unnamed;

pub use holder::NameHolder;
pub use place::directory;
pub use unnamed::SHOWN;

use crate::error::{Error, ErrorKind, Result, Text};
use crate::memory::errno_of;
use crate::park::ready::is_ready;
use holder::{is_locked, open};
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_ring::primitive::{AtomicU64, Ordering};
use weir_sys::forks::ParentOnly;

/// Tries for a lock that others take and release meanwhile.
const TRIES: u32 = 8;
/// How lock files are opened: a link or a FIFO at the path must do no harm.
const LOCK_FLAGS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);
/// The pause between two tries, for a lock or for a reader.
pub const LOOK: Duration = Duration::from_millis(5);

/// The path of a name: itself if it has a `/`, else one in [`directory`].
pub fn resolve(what: &Subject, name: &Path) -> Result<PathBuf> {
    let text = name.as_os_str().as_encoded_bytes();
    let refused = |why: Text| Err(what.error(ErrorKind::Invalid, name, why));
    let plain = text.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if plain.is_empty() || plain == b"." || plain == b".." || text.contains(&0) {
        return refused("it is not the name of a file".into());
    }
    if plain.ends_with(b".lock") {
        return refused("it ends in '.lock', which is reserved for the locks of names".into());
    }
    let path = if text.contains(&b'/') { name.to_owned() } else { directory()?.join(name) };
    let bytes = path.as_os_str().len();
    if bytes > MOST_PATH_BYTES {
        let why =
            format!("its path is too long: {bytes} bytes, at most {MOST_PATH_BYTES} are allowed");
        return refused(why.into());
    }
    Ok(path)
}

/// The longest path of a socket (unix(7)).
const MOST_PATH_BYTES: usize = 107;

/// What an error says: the operation, and what kind of thing the name is of.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The operation.
    pub operation: &'static str,
    /// What has the name.
    pub noun: &'static str,
}

impl Subject {
    /// The object of an error: the noun with the name.
    pub fn object(&self, name: &Path) -> String {
        format!("{} '{}'", self.noun, name.display())
    }

    /// An error of the operation on a name.
    pub fn error(&self, kind: ErrorKind, name: &Path, why: impl Into<Text>) -> Error {
        Error::new(kind, self.operation, self.object(name), why)
    }

    /// An error of the kernel.
    pub fn os(&self, name: &Path, cause: Errno) -> Error {
        Error::os(self.operation, self.object(name), cause)
    }
}

/// A name that this process holds, and the socket that listens there.
#[derive(Debug)]
pub struct BoundName {
    socket: ParentOnly,
    /// `None` if nothing is at the path.
    lock: Option<ParentOnly>,
    /// The device and inode of the socket at the path.
    id: Option<(u64, u64)>,
    path: PathBuf,
}

impl BoundName {
    /// Takes a name. `mode` says who may connect, if the directory lets them.
    pub fn new(what: &Subject, path: &Path, mode: Mode, backlog: i32) -> Result<BoundName> {
        let Lock { file: lock, before } = take_lock(what, path)?;
        let made = BoundName::listen_at(what, path, mode, backlog, before);
        let socket = made.inspect_err(|_| {
            // The lock is held and this process's: do not leave it behind without a socket. Beside
            // one of a former holder it says that this is one.
            if before == Before::Nobody || rustix::fs::lstat(path).is_err() {
                let _ = rustix::fs::unlink(lock_path(path));
            }
        })?;
        Ok(BoundName { socket, lock: Some(lock), id: socket_id(path), path: path.to_owned() })
    }

    fn listen_at(
        what: &Subject,
        path: &Path,
        mode: Mode,
        backlog: i32,
        before: Before,
    ) -> Result<ParentOnly> {
        let failed = |cause: Errno| what.os(path, cause);
        make_way(what, path, before)?;
        let (made, address) = unix_socket(what, path)?;
        let socket = made.here().map_err(failed)?;
        // At the bind the socket's file gets this mode less the umask, and then what is missing: it
        // never is open to more users than it should be.
        rustix::fs::fchmod(socket, mode).map_err(failed)?;
        bind(socket, &address).map_err(failed)?;
        let listens = set_mode(path, mode).and_then(|()| listen(socket, backlog));
        listens.map(|()| made).map_err(|cause| {
            // Without the lock the next one would take the socket for another program's. AGAIN:
            // another file is there by now.
            if cause != Errno::AGAIN {
                let _ = rustix::fs::unlink(path);
            }
            failed(cause)
        })
    }

    /// The listening socket; `None` in a forked child.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.get()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for BoundName {
    fn drop(&mut self) {
        let lock = self.lock.as_ref().and_then(ParentOnly::get);
        let (Some(lock), Some(_)) = (lock, self.socket()) else { return };
        // Somebody may have removed a file of this process, and another process may have the name.
        if self.id.is_some() && socket_id(&self.path) == self.id {
            let _ = rustix::fs::unlink(&self.path);
        }
        let beside = lock_path(&self.path);
        if is_at(lock, &beside) {
            let _ = rustix::fs::unlink(&beside);
        }
    }
}

/// Sets the mode of a socket, if the umask changed it. By descriptor, since another file may be at
/// the path by now.
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
    // fchmod(2) does not accept such a descriptor.
    rustix::fs::chmod(weir_sys::proc::path_of_own(there), mode)
}

pub fn lock_path(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    beside.into()
}

struct Lock {
    file: ParentOnly,
    before: Before,
}

/// Who had a name before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Nobody: a socket at the path is another program's.
    Nobody,
    /// A holder that is gone. It may have left its socket.
    Holder,
}

/// Takes the lock of a name, or returns an error that names its holder.
fn take_lock(what: &Subject, path: &Path) -> Result<Lock> {
    let failed = |cause: Errno| what.os(path, cause);
    let beside = lock_path(path);
    for tried in 0..TRIES {
        let how = LOCK_FLAGS | OFlags::RDWR | OFlags::CREATE | OFlags::NOCTTY;
        let file = open(&beside, how, Mode::RUSR | Mode::WUSR).map_err(|cause| match cause {
            Errno::LOOP | Errno::ISDIR | Errno::NXIO => foreign_lock(what, path),
            cause => failed(cause),
        })?;
        let lock = file.here().map_err(failed)?;
        let is_mine = rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        let holder = NameHolder::read(lock).map_err(|()| foreign_lock(what, path))?;
        if is_mine {
            // Others take away the lock of a holder that is gone: so this looks whether the file is
            // still at its path once it says who has it.
            NameHolder::record_own(lock, what.noun).map_err(failed)?;
            if is_at(lock, &beside) {
                let before = holder.map_or(Before::Nobody, |_| Before::Holder);
                return Ok(Lock { file, before });
            }
            continue;
        }
        match holder {
            // A process has just taken it, and is not yet recorded.
            None => std::thread::sleep(LOOK),
            // The holder is of another namespace. Perhaps a process held the lock only to test it.
            Some(holder) if holder.pid().is_none() && tried + 1 < TRIES => std::thread::sleep(LOOK),
            Some(holder) if holder.lives(|| true) => {
                let why = format!("{} is its reader", holder.describe());
                return Err(what.error(ErrorKind::Taken, path, why));
            }
            Some(_) => take_away(path, &beside).map_err(failed)?,
        }
    }
    Err(what.error(ErrorKind::Taken, path, "other processes are taking the name"))
}

fn foreign_lock(what: &Subject, path: &Path) -> Error {
    let why = format!("the path of its lock, '{}', is another file", lock_path(path).display());
    what.error(ErrorKind::Taken, path, why)
}

/// Removes the socket and the lock file of a holder that is gone, although its lock is held. One
/// process at a time does so: it locks the directory and checks again.
fn take_away(path: &Path, beside: &Path) -> rustix::io::Result<()> {
    let parent = beside.parent().filter(|parent| !parent.as_os_str().is_empty());
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(parent.unwrap_or(Path::new(".")), how, Mode::empty())?;
    if rustix::fs::flock(directory.here()?, FlockOperation::NonBlockingLockExclusive).is_err() {
        std::thread::sleep(LOOK);
        return Ok(());
    }
    let file = match open(beside, LOCK_FLAGS | OFlags::RDWR, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        file => file?,
    };
    let lock = file.here()?;
    let is_orphaned = || {
        let held = is_locked(lock);
        held && matches!(NameHolder::read(lock), Ok(Some(holder)) if !holder.lives(|| held))
    };
    if is_orphaned() {
        // A process that has just taken the lock is not yet recorded.
        std::thread::sleep(LOOK);
    }
    if !is_orphaned() {
        return Ok(());
    }
    // Its socket may still listen, but nobody reads it. The lock goes last: by that the socket is
    // known, whenever this process ends.
    if socket_id(path).is_some() {
        rustix::fs::unlink(path)?;
    }
    rustix::fs::unlink(beside)
}

fn is_at(file: BorrowedFd, path: &Path) -> bool {
    let (ours, there) = (rustix::fs::fstat(file), rustix::fs::lstat(path));
    let (Ok(ours), Ok(there)) = (ours, there) else { return false };
    (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
}

/// Removes the socket of a former holder, and nothing else, from the path.
fn make_way(what: &Subject, path: &Path, before: Before) -> Result<()> {
    let found = match rustix::fs::lstat(path) {
        Err(Errno::NOENT) => return Ok(()),
        found => found.map_err(|cause| what.os(path, cause))?,
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(what.error(ErrorKind::Taken, path, NO_SOCKET));
    }
    let (socket, address) = unix_socket(what, path)?;
    let is_left = match before {
        Before::Nobody => false,
        Before::Holder => {
            let socket = socket.here().map_err(|cause| what.os(path, cause))?;
            // Another program may listen there, whose queue is full.
            connect_in_time(socket, &address, None) == Err(Errno::CONNREFUSED)
        }
    };
    if !is_left {
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
        let why = format!("its path is longer than {MOST_PATH_BYTES} bytes");
        what.error(ErrorKind::Invalid, path, why)
    })?;
    Ok((socket, address))
}

/// Connects to the process that listens at a path. Waits for one until `until`.
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
            _ if is_missing && is_no_socket(path) => {
                return Err(what.error(ErrorKind::Taken, path, NO_SOCKET));
            }
            Some(left) if is_missing && !left.is_zero() => std::thread::sleep(LOOK.min(left)),
            _ if is_missing => {
                return Err(what.error(ErrorKind::NoReader, path, "no reader is listening"));
            }
            _ if cause == Errno::AGAIN => {
                let why = "its queue of connections is full";
                return Err(what.error(ErrorKind::WouldBlock, path, why));
            }
            _ if cause == Errno::PROTOTYPE || cause == Errno::NOTSOCK => {
                let why = "the socket of another program has the name";
                return Err(what.error(ErrorKind::Taken, path, why));
            }
            _ => return Err(what.os(path, cause)),
        }
    }
}

const NO_SOCKET: &str = "a file that is not a socket has the name";

/// Whether another file is at a path, where nobody can listen.
fn is_no_socket(path: &Path) -> bool {
    let is_socket = |mode| FileType::from_raw_mode(mode) == FileType::Socket;
    rustix::fs::stat(path).is_ok_and(|found| !is_socket(found.st_mode))
}

/// Whether the process that listened is dead, and a child of it keeps the socket open.
fn listens_for_nobody(socket: BorrowedFd) -> bool {
    match weir_sys::peer::pidfd(socket) {
        Ok(pidfd) => is_ready(pidfd, PollFlags::IN),
        // ESRCH: it is reaped already. Older kernels cannot tell.
        Err(cause) => cause.raw_os_error() == Some(Errno::SRCH.raw_os_error()),
    }
}

/// Connects to an address. While the queue of connections is full, connect(2) waits as long as the
/// send timeout allows.
fn connect_in_time(
    socket: BorrowedFd,
    address: &SocketAddrUnix,
    until: Option<Instant>,
) -> rustix::io::Result<()> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    let until = until.unwrap_or_else(|| Instant::now() + QUEUE_PATIENCE);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // A time of zero would be none at all.
        set_socket_timeout(socket, Timeout::Send, Some(left.max(LOOK)))?;
        match connect(socket, address) {
            Err(Errno::INTR) if left.is_zero() => return Err(Errno::AGAIN),
            Err(Errno::INTR) => {}
            done => {
                done?;
                return set_socket_timeout(socket, Timeout::Send, None);
            }
        }
    }
}

/// How long connecting without a timeout waits in a full queue.
const QUEUE_PATIENCE: Duration = Duration::from_secs(1);

/// Whether a reader holds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameState {
    Held(NameHolder),
    Stale,
}

/// The state of the name of a port; `None` if there is no such name, or it is that of something else.
pub fn state_of_port(path: &Path) -> Option<NameState> {
    state_if(path, NameHolder::is_port)
}

fn state_if(path: &Path, is_right: fn(&NameHolder) -> bool) -> Option<NameState> {
    let file = open(&lock_path(path), LOCK_FLAGS, Mode::empty()).ok()?;
    let lock = file.here().ok()?;
    let holder = NameHolder::read(lock).ok()?.filter(is_right)?;
    // The lock is tested only where nothing else can tell: a reader that takes the name at this
    // moment has to try again.
    Some(if holder.lives(|| is_locked(lock)) { NameState::Held(holder) } else { NameState::Stale })
}

/// Removes the files that a dead reader has left.
pub fn remove(what: &Subject, path: &Path) -> Result<()> {
    match state_if(path, |_| true) {
        Some(NameState::Stale) => {}
        Some(NameState::Held(holder)) => {
            let why = format!("{} is its reader", holder.describe());
            return Err(what.error(ErrorKind::Taken, path, why));
        }
        None => {
            let why = format!("there is no {} of that name", what.noun);
            return Err(what.error(ErrorKind::Invalid, path, why));
        }
    }
    let lock = take_lock(what, path)?;
    let made_way = make_way(what, path, lock.before);
    // Where another file has the name, the lock is all that is left of the reader. It names this
    // process by now.
    rustix::fs::unlink(lock_path(path)).map_err(|cause| what.os(path, cause))?;
    drop(lock);
    made_way
}

/// Publishes which socket is at a path, in the words for its device and its inode.
pub fn publish_socket_id(path: &Path, device: &AtomicU64, inode: &AtomicU64) {
    if let Some(id) = socket_id(path) {
        // Relaxed: numbers for `weir stat`.
        device.store(id.0, Ordering::Relaxed);
        inode.store(id.1, Ordering::Relaxed);
    }
}

/// The device and inode of the socket at a path.
pub fn socket_id(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::lstat(path).ok()?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    is_socket.then_some((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests;
