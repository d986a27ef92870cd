//! The reference loop, by which absolute figures are normalised.
//!
//! A chain of multiplications, each of which needs the result of the one before (shifted and mixed
//! in between, so that no compiler can join two of them): it takes the same number of cycles on a
//! given CPU whatever else is true, so its time tells the CPU's speed at this moment. On shared
//! hosts that changes by a quarter while neither steal time nor pressure stall information shows
//! it.

use std::hint::black_box;
use std::time::Instant;

const STEPS: u64 = 8_000;
/// The shortest of so many runs: an interrupt lengthens one, not all.
const RUNS: usize = 3;

/// Nanoseconds of one step, now, on this CPU.
pub fn step_ns() -> f64 {
    let shortest = (0..RUNS).map(|_| run()).min_by(f64::total_cmp);
    shortest.unwrap_or(f64::NAN) / STEPS as f64
}

fn run() -> f64 {
    let begun = Instant::now();
    black_box(chain(black_box(STEPS)));
    begun.elapsed().as_nanos() as f64
}

/// So many steps; what comes out is of no use but to be kept from being left out.
pub fn chain(steps: u64) -> u64 {
    let mut x = steps;
    for _ in 0..steps {
        x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_some_time_and_not_much() {
        let step = step_ns();
        assert!(step > 0.05 && step < 1_000.0, "{step}");
        // Not folded away: more steps give another number.
        assert_ne!(chain(3), chain(4));
    }
}
