//! Less memory than is needed: a memory cgroup, a swap file, the kernel's swap read-ahead; and a
//! guard that takes all of it away again, however this process ends.
//!
//! The guard is a child outside of this process's group that waits for the end of a pipe whose
//! other end this process and its children hold: when the last of them is gone, it removes the
//! cgroup and the swap file and sets the read-ahead back.

use rustix::fd::OwnedFd;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir_measure::bench::case::{Site, Trouble};
use weir_sys::fork::{self, Child};
use weir_sys::swap;

const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// Two to the power of this many pages at once.
const TUNED: &str = "5";
const SWAP_BYTES: u64 = 128 << 20;
/// How long a cgroup may take to become empty.
const PATIENCE: Duration = Duration::from_secs(5);

/// The cage.
pub struct Cage {
    group: PathBuf,
    page_cluster: String,
    swap_file: Option<PathBuf>,
    // In this order: closing the pipe lets the guard go to work, then it is waited for.
    alive: Option<OwnedFd>,
    guard: Option<Child>,
}

/// The read-ahead set for the time of a batch.
pub struct Tuned<'a>(&'a Cage);

impl Cage {
    /// Makes a cgroup with this limit, and a swap file where it is to swap.
    pub fn new(site: &Site, swaps: bool, limit_bytes: u64) -> Result<Cage, Trouble> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let serial = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-bench-{}-{serial}", std::process::id());
        let group = own_group()?.join(&name);
        let page_cluster = fs::read_to_string(PAGE_CLUSTER).unwrap_or_default();
        let swap_file = swaps.then(|| site.directory.join(format!(".{name}.swap")));
        let (watched, alive) = rustix::pipe::pipe()?;
        let mut cage = Cage { group, page_cluster, swap_file, alive: Some(alive), guard: None };
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

    /// Sets the swap read-ahead, until what is returned is dropped.
    pub fn tune_swap(&self) -> Result<Tuned<'_>, Trouble> {
        fs::write(PAGE_CLUSTER, TUNED)
            .map_err(|error| Trouble::left_out(format!("cannot set vm.page-cluster: {error}")))?;
        Ok(Tuned(self))
    }

    /// The guard: waits, clears away, ends.
    fn guard_until_the_end(&self, watched: &OwnedFd) -> u8 {
        // Not killed with the parent, nor with its group.
        let _ = rustix::process::set_parent_process_death_signal(None);
        let _ = rustix::process::setsid();
        // Not known to whoever waits for the parent's output to end.
        let _ = rustix::stdio::dup2_stdout(watched);
        while matches!(rustix::io::read(watched, &mut [0; 1]), Err(rustix::io::Errno::INTR)) {}
        let _ = fs::write(PAGE_CLUSTER, self.page_cluster.trim());
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

impl Drop for Tuned<'_> {
    fn drop(&mut self) {
        let _ = fs::write(PAGE_CLUSTER, self.0.page_cluster.trim());
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
    let found = of_first.or_else(of_second).map(|(path, mount)| mount.join(path));
    found.ok_or_else(|| Trouble::left_out("no memory cgroups are mounted here"))
}

/// Where a file system of this type is mounted whose options name the controller.
fn mount(mounts: &str, kind: &str, controller: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, rest) = line.split_once(" - ")?;
        let mut rest = rest.split(' ');
        let (found, options) = (rest.next()?, rest.nth(1)?);
        let fits = controller.is_empty() || options.split(',').any(|option| option == controller);
        let place = place.split(' ').nth(4)?;
        (found == kind && fits).then(|| Path::new(place).to_owned())
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
        assert_eq!(found("cgroup", "memory"), Some("/sys/fs/cgroup/memory".into()));
        assert_eq!(found("cgroup2", ""), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(found("cgroup", "hugetlb"), None);
    }
}
