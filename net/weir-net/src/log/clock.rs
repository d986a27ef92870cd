//! The time of an event: CLOCK_REALTIME, computed from the CPU's counter where it has one.
//!
//! Reading the kernel's clock for each event (23.7 ns here) costs as much as the event; the counter
//! costs 10.4 ns. So every 10 ms an event measures the offset between the two again; in between,
//! the counter advances at the rate that the `quanta` crate has measured. Where there is no usable
//! counter, quanta reads the monotonic clock, and only the cost differs.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};

/// How long an offset is used before it is measured again.
const ANCHORED_NS: u64 = 10_000_000;
/// The two clocks were read together when both readings took no longer than this.
const TOGETHER_NS: u64 = 1_000;
/// Attempts to read them together; losing the CPU meanwhile spoils one.
const TRIES: u32 = 4;

/// The clock of a process.
#[derive(Debug)]
pub struct EventClock {
    counter: quanta::Clock,
    /// The offset to add to the scaled counter, modulo 2^64.
    offset_ns: AtomicU64,
    /// The counter's value from which on the offset is too old.
    renew_at: AtomicU64,
    /// [`ANCHORED_NS`] in ticks of the counter.
    steps: u64,
}

impl EventClock {
    /// Creates a clock; the first in a process measures the counter's rate (some hundred
    /// microseconds).
    pub fn new() -> EventClock {
        let counter = quanta::Clock::new();
        let many_ns = counter.delta_as_nanos(0, 1 << 30).max(1);
        let steps = (u128::from(ANCHORED_NS) << 30) / u128::from(many_ns);
        let renew_at = AtomicU64::new(counter.raw());
        EventClock { counter, offset_ns: AtomicU64::new(0), renew_at, steps: steps as u64 }
    }

    /// Returns the time since 1970.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        let raw = self.counter.raw();
        // Relaxed, both: each is valid by itself. A thread that sees a new limit and the old offset
        // is off by what the counter drifts in a few more milliseconds.
        if raw.wrapping_sub(self.renew_at.load(Ordering::Relaxed)) as i64 >= 0 {
            self.renew();
        }
        let offset_ns = self.offset_ns.load(Ordering::Relaxed);
        self.counter.delta_as_nanos(0, raw).wrapping_add(offset_ns)
    }

    #[cold]
    fn renew(&self) {
        let mut raw = 0;
        for _ in 0..TRIES {
            let before = self.counter.raw();
            let real_ns = real_ns();
            let after = self.counter.raw();
            raw = after;
            let apart = after.saturating_sub(before);
            let middle_ns = self.counter.delta_as_nanos(0, before + apart / 2);
            // Relaxed: see above.
            self.offset_ns.store(real_ns.wrapping_sub(middle_ns), Ordering::Relaxed);
            if self.counter.delta_as_nanos(0, apart) <= TOGETHER_NS {
                break;
            }
        }
        // Relaxed: see above.
        self.renew_at.store(raw.wrapping_add(self.steps), Ordering::Relaxed);
    }
}

/// Returns the time since 1970 from the kernel.
pub fn real_ns() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_is_renewed_once_it_is_old() {
        let clock = EventClock::new();
        let at = |clock: &EventClock| clock.renew_at.load(Ordering::Relaxed);
        let made = at(&clock);
        clock.now_ns();
        let first = at(&clock);
        assert!(first > made, "the first look anchors it");
        // As if it had been anchored long ago, and to another time.
        clock.renew_at.store(first.wrapping_sub(2 * clock.steps), Ordering::Relaxed);
        clock.offset_ns.store(0, Ordering::Relaxed);
        clock.now_ns();
        assert!(at(&clock) >= first);
        assert_ne!(clock.offset_ns.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn it_shows_the_time_of_day() {
        let clock = EventClock::new();
        // This does not test that the clock is exact (that is measured), only that it is the right
        // clock: one minute would be no drift.
        let apart = clock.now_ns().abs_diff(real_ns());
        assert!(apart < 60_000_000_000, "{apart}");
    }
}
