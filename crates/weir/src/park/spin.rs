//! Looking again and again before sleeping, for as long as that has paid lately.

use super::Until;
use crate::error::Result;
use std::time::Instant;
use weir_policy::pipe::{PeerCpu, Spin};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_sys::rests::wait_for_loads;

/// Looks before the clock is read or the CPU looked up: several travel times of a cache line.
pub const QUICK_LOOKS: u32 = 40;
/// Looks between two readings of the clock.
const LOOKS: u32 = 16;
/// Readings of the clock between two checks of the other side's CPU.
const ROUNDS: u64 = 64;

/// How an end waits.
///
/// ```
/// use weir::{Options, Waiting};
/// let options = Options::new().waiting(Waiting::Sleep);
/// let (_writer, _reader) = weir::pipe(&options)?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// Spins for as long as that has paid lately, then sleeps. Never spins when the other end last
    /// ran on this CPU.
    #[default]
    Adaptive,
    /// Sleeps at once.
    Sleep,
    /// Spins until there is something to do. For ends that each have a CPU of their own. A writer of
    /// records whose elastic reader has a full ring sleeps after some milliseconds.
    Spin,
}

/// Decides how long one waiter spins, by what it has learnt.
#[derive(Debug)]
pub struct Spinner {
    waiting: Waiting,
    budget: Spin,
    /// The other side last ran on this CPU: spinning only keeps it from running.
    shares_cpu: bool,
}

impl Spinner {
    /// A spinner for a waiter that waits like this.
    pub fn new(waiting: Waiting) -> Spinner {
        Spinner { waiting, budget: Spin::default(), shares_cpu: false }
    }

    /// Whether the waiter looks until there is something, and never sleeps for it.
    pub fn only_spins(&self) -> bool {
        self.waiting == Waiting::Spin
    }

    /// Whether the other side ran on this CPU when that was last asked: it moves only while this side
    /// does not.
    #[inline]
    pub fn shares_cpu(&self) -> bool {
        self.shares_cpu
    }

    /// Begins a wait, and counts it. Returns how many looks come first, by [`poll_quickly`]: before the
    /// CPU is looked up, or a clock read.
    #[inline]
    pub fn quick_polls(&mut self) -> u32 {
        self.budget.begins();
        match self.waiting {
            Waiting::Sleep => 0,
            _ if self.shares_cpu => 1,
            _ => QUICK_LOOKS,
        }
    }

    /// Makes the looks that come first, and then looks until `look` finds something, `is_over` says
    /// that nothing will come, the time is over, or more spinning does not pay. Returns what `look`
    /// found.
    #[inline]
    pub fn spin<T>(
        &mut self,
        looks: u32,
        until: Until,
        peer: impl Fn() -> PeerCpu,
        is_over: impl Fn() -> bool,
        mut poll: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        match poll_quickly(looks, &is_over, || poll().transpose()) {
            Some(found) => found.map(Some),
            None => self.spin_on(until, peer, is_over, poll),
        }
    }

    /// Goes on looking after the quick looks.
    fn spin_on<T>(
        &mut self,
        until: Until,
        peer: impl Fn() -> PeerCpu,
        is_over: impl Fn() -> bool,
        mut poll: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let now = peer();
        self.shares_cpu = now == PeerCpu::SameCpu && self.waiting == Waiting::Adaptive;
        let budget_ns = match self.waiting {
            Waiting::Sleep => 0,
            Waiting::Adaptive => self.budget.budget_ns(now),
            Waiting::Spin => u64::MAX,
        };
        if budget_ns == 0 {
            return Ok(None);
        }
        let left_ns = until.left().map_or(u64::MAX, |left| left.as_nanos() as u64);
        let begun = Instant::now();
        for round in 1_u64.. {
            for _ in 0..LOOKS {
                if let Some(found) = poll()? {
                    self.budget.learn(true);
                    return Ok(Some(found));
                }
                std::hint::spin_loop();
            }
            let spent_ns = begun.elapsed().as_nanos() as u64;
            // The other side may have moved to this CPU.
            let is_pointless = self.waiting == Waiting::Adaptive
                && round.is_multiple_of(ROUNDS)
                && peer() == PeerCpu::SameCpu;
            if spent_ns >= budget_ns.min(left_ns) || is_pointless || is_over() {
                break;
            }
        }
        self.budget.learn(false);
        Ok(None)
    }

    /// Learns from a sleep that followed the spinning.
    pub fn slept(&mut self, ns: u64) {
        self.budget.slept(ns);
    }
}

/// Looks this many times, and rests after each look that finds nothing. Stops if `is_over` says that
/// nothing will come. Returns what a look found.
///
/// Without a rest the loads of many looks are under way at once. The CPU repeats all of them when
/// the line changes, and on two threads of one core they slow the other side down.
///
/// The looks become a part of the caller's code, so that what was found is used at once: between a
/// message and its answer each instruction counts.
#[inline(always)]
pub fn poll_quickly<T>(
    looks: u32,
    is_over: impl Fn() -> bool,
    mut poll: impl FnMut() -> Option<T>,
) -> Option<T> {
    for _ in 0..looks {
        let found = poll();
        if found.is_some() {
            return found;
        }
        // This costs nothing before a rest, and delays the next look behind one.
        if is_over() {
            break;
        }
        wait_for_loads();
    }
    None
}

/// Stores this thread's CPU, plus one, in `own`, and returns it.
pub fn publish_cpu(own: &AtomicU32) -> u32 {
    let here = rustix::thread::sched_getcpu() as u32 + 1;
    if own.load(Ordering::Relaxed) != here {
        own.store(here, Ordering::Relaxed);
    }
    here
}

/// Stores this thread's CPU in `own`, and compares it with `other`, the CPU that the other side has
/// stored (a hint).
pub fn peer_of(own: &AtomicU32, other: u32) -> PeerCpu {
    let here = publish_cpu(own);
    match other {
        0 => PeerCpu::Unknown,
        other if other == here => PeerCpu::SameCpu,
        _ => PeerCpu::OtherCpu,
    }
}
