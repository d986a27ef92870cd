//! The table of this process, and what switches it on and off.
//!
//! Each word has one writer: a thread's table its owner (which releases the table to the next
//! owner), words 16 and 17 whoever switches. All accesses are relaxed unless a comment says
//! otherwise: a reader takes two snapshots of monotonic counts and concludes nothing from one about
//! another.

use super::clock;
use super::layout::{LEASE_NS, ROWS, SINCE_AT, UNTIL_AT, WANTED_AT, WORDS};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_sys::forks;
use weir_sys::overlay::Overlay;

pub static TABLE: Overlay<WORDS> = Overlay::new();

/// Prepares everything that must exist before the first count.
pub fn ready() -> io::Result<()> {
    clock::clock();
    TABLE.keep_from_children()
}

/// Whether calls are counted.
#[inline]
pub fn is_on() -> bool {
    TABLE.word(UNTIL_AT).load(Ordering::Relaxed) != 0
}

/// The end of the lease of a process that wants its own profile on: after all time, and another one
/// in each forked process, so that no gap continues in a child.
fn always() -> u64 {
    u64::MAX - 1 - u64::from(forks::epoch())
}

/// Whether the profile is on at this time. An expired lease ends it, unless this process wants it
/// on.
pub fn is_on_at(now: u64) -> bool {
    let word = TABLE.word(UNTIL_AT);
    let wanted = TABLE.word(WANTED_AT).load(Ordering::Relaxed) != 0;
    let next = if wanted { always() } else { 0 };
    let renewed = |until: u64| if until <= now { Some(next) } else { None };
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, renewed);
    word.load(Ordering::Relaxed) > now
}

/// Switches on or off for this process itself. Observers may keep it on.
pub fn want(on: bool, published: bool) {
    let clock = clock::clock();
    let now = clock.now();
    TABLE.word(WANTED_AT).store(u64::from(on), Ordering::Relaxed);
    let until = TABLE.word(UNTIL_AT);
    if on {
        if until.load(Ordering::Relaxed) <= now {
            TABLE.word(SINCE_AT).store(now, Ordering::Relaxed);
        }
        until.store(always(), Ordering::Relaxed);
    } else if published {
        until.fetch_min(now + clock.ticks(LEASE_NS), Ordering::Relaxed);
    } else {
        until.store(0, Ordering::Relaxed);
    }
}

/// Adds to a column of the row that begins at this word.
#[inline]
pub fn add(row: u32, column: usize, amount: u64) {
    let word = cell(row, column);
    word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Returns the word of a column of the row that begins at this word.
#[inline]
pub fn cell(row: u32, column: usize) -> &'static AtomicU64 {
    TABLE.word(row as usize + column * ROWS)
}
