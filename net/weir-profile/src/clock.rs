//! The clock of spans: the time-stamp counter where it is invariant, else CLOCK_MONOTONIC.

use super::layout::{CLOCK_COUNTER, CLOCK_MONOTONIC};
use std::sync::OnceLock;
use weir_sys::cpu::{counter, monotonic_ns};

/// Losing the CPU to another thread and getting it back takes about this long; reading the CPU
/// clock costs a tenth of it at most.
pub const LONG_NS: u64 = 4000;
/// Falling asleep and being woken at once takes about this long as well.
const WAITS_NS: u64 = 2000;
/// Reading the CPU clock takes less than a thousandth of this. A thread that falls asleep for long
/// may keep back as much until it wakes.
const SETTLE_NS: u64 = 1_000_000;
/// A look takes up to 30 ns where other work has used the caches since the last one: less than a
/// thousandth of this.
const APART_NS: u64 = 32_000;

static CLOCK: OnceLock<SpanClock> = OnceLock::new();

/// The clock, calibrated once per process.
#[derive(Debug)]
pub struct SpanClock {
    /// [`CLOCK_COUNTER`] or [`CLOCK_MONOTONIC`].
    pub kind: u64,
    /// The longest time that counts as CPU time without reading the CPU clock, and that for a
    /// system call that may wait.
    pub limits: [u64; 2],
    /// The longest sum of such times before the CPU clock is read.
    pub settle: u64,
    /// The least time between two looks, on average, of a thread that counts often.
    pub apart: u64,
    source: quanta::Clock,
    pub hz: u64,
    ticks_per_ns: f64,
    /// What the CPU clock counts between two consecutive readings.
    cpu_bias_ns: u64,
    /// How long a reading takes.
    pub ask_ticks: u64,
}

impl SpanClock {
    fn new() -> SpanClock {
        // Calibrates for as long as necessary, 200 ms at most.
        let source = quanta::Clock::new();
        let apart = source.raw().abs_diff(monotonic_ns());
        let kind = if apart < 100_000_000 { CLOCK_MONOTONIC } else { CLOCK_COUNTER };
        let ticks = 1_u64 << 40;
        let ns = source.delta_as_nanos(0, ticks).max(1);
        let ticks_per_ns = ticks as f64 / ns as f64;
        let pairs = (0..64).map(|_| {
            let before = weir_sys::cpu::thread_ns();
            weir_sys::cpu::thread_ns() - before
        });
        let cpu_bias_ns = pairs.min().unwrap_or(0);
        let hz = (ticks_per_ns * 1e9) as u64;
        let [ask_ticks, long, waits, settle, apart] =
            [cpu_bias_ns, LONG_NS, WAITS_NS, SETTLE_NS, APART_NS]
                .map(|ns| (ns as f64 * ticks_per_ns) as u64);
        let limits = [long, waits];
        SpanClock { kind, limits, settle, apart, source, hz, ticks_per_ns, cpu_bias_ns, ask_ticks }
    }

    #[inline]
    pub fn now(&self) -> u64 {
        self.counted().unwrap_or_else(|| self.source.raw())
    }

    /// Reads the counter; `None` where it is not the clock.
    #[inline]
    pub fn counted(&self) -> Option<u64> {
        if self.kind == CLOCK_COUNTER { counter() } else { None }
    }

    pub fn ticks(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns) as u64
    }

    /// Returns the CPU time between two readings of the thread's CPU clock, in ticks, less the cost
    /// of a reading.
    pub fn cpu_ticks(&self, before_ns: u64, after_ns: u64) -> u64 {
        self.ticks(after_ns.saturating_sub(before_ns).saturating_sub(self.cpu_bias_ns))
    }
}

pub fn clock() -> &'static SpanClock {
    weir_sys::forks::get_or_make(&CLOCK, SpanClock::new)
}

/// Returns the clock if it exists; a profile can only be on once it does.
#[inline]
pub fn made() -> Option<&'static SpanClock> {
    CLOCK.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_the_monotonic_clock() {
        let clock = clock();
        let (ns, ticks) = (monotonic_ns(), clock.now());
        while monotonic_ns() - ns < 20_000_000 {
            std::hint::spin_loop();
        }
        let (ns, ticks) = (monotonic_ns() - ns, clock.now() - ticks);
        // Within a hundredth: a thread that lost its CPU between two readings does not make the
        // clock wrong.
        let ratio = clock.ticks(ns) as f64 / ticks as f64;
        assert!((0.9..1.1).contains(&ratio), "{ns} ns, {ticks} ticks");
        assert_eq!(clock.cpu_ticks(5, 5), 0);
    }
}
