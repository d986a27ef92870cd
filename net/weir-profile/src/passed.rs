//! Times that have passed, and how CPU time is divided among long ones of which only the sum is
//! known.

use super::layout::{SYSTEM, USER, WAIT};
use super::share::share;
use super::table::add;
use std::cell::Cell;

/// Most long times that share one reading of the CPU clock.
pub const MOST_LONG: usize = 64;

/// A system call.
#[derive(Clone, Copy, Debug)]
pub struct OpenCall {
    /// First word of its row; 0 for none.
    pub row: u32,
    /// Whether it may wait by intention.
    pub waits: bool,
}

impl OpenCall {
    pub const NONE: OpenCall = OpenCall { row: 0, waits: false };
}

/// A time that has passed.
#[derive(Clone, Copy)]
pub struct Passed {
    /// First word of the row of the subroutine.
    pub row: u32,
    /// The system call, if it was one.
    pub call: OpenCall,
    pub ticks: u64,
}

impl Passed {
    pub const NONE: Passed = Passed { row: 0, call: OpenCall::NONE, ticks: 0 };

    #[inline]
    pub fn add_cpu(self, ticks: u64) {
        if self.call.row == 0 {
            add(self.row, USER, ticks);
        } else {
            add(self.row, SYSTEM, ticks);
            add(self.call.row, SYSTEM, ticks);
        }
    }

    fn add_wait(self, ticks: u64) {
        add(self.row, WAIT, ticks);
        if self.call.row != 0 {
            add(self.call.row, WAIT, ticks);
        }
    }
}

/// Divides long times, which come to `all` ticks and lacked some of them on the CPU clock, into CPU
/// time and waiting.
///
/// Their sum is exact, but each single share is unknown: the missing time is taken off the waits
/// first, so that each keeps the same CPU time, or all of a shorter one.
pub fn divide(longs: &[Cell<Passed>], all: u64, lacked: u64) {
    let mut waits: [u64; MOST_LONG] = [0; MOST_LONG];
    let mut waiting = 0;
    for long in longs.iter().map(Cell::get).filter(|long| long.call.waits) {
        waits[waiting] = long.ticks;
        waiting += 1;
    }
    let waits = &mut waits[..waiting];
    let of_waits: u64 = waits.iter().sum();
    let cpu_each = share(waits, of_waits.saturating_sub(lacked));
    // Missing time that exceeds the waits was lost by the other times, to other threads.
    let (others, lost) = (all - of_waits, lacked.saturating_sub(of_waits));
    let part_lost = lost as f64 / others as f64;
    for long in longs.iter().map(Cell::get) {
        let off_cpu = match long.call.waits {
            true => long.ticks.saturating_sub(cpu_each),
            false if lost >= others => long.ticks,
            false => (long.ticks as f64 * part_lost) as u64,
        };
        long.add_cpu(long.ticks - off_cpu);
        long.add_wait(off_cpu);
    }
}
