//! Who holds a name: what its lock file says, and whether that process is still there.
//!
//! The number of a process means something in its pid namespace only, and when it started something
//! in its time namespace only. A name may lie in a directory that two containers share. So the file
//! says in which namespaces its numbers are told, and one who is in others goes by the lock alone.

use super::errno_of;
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, FlockOperation};
use rustix::io::Errno;
use weir_sys::proc::Stat;

/// What the lock file of a name begins with.
const MARK: &str = "weir ";

/// The namespaces that numbers are told in, as the kernel numbers these; 0 where it does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Namespaces {
    pid: u64,
    time: u64,
}

impl Namespaces {
    fn own() -> Namespaces {
        let of = |name: &str| rustix::fs::stat(name).map_or(0, |found| found.st_ino);
        Namespaces { pid: of("/proc/self/ns/pid"), time: of("/proc/self/ns/time") }
    }
}

/// Who holds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number in its own namespace.
    pid: i32,
    started_ticks: u64,
    namespaces: Namespaces,
}

impl Holder {
    fn own() -> Holder {
        let text = std::fs::read("/proc/self/stat").unwrap_or_default();
        let started_ticks = Stat::parse(&text).map_or(0, |stat| stat.started_ticks);
        let pid = std::process::id() as i32;
        Holder { pid, started_ticks, namespaces: Namespaces::own() }
    }

    /// Its number, where that means something to this process.
    pub fn pid(&self) -> Option<i32> {
        let own = Namespaces::own().pid;
        (own != 0 && own == self.namespaces.pid).then_some(self.pid)
    }

    /// Who that is, for people.
    pub fn describe(&self) -> String {
        match self.pid() {
            Some(pid) => format!("process {pid}"),
            None => format!("process {} of another pid namespace", self.pid),
        }
    }

    /// Whether the process is still there, stopped or not, and the same. `is_locked` says whether
    /// somebody has the lock: that is asked where the numbers mean nothing here.
    pub fn lives(&self, is_locked: impl FnOnce() -> bool) -> bool {
        let Some(pid) = self.pid() else { return is_locked() };
        let alive = rustix::process::Pid::from_raw(pid).is_some_and(|pid| {
            let found = rustix::process::test_kill_process(pid);
            found.is_ok() || found == Err(Errno::PERM)
        });
        // Where /proc cannot be read, or tells of other processes, the number must do.
        let Some(stat) = alive.then(|| stat_of(pid)).flatten() else { return alive };
        let same_clock = Namespaces::own().time == self.namespaces.time;
        // A zombie holds nothing.
        stat.state != b'Z' && (!same_clock || stat.started_ticks == self.started_ticks)
    }

    /// What a lock file says; an error if it is another's file.
    pub fn read(lock: BorrowedFd) -> Result<Option<Holder>, ()> {
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
        Ok(Some(Holder { pid: i32::try_from(pid).map_err(drop)?, started_ticks, namespaces }))
    }

    /// Writes this process into a lock file.
    pub fn say_own(lock: BorrowedFd) -> rustix::io::Result<()> {
        let Holder { pid, started_ticks, namespaces } = Holder::own();
        let text = format!("{MARK}{pid} {started_ticks} {} {}\n", namespaces.pid, namespaces.time);
        rustix::fs::ftruncate(lock, 0)?;
        rustix::io::pwrite(lock, text.as_bytes(), 0).map(drop)
    }
}

/// What /proc says of a process of this namespace; nothing where it is mounted for another.
fn stat_of(pid: i32) -> Option<Stat> {
    let own = std::fs::read_link("/proc/self").ok()?;
    if own.to_str()?.parse() != Ok(std::process::id()) {
        return None;
    }
    Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether somebody has the lock of a file. It is taken for a moment, shared with others who look:
/// one who comes for it just now tries again.
pub fn is_locked(lock: BorrowedFd) -> bool {
    match rustix::fs::flock(lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = rustix::fs::flock(lock, FlockOperation::Unlock);
            false
        }
        Err(cause) => cause == Errno::WOULDBLOCK,
    }
}

/// Opens a file that no forked child has.
pub fn open(
    path: &std::path::Path,
    how: rustix::fs::OFlags,
    mode: rustix::fs::Mode,
) -> rustix::io::Result<weir_sys::forks::ParentOnly> {
    let open = || rustix::fs::open(path, how, mode).map_err(std::io::Error::from);
    weir_sys::forks::ParentOnly::make(open).map_err(|cause| errno_of(&cause))
}
