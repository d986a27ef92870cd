//! The process that holds a name, as its lock file records it, and whether it still exists.
//!
//! A pid is valid only in its pid namespace, and a start time only in its time namespace. Two
//! containers may share the directory of a name. So the file also records the namespaces, and a
//! process in other namespaces goes by the lock alone.

use super::errno_of;
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, FlockOperation};
use rustix::io::Errno;
use weir_sys::proc::{ProcContents, ProcDir, Stat, namespace, own_id};

/// The beginning of a lock file.
const MARK: &str = "weir ";
/// What a name may be for, in a lock file. Without a word it is for a port.
const PORT: &str = "port";

/// The inodes of namespaces; 0 if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Namespaces {
    pid: u64,
    time: u64,
}

impl Namespaces {
    fn own() -> Namespaces {
        let of = |kind| namespace(kind).unwrap_or(0);
        Namespaces { pid: of("pid"), time: of("time") }
    }
}

/// The process that holds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameHolder {
    /// Its pid in its own namespace.
    pid: i32,
    started_ticks: u64,
    namespaces: Namespaces,
    is_port: bool,
}

impl NameHolder {
    fn own() -> NameHolder {
        let started_ticks = Stat::of(ProcDir::This).map_or(0, |stat| stat.started_ticks);
        let pid = std::process::id() as i32;
        NameHolder { pid, started_ticks, namespaces: Namespaces::own(), is_port: true }
    }

    /// Whether it has the name for a port, as far as the file says.
    pub fn is_port(&self) -> bool {
        self.is_port
    }

    /// Its pid, if this process is in the same pid namespace.
    pub fn pid(&self) -> Option<i32> {
        let own = Namespaces::own().pid;
        (own != 0 && own == self.namespaces.pid).then_some(self.pid)
    }

    pub fn describe(&self) -> String {
        match self.pid() {
            Some(pid) => format!("process {pid}"),
            None => format!("process {} of another pid namespace", self.pid),
        }
    }

    /// Whether this very process still exists, stopped or not. Where its pid is not valid here,
    /// `is_locked` decides: whether anybody has the lock.
    pub fn lives(&self, is_locked: impl FnOnce() -> bool) -> bool {
        let Some(pid) = self.pid() else { return is_locked() };
        let alive = rustix::process::Pid::from_raw(pid).is_some_and(|pid| {
            let found = rustix::process::test_kill_process(pid);
            found.is_ok() || found == Err(Errno::PERM)
        });
        // Without a /proc for this namespace the pid has to do.
        let Some(stat) = alive.then(|| stat_of(pid)).flatten() else { return alive };
        let same_clock = Namespaces::own().time == self.namespaces.time;
        // A zombie does not hold the name any longer. A holder that could not read its own stat has
        // recorded no time.
        let is_known = same_clock && self.started_ticks != 0;
        if is_known { stat.is_still(self.started_ticks) } else { !stat.has_ended() }
    }

    /// Reads a lock file; `None` if it is empty, an error if it is not weir's.
    pub fn read(lock: BorrowedFd) -> Result<Option<NameHolder>, ()> {
        let found = rustix::fs::fstat(lock).map_err(drop)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(());
        }
        let mut text = [0; 128];
        let count = rustix::io::pread(lock, &mut text, 0).map_err(drop)?;
        if count == 0 {
            return Ok(None);
        }
        let text = std::str::from_utf8(&text[..count]).map_err(drop)?;
        let mut words = text.strip_prefix(MARK).ok_or(())?.split_ascii_whitespace();
        let mut next = || words.next()?.parse::<u64>().ok();
        let (pid, started_ticks) = (next().ok_or(())?, next().ok_or(())?);
        let namespaces =
            Namespaces { pid: next().unwrap_or_default(), time: next().unwrap_or_default() };
        let is_port = words.next().is_none_or(|noun| noun == PORT);
        let pid = i32::try_from(pid).map_err(drop)?;
        Ok(Some(NameHolder { pid, started_ticks, namespaces, is_port }))
    }

    /// Records this process in a lock file, and what it has the name for.
    pub fn record_own(lock: BorrowedFd, noun: &str) -> rustix::io::Result<()> {
        let NameHolder { pid, started_ticks, namespaces, .. } = NameHolder::own();
        let Namespaces { pid: of_pid, time } = namespaces;
        let text = format!("{MARK}{pid} {started_ticks} {of_pid} {time} {noun}\n");
        if !weir_sys::may_reach(text.len() as u64) {
            return Err(Errno::FBIG);
        }
        // Cut off afterwards: if this cannot be written, the last holder stays recorded, and what
        // it has left is known for that.
        let bytes = rustix::io::pwrite(lock, text.as_bytes(), 0)?;
        rustix::fs::ftruncate(lock, bytes as u64)
    }
}

/// The /proc entry of a process of this pid namespace; `None` if /proc is that of another one.
fn stat_of(pid: i32) -> Option<Stat> {
    // `Stat::of` checks it too, but remembers the answer, which is another one in a child that was
    // forked into another namespace.
    (own_id()? == std::process::id() as i32).then(|| Stat::of(pid))?
}

/// Whether anybody has the lock of a file. The test takes a shared lock for a moment: a process
/// that wants the lock at that moment has to try again.
pub fn is_locked(lock: BorrowedFd) -> bool {
    match rustix::fs::flock(lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = rustix::fs::flock(lock, FlockOperation::Unlock);
            false
        }
        Err(cause) => cause == Errno::WOULDBLOCK,
    }
}

/// Opens a file. No forked child has the descriptor.
pub fn open(
    path: &std::path::Path,
    how: rustix::fs::OFlags,
    mode: rustix::fs::Mode,
) -> rustix::io::Result<weir_sys::forks::ParentOnly> {
    let open = || rustix::fs::open(path, how, mode).map_err(std::io::Error::from);
    weir_sys::forks::ParentOnly::make(open).map_err(|cause| errno_of(&cause))
}
