//! Limited memory: a memory cgroup, a swap file, the kernel's swap read-ahead, and a guard that
//! removes all of it however this process ends.
//!
//! The guard is a child outside of this process's group. It waits for a word of this process, or for
//! the end of a pipe whose other end this process and its children hold. Then it removes the cgroup
//! and the swap file and restores the read-ahead.

use crate::engine::case::{CaseError, Site};
use crate::sys::swap;
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir_measure::cgroup;
use weir_measure::sys::fork::{self, Child};

const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// The logarithm to base 2 of the pages read at once.
const TUNED: &str = "5";
const SWAP_BYTES: u64 = 128 << 20;
/// How long a cgroup may take to become empty.
const PATIENCE: Duration = Duration::from_secs(5);

/// The swap read-ahead, which is global to the host. A process that sets it holds an exclusive
/// lock. A process that swaps without setting it holds a shared lock, so that nobody sets it
/// meanwhile.
struct ReadAhead {
    // Closing it releases the lock.
    _file: File,
    before: String,
    set: bool,
}

/// Whether a cage has a file for swapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CageSwap {
    None,
    /// With the read-ahead as it is.
    Usual,
    /// With a read-ahead of 32 pages.
    Tuned,
}

pub struct Cage {
    group: PathBuf,
    swap_file: Option<PathBuf>,
    read_ahead: Option<ReadAhead>,
    // The order matters: closing the pipe starts the guard's work, then the guard is waited for.
    alive: Option<OwnedFd>,
    guard: Option<Child>,
}

impl Cage {
    /// Creates a cgroup with this limit, and a swap file if it swaps.
    pub fn new(site: &Site, swap: CageSwap, limit_bytes: u64) -> Result<Cage, CaseError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let serial = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-bench-{}-{serial}", std::process::id());
        let own = cgroup::directories("memory").into_iter().next();
        let own = own.ok_or_else(|| CaseError::left_out("no memory cgroups are mounted"))?;
        let group = own.join(&name);
        let swaps = swap != CageSwap::None;
        let swap_file = swaps.then(|| site.directory.join(format!(".{name}.swap")));
        let tuned = swap == CageSwap::Tuned;
        let read_ahead = swaps.then(|| ReadAhead::lock(tuned)).transpose()?;
        let (watched, alive) = rustix::pipe::pipe()?;
        let mut cage = Cage { group, swap_file, read_ahead, alive: Some(alive), guard: None };
        let guard = fork::child(|| {
            // The guard must not hold this end of the pipe, or the pipe would never end.
            drop(cage.alive.take());
            cage.guard_until_the_end(&watched)
        })?;
        cage.guard = Some(guard);
        cage.make(limit_bytes)?;
        Ok(cage)
    }

    fn make(&self, limit_bytes: u64) -> Result<(), CaseError> {
        let cannot = |what: &str, error: &std::io::Error| {
            CaseError::left_out(format!("cannot {what}: {error} (root can)"))
        };
        fs::create_dir(&self.group).map_err(|error| cannot("make a memory cgroup", &error))?;
        let files = ["memory.limit_in_bytes", "memory.max"].map(|file| self.group.join(file));
        let Some(file) = files.iter().find(|file| file.exists()) else {
            return Err(CaseError::left_out(
                "the memory controller is not delegated to this cgroup",
            ));
        };
        fs::write(file, limit_bytes.to_string())
            .map_err(|error| cannot("limit a cgroup's memory", &error))?;
        let Some(path) = &self.swap_file else { return Ok(()) };
        swap::make_file(path, SWAP_BYTES).map_err(|error| cannot("make a swap file", &error))?;
        swap::on(path).map_err(|error| cannot("swap to a file", &error))
    }

    /// Puts this process into the cgroup.
    pub fn enter(&self) -> Result<(), CaseError> {
        let file = self.group.join("cgroup.procs");
        fs::write(&file, std::process::id().to_string())
            .map_err(|error| CaseError::left_out(format!("cannot enter a memory cgroup: {error}")))
    }

    /// Runs the guard: waits, cleans up, ends.
    fn guard_until_the_end(&self, watched: &OwnedFd) -> u8 {
        // The guard must not be killed with the parent or with its group.
        let _ = rustix::process::set_parent_process_death_signal(None);
        let _ = rustix::process::setsid();
        // The guard must not hold the parent's output open.
        let _ = rustix::stdio::dup2_stdout(watched);
        let _ = rustix::io::retry_on_intr(|| rustix::io::read(watched, &mut [0; 1]));
        if let Some(read_ahead) = &self.read_ahead {
            read_ahead.set_back();
        }
        let begun = Instant::now();
        while fs::remove_dir(&self.group).is_err()
            && self.group.exists()
            && begun.elapsed() < PATIENCE
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(path) = &self.swap_file {
            let _ = swap::off(path);
            let _ = fs::remove_file(path);
        }
        0
    }
}

impl ReadAhead {
    /// Locks the read-ahead, and sets it if `set`. The guard has inherited the lock and holds it
    /// until it has restored the value.
    fn lock(set: bool) -> Result<ReadAhead, CaseError> {
        let lacking = |error: std::io::Error| {
            CaseError::left_out(format!("cannot set vm.page-cluster: {error} (root can)"))
        };
        let mut file = File::options().read(true).write(set).open(PAGE_CLUSTER).map_err(lacking)?;
        let kind = if set { FlockOperation::LockExclusive } else { FlockOperation::LockShared };
        rustix::fs::flock(&file, kind)?;
        let mut before = String::new();
        file.read_to_string(&mut before)?;
        if set {
            fs::write(PAGE_CLUSTER, TUNED).map_err(lacking)?;
        }
        Ok(ReadAhead { _file: file, before, set })
    }

    fn set_back(&self) {
        if self.set {
            let _ = fs::write(PAGE_CLUSTER, self.before.trim());
        }
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        // A word, not the end of the pipe: children of later cages hold the pipe too.
        if let Some(alive) = self.alive.take() {
            let _ = rustix::io::write(&alive, &[0]);
        }
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.wait();
        }
    }
}
