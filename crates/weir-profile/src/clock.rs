//! The clock of spans: the time-stamp counter where it is invariant, else CLOCK_MONOTONIC.

use super::layout::{CLOCK_COUNTER, CLOCK_MONOTONIC};
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;

/// To lose the CPU to another thread and get it back takes about as long, and the CPU clock costs a
/// tenth of it at most.
const LONG_NS: u64 = 4000;
/// So does falling asleep and being woken at once.
const WAITS_NS: u64 = 2000;
/// A look at the CPU clock is less than a hundredth of this.
const SETTLE_NS: u64 = 250_000;

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// The clock, calibrated once a process.
#[derive(Debug)]
pub struct Clock {
    source: quanta::Clock,
    /// [`CLOCK_COUNTER`] or [`CLOCK_MONOTONIC`].
    pub kind: u64,
    /// Ticks a second.
    pub hz: u64,
    ticks_per_ns: f64,
    /// What the CPU clock counts of being read twice.
    cpu_bias_ns: u64,
    /// How long that takes.
    pub ask_ticks: u64,
    /// Longest time that is taken to have been on a CPU without asking the CPU clock.
    pub long: u64,
    /// The same, of a system call that may wait.
    pub waits: u64,
    /// Longest time, added up, that waits for a look at the CPU clock.
    pub settle: u64,
}

impl Clock {
    fn new() -> Clock {
        // Calibrates for as long as that takes, 200 ms at most.
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
        let [ask_ticks, long, waits, settle] =
            [cpu_bias_ns, LONG_NS, WAITS_NS, SETTLE_NS].map(|ns| (ns as f64 * ticks_per_ns) as u64);
        Clock { source, kind, hz, ticks_per_ns, cpu_bias_ns, ask_ticks, long, waits, settle }
    }

    /// Ticks now.
    #[inline]
    pub fn now(&self) -> u64 {
        self.source.raw()
    }

    /// So many nanoseconds in ticks.
    pub fn ticks(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns) as u64
    }

    /// CPU time between two looks at the thread's CPU clock, in ticks, without what looking cost.
    pub fn cpu_ticks(&self, before_ns: u64, after_ns: u64) -> u64 {
        self.ticks(after_ns.saturating_sub(before_ns).saturating_sub(self.cpu_bias_ns))
    }
}

/// The clock, made if there is none yet.
pub fn clock() -> &'static Clock {
    CLOCK.get_or_init(Clock::new)
}

/// The clock if there is one: before, no profile is on.
#[inline]
pub fn made() -> Option<&'static Clock> {
    CLOCK.get()
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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
        // Within a hundredth: a thread that lost its CPU between two looks is not a wrong clock.
        let ratio = clock.ticks(ns) as f64 / ticks as f64;
        assert!((0.9..1.1).contains(&ratio), "{ns} ns, {ticks} ticks");
        assert_eq!(clock.cpu_ticks(5, 5), 0);
    }
}
