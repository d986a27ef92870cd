//! What locking costs in a write and a read of a pipe, at least.
//!
//! Joy (1980) found nearly a third of a read or write in spl, which kept interrupts away. Today the
//! kernel locks. Its locks cannot be timed from outside, and lockdown forbids to trace
//! them, so this is an estimate: their instructions, executed in user mode, as often as the source has them. In
//! Linux 6.18 (fs/pipe.c) a write of one byte into an empty pipe and the read of it take the pipe's mutex
//! twice, and once the spin lock of those who wait to read. A mutex takes a locked exchange to lock and one to
//! unlock; a spin lock takes one, and a plain store. Masking interrupts comes on top, and is not in it.

use crate::tools::prelude::*;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// Mutexes that are locked and unlocked in a write and the read of it.
const MUTEXES: usize = 2;

pub fn case_of_locks() -> Case {
    let params = Params { mechanism: Some("locks".into()), ..operation("phase") };
    let made = case("locks of a write and a read, at least", params, Measure::TIME, |_| {
        let (mutex, spin) = (AtomicU64::new(0), AtomicU64::new(0));
        repeat(move || {
            for _ in 0..MUTEXES {
                exchange(&mutex, 0, 1);
                exchange(&mutex, 1, 0);
            }
            exchange(&spin, 0, 1);
            // Release: with the exchange of whoever locks next; nobody does here.
            black_box(&spin).store(0, Ordering::Release);
        })
    });
    Case { standard: false, ..made }
}

/// A locked exchange, as the kernel's fast paths have it.
fn exchange(word: &AtomicU64, from: u64, to: u64) {
    // Acquire and release: with the other exchanges of the same word; nobody else has it here.
    let done =
        black_box(word).compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    debug_assert!(done, "nobody else has this lock");
    black_box(done);
}
