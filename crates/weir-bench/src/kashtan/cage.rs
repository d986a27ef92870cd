//! Less memory than is needed: a memory cgroup, a swap file, the kernel's swap read-ahead; and a
//! guard that takes all of it away again, however this process ends.
//!
//! The guard is a child outside of this process's group that waits for the end of a pipe whose
//! other end this process and its children hold: when the last of them is gone, it removes the
//! cgroup and the swap file and sets the read-ahead back.

use super::Mechanism;
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir_bench_sys::swap;
use weir_measure::bench::case::{Site, Trouble};
use weir_measure_sys::fork::{self, Child};

const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// Two to the power of this many pages at once.
const TUNED: &str = "5";
const SWAP_BYTES: u64 = 128 << 20;
/// How long a cgroup may take to become empty.
const PATIENCE: Duration = Duration::from_secs(5);

/// The swap read-ahead, which is the whole host's. Whoever sets it holds a lock on it, and whoever
/// swaps without setting it holds a lock with others that nobody sets it meanwhile.
struct ReadAhead {
    // Closing it gives the lock up.
    _file: File,
    before: String,
    set: bool,
}

/// The cage.
pub struct Cage {
    group: PathBuf,
    swap_file: Option<PathBuf>,
    read_ahead: Option<ReadAhead>,
    // In this order: closing the pipe lets the guard go to work, then it is waited for.
    alive: Option<OwnedFd>,
    guard: Option<Child>,
}

impl Cage {
    /// Makes a cgroup with this limit, and a swap file where it is to swap.
    pub fn new(site: &Site, mechanism: Mechanism, limit_bytes: u64) -> Result<Cage, Trouble> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let serial = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-bench-{}-{serial}", std::process::id());
        let group = own_group()?.join(&name);
        let swaps = mechanism.swaps();
        let swap_file = swaps.then(|| site.directory.join(format!(".{name}.swap")));
        let tuned = mechanism == Mechanism::SwapTuned;
        let read_ahead = swaps.then(|| ReadAhead::lock(tuned)).transpose()?;
        let (watched, alive) = rustix::pipe::pipe()?;
        let mut cage = Cage { group, swap_file, read_ahead, alive: Some(alive), guard: None };
        let guard = fork::child(|| {
            // This side of the pipe must not keep itself from ending.
            drop(cage.alive.take());
            cage.guard_until_the_end(&watched)
        })?;
        cage.guard = Some(guard);
        cage.make(limit_bytes)?;
        Ok(cage)
    }

    fn make(&self, limit_bytes: u64) -> Result<(), Trouble> {
        let cannot = |what: &str, error: &std::io::Error| {
            Trouble::left_out(format!("cannot {what}: {error} (root may)"))
        };
        fs::create_dir(&self.group).map_err(|error| cannot("make a memory cgroup", &error))?;
        let files = ["memory.limit_in_bytes", "memory.max"].map(|file| self.group.join(file));
        let Some(file) = files.iter().find(|file| file.exists()) else {
            return Err(Trouble::left_out(
                "the memory controller is not handed down to this cgroup",
            ));
        };
        fs::write(file, limit_bytes.to_string())
            .map_err(|error| cannot("limit a cgroup's memory", &error))?;
        let Some(path) = &self.swap_file else { return Ok(()) };
        swap::make_file(path, SWAP_BYTES).map_err(|error| cannot("make a swap file", &error))?;
        swap::on(path).map_err(|error| cannot("swap to a file", &error))
    }

    /// Puts this process into the cgroup.
    pub fn enter(&self) -> Result<(), Trouble> {
        let file = self.group.join("cgroup.procs");
        fs::write(&file, std::process::id().to_string())
            .map_err(|error| Trouble::left_out(format!("cannot enter a memory cgroup: {error}")))
    }

    /// The guard: waits, clears away, ends.
    fn guard_until_the_end(&self, watched: &OwnedFd) -> u8 {
        // Not killed with the parent, nor with its group.
        let _ = rustix::process::set_parent_process_death_signal(None);
        let _ = rustix::process::setsid();
        // Not known to whoever waits for the parent's output to end.
        let _ = rustix::stdio::dup2_stdout(watched);
        while matches!(rustix::io::read(watched, &mut [0; 1]), Err(rustix::io::Errno::INTR)) {}
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
    /// Locks it, and sets it where it is to be set. The lock is held until the guard, which has
    /// inherited it, has set it back.
    fn lock(set: bool) -> Result<ReadAhead, Trouble> {
        let lacking = |error: std::io::Error| {
            Trouble::left_out(format!("cannot set vm.page-cluster: {error} (root may)"))
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
        drop(self.alive.take());
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.wait();
        }
    }
}

/// The directory of this process's memory cgroup, of either version.
fn own_group() -> Result<PathBuf, Trouble> {
    let cgroups = fs::read_to_string("/proc/self/cgroup")?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let path = |matches: &dyn Fn(&str) -> bool| {
        cgroups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            matches(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let first = path(&|controllers| controllers.split(',').any(|name| name == "memory"));
    let second = path(&str::is_empty);
    let of_first = first.zip(mount(&mounts, "cgroup", "memory"));
    let of_second = || second.zip(mount(&mounts, "cgroup2", ""));
    let found = of_first.or_else(of_second).map(|(path, (root, place))| {
        // In a container the mount may show a part of the tree only.
        let inside = path.strip_prefix(root.trim_start_matches('/')).unwrap_or(&path);
        place.join(inside.trim_start_matches('/'))
    });
    found.ok_or_else(|| Trouble::left_out("no memory cgroups are mounted here"))
}

/// What part of a file system of this type, whose options name the controller, is mounted where.
fn mount(mounts: &str, kind: &str, controller: &str) -> Option<(String, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (place, rest) = line.split_once(" - ")?;
        let mut rest = rest.split(' ');
        let (found, options) = (rest.next()?, rest.nth(1)?);
        let fits = controller.is_empty() || options.split(',').any(|option| option == controller);
        let mut place = place.split(' ').skip(3);
        let (root, place) = (place.next()?, place.next()?);
        (found == kind && fits).then(|| (root.to_owned(), PathBuf::from(place)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_type_and_controller() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = |kind, controller| mount(mounts, kind, controller);
        let all = |place: &str| Some(("/".to_owned(), PathBuf::from(place)));
        assert_eq!(found("cgroup", "memory"), all("/sys/fs/cgroup/memory"));
        assert_eq!(found("cgroup2", ""), all("/sys/fs/cgroup/unified"));
        assert_eq!(found("cgroup", "hugetlb"), None);
    }
}
