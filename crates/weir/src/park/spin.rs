//! Looking again and again before sleeping, for as long as that has paid lately.

use super::Until;
use crate::error::Result;
use std::time::Instant;
use weir_policy::pipe::{PeerCpu, Rest, Rests, Spin, Yielding};
use weir_ring::primitive::{AtomicU32, Ordering, fence};
use weir_sys::rests::{wait_for_loads, wait_for_stores};

/// Looks before the clock is read or the CPU looked up: several travel times of a cache line.
const QUICK_LOOKS: u32 = 40;
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

/// The looks that come first in a wait, and what is between two of them.
#[derive(Clone, Copy, Debug)]
pub struct QuickLooks {
    count: u32,
    rest: Rest,
}

impl QuickLooks {
    /// None: they have been made.
    pub const NONE: QuickLooks = QuickLooks { count: 0, rest: Rest::Fence };

    /// Whether a full fence is between two looks.
    #[inline(always)]
    pub fn rest_by_fences(self) -> bool {
        self.rest == Rest::Fence
    }
}

impl Default for QuickLooks {
    fn default() -> QuickLooks {
        QuickLooks { count: QUICK_LOOKS, rest: Rest::Fence }
    }
}

/// Decides how long one waiter spins and how it rests between two looks, by what it has learnt.
#[derive(Debug)]
pub struct Spinner {
    waiting: Waiting,
    budget: Spin,
    rests: Rests,
    /// When a round of waits began, for the rests, and how many bytes had been moved by then.
    round_began: Instant,
    round_bytes: u64,
    yielding: Yielding,
    /// The other side last ran on this CPU: spinning only keeps it from running.
    shares_cpu: bool,
}

impl Spinner {
    /// A spinner for a waiter whose wake-ups cost `wake_ns`.
    pub fn new(waiting: Waiting, wake_ns: u64) -> Spinner {
        Spinner {
            waiting,
            budget: Spin::new(wake_ns),
            rests: Rests::default(),
            round_began: Instant::now(),
            round_bytes: 0,
            yielding: Yielding::default(),
            shares_cpu: false,
        }
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

    /// Begins a wait, and counts it. Returns the looks that come first, by [`look_quickly`]: before the
    /// CPU is looked up, or a clock read for each wait. `moved_bytes` is what the waiter has moved in
    /// all, by which it learns which rests are good.
    #[inline]
    pub fn quick_looks(&mut self, moved_bytes: u64) -> QuickLooks {
        self.budget.begins();
        if self.rests.begins() {
            self.end_round(moved_bytes);
        }
        let count = match self.waiting {
            Waiting::Sleep => 0,
            _ if self.shares_cpu => 1,
            _ => QUICK_LOOKS,
        };
        QuickLooks { count, rest: self.rests.rest() }
    }

    /// Tells the rests how long a round of waits took, and what was moved in it.
    #[cold]
    #[inline(never)]
    fn end_round(&mut self, moved_bytes: u64) {
        let now = Instant::now();
        let began = std::mem::replace(&mut self.round_began, now);
        let before = std::mem::replace(&mut self.round_bytes, moved_bytes);
        let ns = now.duration_since(began).as_nanos() as u64;
        self.rests.mark(ns, moved_bytes.wrapping_sub(before));
    }

    /// Makes the looks that come first, and then looks until `look` finds something, `is_over` says
    /// that nothing will come, the time is over, or more spinning does not pay. Returns what `look`
    /// found. `rivals` is a hint: how many ends, this one included, wait for the other side.
    #[inline]
    pub fn spin<T>(
        &mut self,
        looks: QuickLooks,
        until: Until,
        peer: impl Fn() -> PeerCpu,
        rivals: impl Fn() -> u32,
        is_over: impl Fn() -> bool,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        match look_quickly(looks, &is_over, || look().transpose()) {
            Some(found) => found.map(Some),
            None => self.spin_on(until, peer, rivals, is_over, look),
        }
    }

    /// Goes on looking after the quick looks.
    fn spin_on<T>(
        &mut self,
        until: Until,
        peer: impl Fn() -> PeerCpu,
        rivals: impl Fn() -> u32,
        is_over: impl Fn() -> bool,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let now = peer();
        self.shares_cpu = now == PeerCpu::SameCpu && self.waiting == Waiting::Adaptive;
        let budget_ns = match self.waiting {
            Waiting::Sleep => 0,
            Waiting::Adaptive => self.budget.budget_ns(now),
            Waiting::Spin => u64::MAX,
        };
        if budget_ns == 0 {
            return self.give_way(rivals(), look);
        }
        let left_ns = until.left().map_or(u64::MAX, |left| left.as_nanos() as u64);
        let begun = Instant::now();
        for round in 1_u64.. {
            for _ in 0..LOOKS {
                if let Some(found) = look()? {
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

    /// Yields once to the other side if it runs on this CPU.
    fn give_way<T>(
        &mut self,
        rivals: u32,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        if !self.shares_cpu || !self.yielding.wants(rivals) {
            return Ok(None);
        }
        let begun = Instant::now();
        rustix::thread::sched_yield();
        let came = look()?;
        self.yielding.learn(came.is_some(), begun.elapsed().as_nanos() as u64);
        Ok(came)
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
/// the line changes, and on two threads of one core they slow the other side down. Which rest is
/// better depends on the machine, so each waiter learns it ([`Rests`], docs/design/pipe.md).
///
/// The caller has looked before. So an end that rests for its stores does that before the first look.
///
/// The looks become a part of the caller's code, so that what was found is used at once: between a
/// message and its answer each instruction counts.
#[inline(always)]
pub fn look_quickly<T>(
    looks: QuickLooks,
    is_over: impl Fn() -> bool,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    // One look is not a wait: it is made for a side that runs on this CPU.
    if looks.rest == Rest::Stores && looks.count > 1 {
        wait_for_stores();
    }
    for _ in 0..looks.count {
        let found = look();
        if found.is_some() {
            return found;
        }
        if looks.rest_by_fences() {
            // It pairs with nothing: it is a rest, which ends once this CPU's stores are seen.
            fence(Ordering::SeqCst);
            if is_over() {
                break;
            }
        } else {
            // This costs nothing before a rest, and delays the next look behind one.
            if is_over() {
                break;
            }
            rest(looks.rest);
        }
    }
    None
}

/// Rests between two looks, by no full fence.
#[inline(always)]
fn rest(rest: Rest) {
    if rest == Rest::Loads {
        return wait_for_loads();
    }
    // There is no loop, which the compiler would unroll.
    std::hint::spin_loop();
    if matches!(rest, Rest::TwoPauses | Rest::ThreePauses) {
        std::hint::spin_loop();
        if rest == Rest::ThreePauses {
            std::hint::spin_loop();
        }
    }
}

/// Stores this thread's CPU, plus one, in `own`, and returns it.
pub fn say_cpu(own: &AtomicU32) -> u32 {
    let here = rustix::thread::sched_getcpu() as u32 + 1;
    if own.load(Ordering::Relaxed) != here {
        own.store(here, Ordering::Relaxed);
    }
    here
}

/// Stores this thread's CPU in `own`, and compares it with `other`, the CPU that the other side has
/// stored (a hint).
pub fn peer_of(own: &AtomicU32, other: u32) -> PeerCpu {
    let here = say_cpu(own);
    match other {
        0 => PeerCpu::Unknown,
        other if other == here => PeerCpu::SameCpu,
        _ => PeerCpu::OtherCpu,
    }
}
