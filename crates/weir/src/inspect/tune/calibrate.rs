//! Calibration: finds by short streams between two CPUs which capacity and habits are fast here.

use crate::error::Result;
use crate::park::Waiting;
use crate::pipe::defaults::{Habits, known_caches};
use crate::pipe::options::Options;
use crate::pipe::stream::pipe;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::{Duration, Instant};
use weir_policy::pipe::{RingTrial, choose, fallback};

const CAPACITY_BYTES: [u64; 4] = [256 << 10, 1 << 20, 2 << 20, 4 << 20];
/// Rounds over all trials. The best round of a trial counts, since other work only slows it down.
const ROUNDS: usize = 5;
const TRIAL: Duration = Duration::from_millis(20);
const CHUNK_BYTES: usize = 16 << 10;
/// Round trips that measure a wake-up.
const WAKES: u32 = 400;

/// The progress of a calibration.
///
/// ```
/// use weir::tune::{Progress, calibrate};
/// let report = |progress: Progress| eprintln!("{} of {}", progress.done, progress.total);
/// let habits = calibrate(report)?;
/// assert!(habits.capacity_bytes > 0);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Trials done.
    pub done: usize,
    /// Trials in all.
    pub total: usize,
}

/// Measures this machine and chooses habits, in about a second. On one CPU it measures nothing.
///
/// # Errors
/// A pipe cannot be made.
pub fn calibrate(mut progress: impl FnMut(Progress)) -> Result<Habits> {
    let Some(cpus) = two_cpus() else { return Ok(fallback(known_caches())) };
    let kinds: Vec<(u64, bool)> =
        CAPACITY_BYTES.iter().flat_map(|bytes| [(*bytes, false), (*bytes, true)]).collect();
    let mut best = vec![0.0_f64; kinds.len()];
    let total = ROUNDS * kinds.len();
    for round in 0..ROUNDS {
        for step in 0..kinds.len() {
            // The order differs from round to round, so that a drift favours no trial.
            let at = (step * 3 + round) % kinds.len();
            let (capacity, dirties) = kinds[at];
            best[at] = best[at].max(stream(cpus, capacity, dirties)?);
            progress(Progress { done: round * kinds.len() + step + 1, total });
        }
    }
    let trials: Vec<RingTrial> = kinds
        .iter()
        .zip(best)
        .map(|((capacity_bytes, dirties), rate)| RingTrial {
            capacity_bytes: *capacity_bytes,
            dirties: *dirties,
            rate,
        })
        .collect();
    Ok(choose(known_caches(), &trials, wake_ns(cpus)?))
}

fn two_cpus() -> Option<[usize; 2]> {
    let set = sched_getaffinity(None).ok()?;
    let mut allowed = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Some([allowed.next()?, allowed.next()?])
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // If the kernel refuses, the trial runs on whatever CPU it gets.
    let _ = sched_setaffinity(None, &set);
}

/// Runs both closures at once, each on its CPU. Returns what the first returns.
fn on_two<T: Send>(
    cpus: [usize; 2],
    first: impl FnOnce() -> Result<T> + Send,
    second: impl FnOnce() -> Result<()> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let there = scope.spawn(move || {
            pin(cpus[1]);
            second()
        });
        let here = scope.spawn(move || {
            pin(cpus[0]);
            first()
        });
        let result = here.join().expect("no panic in calibration");
        there.join().expect("no panic in calibration")?;
        result
    })
}

/// Measures the bytes in a nanosecond through a pipe with these habits.
fn stream(cpus: [usize; 2], capacity: u64, dirties: bool) -> Result<f64> {
    let options = Options::new().capacity_bytes(capacity).dirties(dirties);
    let (mut writer, mut reader) = pipe(&options)?;
    on_two(
        cpus,
        move || {
            let (chunk, mut bytes) = (vec![7; CHUNK_BYTES], 0);
            let begun = Instant::now();
            while begun.elapsed() < TRIAL {
                bytes += writer.write(&chunk)?;
            }
            Ok(bytes as f64 / begun.elapsed().as_nanos() as f64)
        },
        move || {
            let mut buffer = vec![0; CHUNK_BYTES];
            while reader.read(&mut buffer)? > 0 {}
            Ok(())
        },
    )
}

/// Measures the cost of waking a sleeper on the other CPU: half of a round trip between sleepers.
fn wake_ns(cpus: [usize; 2]) -> Result<u64> {
    let options = Options::new().capacity_bytes(4096).waiting(Waiting::Sleep);
    let ((mut there, mut end), (mut back, mut answer)) = (pipe(&options)?, pipe(&options)?);
    on_two(
        cpus,
        move || {
            let mut shortest = u64::MAX;
            for _ in 0..WAKES {
                let begun = Instant::now();
                there.write(&[1])?;
                answer.read(&mut [0])?;
                shortest = shortest.min(begun.elapsed().as_nanos() as u64 / 2);
            }
            Ok(shortest)
        },
        move || {
            while end.read(&mut [0])? > 0 {
                if back.write(&[1]).is_err() {
                    break;
                }
            }
            Ok(())
        },
    )
}
