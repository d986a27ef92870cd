//! The parts from which the suites are built.
//!
//! - [`case`], [`group`], [`work`] and other short ways to write a recipe; `prelude` has all of
//!   them.
//! - [`pattern`]: known bytes, which are checked where they arrive.
//! - [`peer`]: the other side of a case, a forked child.
//! - `channel`: mechanisms that carry bytes, of the kernel and of weir, as one type.
//! - `own`, `ports`, `mpxes`: the pipes, ports and mpx of weir; `place`: names for ports; [`program`]:
//!   where programs are.
//! - `bare`: a ring without a library, the lower bound for weir's records.
//! - `ring`: a ring under a robust mutex, the competitor of weir's port.
//! - `futex`: sleeping on a word, and waking those who sleep on it.
//! - [`crew`]: further writers, each a process.
//! - `stream`: chunks sent to a peer that checks them.
//! - `background`: processes that run only while a batch runs.

pub(crate) mod background;
pub(crate) mod bare;
pub(crate) mod channel;
pub mod crew;
pub(crate) mod futex;
pub(crate) mod mpxes;
pub(crate) mod own;
pub mod pattern;
pub mod peer;
pub(crate) mod place;
pub(crate) mod ports;
pub(crate) mod prelude;
pub mod program;
pub(crate) mod ring;
pub(crate) mod served;
pub(crate) mod stream;

use crate::engine::case::{
    Batch, BatchSize, Case, CaseError, Derived, Group, MadeWork, Measure, Normalise, Sides, Site,
    Work,
};
use crate::engine::latency::open_loop;
use crate::engine::params::{Params, Placement, Unit};
use peer::PeerProcess;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;
pub use weir_measure::machine::size;
pub use weir_sys::cpu::monotonic_ns as now_ns;

/// Long compared with the resolution of the clock, short compared with a disturbance.
const BATCH_NS: u64 = 2_000_000;
/// Number of fresh processes of a group, by default.
pub const PROCESSES: u64 = 30;

/// Returns the parameters of a case that moves bytes: the mechanism, and "self", "one-way" or
/// "two-way".
pub fn moving(mechanism: &str, direction: &str) -> Params {
    Params {
        mechanism: Some(mechanism.into()),
        direction: Some(direction.into()),
        ..Params::default()
    }
}

/// Returns the parameters of a case that is named by what it does.
pub fn operation(operation: &str) -> Params {
    Params { operation: Some(operation.into()), ..Params::default() }
}

/// Makes a case of the default set with batches of 2 ms. Callers change what differs.
pub fn case(
    name: impl Into<String>,
    params: Params,
    measure: Measure,
    make: impl Fn(&Site) -> MadeWork + Send + Sync + 'static,
) -> Case {
    Case {
        name: name.into(),
        params,
        measures: vec![measure],
        size: BatchSize::Time { ns: BATCH_NS },
        normalise: Normalise::Always,
        perspective: None,
        standard: true,
        resolution: None,
        weight: 1.0,
        make: Box::new(make),
    }
}

/// Makes a group of thirty processes with a twin of its first case. Callers change what differs.
pub fn group(name: impl Into<String>, sides: Sides, cases: Vec<Case>) -> Group {
    let standard = match sides {
        Sides::One => vec![Placement::SameCpu],
        Sides::Two => vec![Placement::SameCpu, Placement::OtherCpu],
        Sides::Free => vec![Placement::Free],
    };
    Group {
        name: name.into(),
        cases,
        derived: Vec::new(),
        baseline: None,
        sides,
        standard,
        processes: PROCESSES,
        twin: true,
    }
}

/// Makes a group whose cases are compared with the first of them.
pub fn compared(name: impl Into<String>, sides: Sides, cases: Vec<Case>) -> Group {
    let baseline = cases.first().map(|case| case.name.clone());
    Group { baseline, ..group(name, sides, cases) }
}

/// Makes a figure that is the difference of two cases.
pub fn difference(name: &str, params: Params, plus: &str, minus: &str) -> Derived {
    Derived {
        name: name.into(),
        params,
        plus: vec![plus.into()],
        minus: vec![minus.into()],
        divide_by: 1.0,
        measure: Measure::TIME,
        standard: true,
        perspective: None,
    }
}

struct Closure<F>(F);

impl<F: FnMut(u64) -> Result<Batch, CaseError>> Work for Closure<F> {
    fn batch(&mut self, count: u64) -> Result<Batch, CaseError> {
        (self.0)(count)
    }
}

/// Turns a closure into work.
pub fn work<F>(batch: F) -> MadeWork
where
    F: FnMut(u64) -> Result<Batch, CaseError> + 'static,
{
    Ok(Box::new(Closure(batch)))
}

/// Makes work that repeats an operation and gives the time of one.
pub fn repeat<F: FnMut() + 'static>(mut operation: F) -> MadeWork {
    try_repeat(move || {
        operation();
        Ok(())
    })
}

/// As [`repeat`], for an operation that may fail.
pub fn try_repeat<F>(mut operation: F) -> MadeWork
where
    F: FnMut() -> Result<(), CaseError> + 'static,
{
    work(move |count| Ok(Batch::time(timed(count, &mut operation)?, count)))
}

/// Makes work of round trips between this side and the peer. The figure is half of one.
pub fn round_trips<F>(mut peer: PeerProcess, mut trip: F) -> MadeWork
where
    F: FnMut() -> Result<(), CaseError> + 'static,
{
    work(move |count| {
        let elapsed = peer.trips(count, &mut trip)?;
        Ok(Batch::time(elapsed, 2 * count))
    })
}

/// The rate of open loops: far below what any mechanism can do, and low enough that the blur of
/// timers does not matter.
pub const RATE_PER_S: u64 = 2_000;
/// Requests of a batch of an open loop: enough for a 99th percentile.
const REQUESTS: u64 = 200;

/// Makes work of round trips at the stated rate. Latencies count from the intended starts.
pub fn open_round_trips<F>(site: &Site, mut peer: PeerProcess, mut trip: F) -> MadeWork
where
    F: FnMut() -> Result<(), CaseError> + 'static,
{
    // On one CPU a busy wait would keep the other side from running.
    let spin = site.placement.is_across();
    work(move |count| {
        peer.more(count);
        let seen = open_loop(RATE_PER_S, count, spin, &mut trip)?;
        peer.wait()?;
        let values = vec![seen.p50_ns, seen.p99_ns];
        Ok(Batch { elapsed_ns: seen.elapsed_ns, values })
    })
}

/// Turns a case into one that gives the latencies of requests.
pub fn latencies(case: Case) -> Case {
    Case {
        measures: ["p50", "p99"].map(|quantity| Measure::new(quantity, Unit::Ns)).into(),
        size: BatchSize::Count(REQUESTS),
        standard: false,
        normalise: Normalise::OnOneCpu,
        weight: 4.0,
        ..case
    }
}

/// Repeats an operation `count` times and returns the nanoseconds that all of it took.
#[inline]
pub fn timed(
    count: u64,
    mut operation: impl FnMut() -> Result<(), CaseError>,
) -> Result<f64, CaseError> {
    let begun = Instant::now();
    for _ in 0..count {
        operation()?;
    }
    Ok(elapsed_ns(begun))
}

/// Returns the CPUs of the two sides, if they are known and differ.
pub fn two_cpus(site: &Site) -> Result<(usize, usize), CaseError> {
    match site.cpus[..] {
        [here, there, ..] if here != there => Ok((here as usize, there as usize)),
        _ => Err(CaseError::left_out("two known CPUs are needed")),
    }
}

/// Fails where files are in memory: no read or write waits for a disk there, although Linux 6.6 and
/// newer open them for direct access.
pub fn demand_disk(directory: &Path) -> Result<(), CaseError> {
    if rustix::fs::statfs(directory)?.f_type as u64 == weir_sys::TMPFS_MAGIC {
        return Err(CaseError::left_out(format!(
            "{} is in memory, where nothing waits for a disk; choose another with --dir",
            directory.display()
        )));
    }
    Ok(())
}

/// Opens an unnamed file that is read and written past the page cache.
pub fn direct_file(directory: &Path) -> Result<File, CaseError> {
    demand_disk(directory)?;
    unnamed_file(directory, OFlags::RDWR | OFlags::DIRECT, "cannot open a file for direct access")
}

/// Opens an unnamed file. `lacking` begins the error for a directory where that is impossible.
pub fn unnamed_file(directory: &Path, flags: OFlags, lacking: &str) -> Result<File, CaseError> {
    let flags = flags | OFlags::TMPFILE | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR);
    opened.map(File::from).map_err(|error| {
        let (shown, why) = (directory.display(), std::io::Error::from(error));
        CaseError::left_out(format!("{lacking} in {shown}: {why}"))
    })
}

/// Returns the file that all cases of a process share; the first case makes it.
pub fn file_for_all(
    all: &OnceLock<File>,
    make: impl FnOnce() -> Result<File, CaseError>,
) -> Result<File, CaseError> {
    let file = match all.get() {
        Some(file) => file,
        None => {
            let made = make()?;
            all.get_or_init(|| made)
        }
    };
    Ok(file.try_clone()?)
}

/// Returns the nanoseconds since `begun`.
pub fn elapsed_ns(begun: Instant) -> f64 {
    begun.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "disk write 64 KiB" was 6 GB/s where temporary files are in memory.
    #[test]
    fn a_file_in_memory_is_no_disk() {
        let memory = Path::new("/dev/shm");
        let is_memory = rustix::fs::statfs(memory)
            .is_ok_and(|about| about.f_type as u64 == weir_sys::TMPFS_MAGIC);
        if !is_memory {
            eprintln!("SKIPPED: no files in memory");
            return;
        }
        let trouble = direct_file(memory).expect_err("no disk");
        assert!(trouble.left_out && trouble.text.contains("/dev/shm is in memory"), "{trouble}");
    }
}
