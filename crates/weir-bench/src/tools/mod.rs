//! What the suites are built with.
//!
//! - [`case`], [`Group`] makers, [`work`]: recipes without ceremony; all of it is in [`prelude`].
//! - [`pattern`]: bytes that are known, and checked where they arrive.
//! - [`peer`]: the other side, a forked child.
//! - [`channel`]: mechanisms that carry bytes, the kernel's and weir's, behind one face.
//! - [`own`], [`ports`]: weir's own; [`place`]: names for ports; [`program`]: where weir itself is.
//! - [`bare`]: a ring without a library, the floor under weir's records.
//! - [`ring`]: a ring under a robust mutex, which weir's port is to beat.
//! - [`futex`]: sleeping on a word and waking who does.
//! - [`crew`]: writers beside the measuring process.
//! - [`stream`]: chunks through a channel to a peer that checks them.
//! - [`background`]: processes that run only while a batch does.

pub mod background;
pub mod bare;
pub mod channel;
pub mod crew;
pub mod futex;
pub mod own;
pub mod pattern;
pub mod peer;
pub mod place;
pub mod ports;
pub mod prelude;
pub mod program;
pub mod ring;
pub mod stream;

use peer::Peer;
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;
use weir_measure::bench::case::{
    Batch, BatchSize, Case, CaseError, Derived, Group, Measure, Normalise, Sides, Site, Work,
};
use weir_measure::bench::latency::open_loop;
pub use weir_measure::bench::params::size;
use weir_measure::bench::params::{Params, Placement, Unit};

/// A batch of this length is long against the clock and short against a disturbance.
const BATCH_NS: u64 = 2_000_000;
/// Fresh processes of a group, where nothing else is said.
pub const PROCESSES: u64 = 30;

/// Parameters of bytes that are moved: by what, and "self", "one-way" or "two-way".
pub fn moving(mechanism: &str, direction: &str) -> Params {
    Params {
        mechanism: Some(mechanism.into()),
        direction: Some(direction.into()),
        ..Params::default()
    }
}

/// A case of the default set with batches of 2 ms; change what differs.
pub fn case(
    name: impl Into<String>,
    params: Params,
    measure: Measure,
    make: impl Fn(&Site) -> Result<Box<dyn Work>, CaseError> + Send + Sync + 'static,
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

/// A group of thirty processes with a twin of its first case; change what differs.
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

/// A figure that is the difference of two cases.
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

/// A closure as work.
pub fn work<F>(batch: F) -> Result<Box<dyn Work>, CaseError>
where
    F: FnMut(u64) -> Result<Batch, CaseError> + 'static,
{
    Ok(Box::new(Closure(batch)))
}

/// Work that does the same thing again and again: time of one.
pub fn repeat<F: FnMut() + 'static>(mut operation: F) -> Result<Box<dyn Work>, CaseError> {
    try_repeat(move || {
        operation();
        Ok(())
    })
}

/// As [`repeat`], for what may fail.
pub fn try_repeat<F>(mut operation: F) -> Result<Box<dyn Work>, CaseError>
where
    F: FnMut() -> Result<(), CaseError> + 'static,
{
    work(move |count| Ok(Batch::time(timed(count, &mut operation)?, count)))
}

/// A round trip between this side and the peer, half of which is the figure.
pub fn round_trips<F>(mut peer: Peer, mut trip: F) -> Result<Box<dyn Work>, CaseError>
where
    F: FnMut() -> Result<(), CaseError> + 'static,
{
    work(move |count| {
        peer.more(count);
        let elapsed = timed(count, &mut trip)?;
        peer.wait()?;
        Ok(Batch::time(elapsed, 2 * count))
    })
}

/// Of an open loop: far below what any mechanism can do, above what timers blur.
pub const RATE_PER_S: u64 = 2_000;
/// Requests of one batch of it: enough for a 99th percentile.
const REQUESTS: u64 = 200;

/// Round trips at the stated rate, from intended starts: their latencies.
pub fn open_round_trips<F>(
    site: &Site,
    mut peer: Peer,
    mut trip: F,
) -> Result<Box<dyn Work>, CaseError>
where
    F: FnMut() -> Result<(), CaseError> + 'static,
{
    // On one CPU a busy wait would keep the other side from it.
    let spin = site.placement.is_across();
    work(move |count| {
        peer.more(count);
        let seen = open_loop(RATE_PER_S, count, spin, &mut trip)?;
        peer.wait()?;
        let values = vec![seen.p50_ns, seen.p99_ns];
        Ok(Batch { elapsed_ns: seen.elapsed_ns, values })
    })
}

/// A case that gives the latencies of requests.
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

/// Does something so many times: the nanoseconds that all of it took.
///
/// # Errors
/// That of the operation.
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

/// The CPUs of the two sides.
///
/// # Errors
/// Left out: they are not known, or are one.
pub fn two_cpus(site: &Site) -> Result<(usize, usize), CaseError> {
    match site.cpus[..] {
        [here, there, ..] if here != there => Ok((here as usize, there as usize)),
        _ => Err(CaseError::left_out("two known CPUs are needed")),
    }
}

/// Nanoseconds of the clock that all processes share.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A file without a name that is read and written past the page cache.
///
/// # Errors
/// Left out: the directory has no direct access.
pub fn direct_file(directory: &Path) -> Result<File, CaseError> {
    unnamed_file(directory, OFlags::RDWR | OFlags::DIRECT, "cannot open a file for direct access")
}

/// A file without a name, opened so.
///
/// # Errors
/// Left out: what is `lacking` in the directory.
pub fn unnamed_file(directory: &Path, flags: OFlags, lacking: &str) -> Result<File, CaseError> {
    let flags = flags | OFlags::TMPFILE | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR);
    opened.map(File::from).map_err(|error| {
        let (shown, why) = (directory.display(), std::io::Error::from(error));
        CaseError::left_out(format!("{lacking} in {shown}: {why}"))
    })
}

/// The file of all cases of a process, which take turns; made for the first of them.
///
/// # Errors
/// It cannot be made.
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

/// Nanoseconds since then.
pub fn elapsed_ns(begun: Instant) -> f64 {
    begun.elapsed().as_nanos() as f64
}
