//! The round trip of a cache line between two CPUs.
//!
//! Hosts move virtual CPUs: two of them may share a cache now (50 to 100 ns) and not some minutes
//! later (300 to 570 ns), and everything that goes through shared memory is then three to five
//! times slower. So the round trip is measured before and after each round across CPUs.

use super::place::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TRIPS: u64 = 200;
const RUNS: usize = 5;
/// The time limit. A load may keep the other side from its CPU; then there is no figure.
const LIMIT: Duration = Duration::from_millis(20);

/// A word on a cache line of its own.
#[repr(align(128))]
struct CacheLine(AtomicU64);

/// Measures the median round trip in nanoseconds; `None` when the two did not run at the same time.
pub fn round_trip_ns(here: usize, there: usize) -> Option<f64> {
    let (line, over) = (CacheLine(AtomicU64::new(0)), AtomicBool::new(false));
    let deadline = Instant::now() + LIMIT;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if pin(there).is_ok() {
                answer(&line.0, &over);
            }
        });
        let asker = scope.spawn(|| {
            let pinned = pin(here).is_ok();
            let result = if pinned { ask(&line.0, deadline) } else { None };
            over.store(true, Ordering::Relaxed);
            result
        });
        asker.join().ok().flatten()
    })
}

/// Answers even numbers with odd ones until the end.
fn answer(line: &AtomicU64, over: &AtomicBool) {
    let mut expected = 1;
    loop {
        let mut spins = 0_u32;
        // Acquire and release pair with those of `ask`: the number is the message.
        while line.load(Ordering::Acquire) != expected {
            spins += 1;
            if spins.is_multiple_of(1_024) && over.load(Ordering::Relaxed) {
                return;
            }
            std::hint::spin_loop();
        }
        // Release and acquire: the other side's. Each store answers the load before it.
        line.store(expected + 1, Ordering::Release);
        expected += 2;
    }
}

fn ask(line: &AtomicU64, deadline: Instant) -> Option<f64> {
    let mut sent = 0;
    let mut times = Vec::with_capacity(RUNS);
    for run in 0..=RUNS {
        let begun = Instant::now();
        for _ in 0..TRIPS {
            line.store(sent + 1, Ordering::Release);
            sent += 2;
            let mut spins = 0_u32;
            while line.load(Ordering::Acquire) != sent {
                spins += 1;
                if spins.is_multiple_of(1_024) && Instant::now() > deadline {
                    return None;
                }
                std::hint::spin_loop();
            }
        }
        // The first run waits for the other side to start.
        if run > 0 {
            times.push(begun.elapsed().as_nanos() as f64 / TRIPS as f64);
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    Some(times[RUNS / 2])
}

#[cfg(test)]
mod tests {
    use super::super::params::Placement;
    use super::super::place::Topology;
    use super::*;

    #[test]
    fn a_line_goes_there_and_back_or_the_limit_holds() {
        let Ok(cpus) = Topology::read().find(Placement::OtherCpu) else { return };
        let begun = Instant::now();
        if let Some(trip) = round_trip_ns(cpus[0] as usize, cpus[1] as usize) {
            assert!(trip > 1.0, "{trip}");
        }
        // On one CPU the two take turns by time slices: there is no figure, but it ends.
        let _ = round_trip_ns(cpus[0] as usize, cpus[0] as usize);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
