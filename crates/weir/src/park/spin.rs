//! Looking again and again before sleeping, for as long as that has paid of late.

use super::Until;
use crate::error::Result;
use std::time::Instant;
use weir_policy::pipe::{PeerCpu, Spin, Yielding};
use weir_ring::primitive::{AtomicU32, Ordering, fence};

/// Looks before the clock is read, or the CPU looked up: some times what a line takes to travel.
const QUICK_LOOKS: u32 = 40;
/// Looks between two readings of the clock.
const LOOKS: u32 = 16;
/// Readings of the clock between two looks at where the other side runs.
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
    /// Spins until there is something to do: for ends with a CPU each.
    Spin,
}

/// What one waiter has learnt about spinning.
#[derive(Clone, Debug)]
pub struct Spinner {
    waiting: Waiting,
    budget: Spin,
    yielding: Yielding,
    /// The other side ran on this CPU the last time: spinning only keeps it from it.
    shares_cpu: bool,
}

impl Spinner {
    /// Of one that waits so, and whom a wake-up costs so much.
    pub fn new(waiting: Waiting, wake_ns: u64) -> Spinner {
        let (budget, yielding) = (Spin::new(wake_ns), Yielding::default());
        Spinner { waiting, budget, yielding, shares_cpu: false }
    }

    /// How it waits.
    pub fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Looks until `look` finds something, `is_over` says that nothing will come, the time is over,
    /// or it takes too long to be worth it. Whether `look` found something. `rivals` says how many
    /// ends, with this one, wait for the other side: a hint.
    #[inline]
    pub fn spin(
        &mut self,
        until: Until,
        peer: impl Fn() -> PeerCpu,
        rivals: impl Fn() -> u32,
        is_over: impl Fn() -> bool,
        mut look: impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        if self.waiting != Waiting::Sleep {
            for _ in 0..if self.shares_cpu { 1 } else { QUICK_LOOKS } {
                if look()? {
                    return Ok(true);
                }
                rest();
            }
        }
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
                if look()? {
                    self.budget.learn(true);
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            let spent_ns = begun.elapsed().as_nanos() as u64;
            // The other side may have come to this CPU meanwhile.
            let is_pointless = self.waiting == Waiting::Adaptive
                && round.is_multiple_of(ROUNDS)
                && peer() == PeerCpu::SameCpu;
            if spent_ns >= budget_ns.min(left_ns) || is_pointless || is_over() {
                break;
            }
        }
        self.budget.learn(false);
        Ok(false)
    }

    /// Lets the other side run once, on the CPU of both.
    fn give_way(&mut self, rivals: u32, mut look: impl FnMut() -> Result<bool>) -> Result<bool> {
        if !self.shares_cpu || !self.yielding.wants(rivals) {
            return Ok(false);
        }
        let begun = Instant::now();
        rustix::thread::sched_yield();
        let came = look()?;
        self.yielding.learn(came, begun.elapsed().as_nanos() as u64);
        Ok(came)
    }

    /// It has slept so long after all.
    pub fn slept(&mut self, ns: u64) {
        self.budget.slept(ns);
    }
}

/// Looks some times without reading a clock: what is found.
pub fn look_quickly<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    (0..QUICK_LOOKS).find_map(|_| {
        let found = look();
        if found.is_none() {
            rest();
        }
        found
    })
}

/// Rests between two looks, some 20 ns: two full fences.
///
/// Without a rest the loads of many looks are under way at once. A CPU takes all of them back when the
/// line changes, and on two threads of one core they take from the other side what it needs to
/// answer. A pause (`spin_loop`) helps as much, but a round trip waits twice for the end of one, which
/// is 26 ns on the CPU measured (docs/design/pipe.md).
#[inline]
fn rest() {
    fence(Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// Says in `own` on which CPU this thread is, and compares that with what the other side has said,
/// which is a hint.
pub fn peer_of(own: &AtomicU32, other: u32) -> PeerCpu {
    let here = rustix::thread::sched_getcpu() as u32 + 1;
    if own.load(Ordering::Relaxed) != here {
        own.store(here, Ordering::Relaxed);
    }
    match other {
        0 => PeerCpu::Unknown,
        other if other == here => PeerCpu::SameCpu,
        _ => PeerCpu::OtherCpu,
    }
}
