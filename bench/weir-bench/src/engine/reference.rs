//! The reference loop, which normalises absolute figures.
//!
//! It runs four chains of multiplications side by side; each multiplication needs the result of the
//! one before (shifted and mixed in between, so that no compiler can join two of them). The number
//! of cycles is always the same, so the time shows how fast this CPU is at this moment: its clock,
//! and whether something else runs on the same core. On shared hosts that changes by a quarter
//! while neither steal time nor pressure stall information shows it.
//!
//! One chain alone mostly waits for itself and hardly notices what shares the core. Measured beside
//! a system call on a host with two states, of which the slower took the call 1.17 times as long:
//! one chain 1.02, two 1.07, four 1.19 (rank correlation with the call 0.57, 0.79, 0.82). A pipe to
//! itself took 1.29, memcpy of 4 KiB 1.40: for them it corrects a part.
//!
//! The chains have a name each, so that they stay in registers at every optimization level. When they
//! were an array, a build for size kept them in memory. A step then took 4.9 ns in one build and 5.4 in
//! another, and figures that were normalised differed by 9 % for the same work.

use std::hint::black_box;
use std::time::Instant;

/// The loop as it is. Steps of another version are not to be compared with its steps.
pub const VERSION: u64 = 1;
const STEPS: u64 = 8_000;
/// Number of runs, of which the shortest counts: an interrupt lengthens one, not all.
const RUNS: usize = 3;

/// Returns the nanoseconds of one step, now, on this CPU.
pub fn step_ns() -> f64 {
    let shortest = (0..RUNS).map(|_| run()).min_by(f64::total_cmp);
    shortest.unwrap_or(f64::NAN) / STEPS as f64
}

fn run() -> f64 {
    let begun = Instant::now();
    black_box(chains(black_box(STEPS)));
    begun.elapsed().as_nanos() as f64
}

/// Runs this many steps; the result only keeps the compiler from removing them.
///
/// It calls nothing, not even the iterator of a range, and is compiled here, never in the crate that
/// uses it. An unoptimized build called the iterator at each step, which then took 3.6 times as
/// long.
#[inline(never)]
pub fn chains(steps: u64) -> u64 {
    let (mut a, mut b, mut c, mut d) = (steps, steps + 1, steps + 2, steps + 3);
    let mut left = steps;
    while left > 0 {
        (a, b, c, d) = (mix(a), mix(b), mix(c), mix(d));
        left -= 1;
    }
    a ^ b ^ c ^ d
}

#[inline(always)]
fn mix(x: u64) -> u64 {
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_some_time_and_not_much() {
        let step = step_ns();
        assert!(step > 0.05 && step < 1_000.0, "{step}");
        // Not optimised away: more steps give another number.
        assert_ne!(chains(3), chains(4));
    }
}
