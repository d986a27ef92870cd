//! How long an end that must wait looks again and again before it sleeps.
//!
//! Waking a sleeper on another CPU costs tens of microseconds; looking costs CPU time. So an end
//! looks for about as long as a wake-up takes if looking has succeeded lately, and hardly at all if
//! it has not. It never looks while the other end needs this very CPU (measured: 25 times slower).
//!
//! Two ends that wake each other in turn stay asleep for good if a wake-up takes longer than they
//! look: on some virtual machines a trip then takes 70 us in place of 0.2. So after some short sleeps
//! an end looks once for as long as its last sleep took ([`LongLook`]). If that pays, neither sleeps
//! any more.

/// Where the other end last ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerCpu {
    /// On the CPU of this end.
    SameCpu,
    /// On another CPU.
    OtherCpu,
    /// The other end has not said.
    Unknown,
}

/// The least time to look, after looking has often failed.
const LEAST_NS: u64 = 1_000;
/// The most: what a wake-up across CPUs takes on most virtual machines.
const MOST_NS: u64 = 20_000;

/// The time to look, which follows from the success of looking.
#[derive(Clone, Debug)]
pub struct Spin {
    budget_ns: u64,
    long_look: LongLook,
}

impl Default for Spin {
    fn default() -> Spin {
        Spin { budget_ns: MOST_NS, long_look: LongLook::default() }
    }
}

impl Spin {
    /// Counts a wait.
    #[inline]
    pub fn begins(&mut self) {
        self.long_look.waits = self.long_look.waits.saturating_add(1);
    }

    /// Returns how long to look this time.
    pub fn budget_ns(&mut self, peer: PeerCpu) -> u64 {
        match peer {
            PeerCpu::SameCpu => 0,
            PeerCpu::OtherCpu => self.budget_ns.max(core::mem::take(&mut self.long_look.ns)),
            PeerCpu::Unknown => self.budget_ns.min(MOST_NS / 4),
        }
    }

    /// Learns whether looking succeeded in time.
    pub fn learn(&mut self, came: bool) {
        self.budget_ns = if came {
            (self.budget_ns * 2).min(MOST_NS)
        } else {
            (self.budget_ns / 2).max(LEAST_NS)
        };
    }

    /// Learns how long the end slept. If that was hardly longer than a wake-up takes, a longer look
    /// would have been better; so a time that has become short grows again.
    pub fn slept(&mut self, ns: u64) {
        if ns < MOST_NS * 2 {
            self.budget_ns = (self.budget_ns * 4).min(MOST_NS);
        }
        self.long_look.slept(ns);
    }
}

/// A sleep that is longer than two wake-ups on any machine: the other end took its time.
const LONG_SLEEP_NS: u64 = 200_000;
/// Short sleeps before a long look; doubled after one that did not pay.
const FIRST_SLEEPS: u32 = 4;
const MOST_SLEEPS: u32 = 1 << 16;
/// Looking pays if this many waits go by from sleep to sleep.
const PAYING_WAITS: u32 = 16;

/// When to look for as long as a short sleep takes.
#[derive(Clone, Debug)]
struct LongLook {
    /// Waits since the last sleep.
    waits: u32,
    /// Short sleeps since the last long look.
    sleeps: u32,
    /// Short sleeps before the next one.
    patience: u32,
    /// How long the next wait looks, if that is a long look.
    ns: u64,
    /// Whether the end has not slept since the last long look.
    on_trial: bool,
}

impl Default for LongLook {
    fn default() -> LongLook {
        LongLook { waits: 0, sleeps: 0, patience: FIRST_SLEEPS, ns: 0, on_trial: false }
    }
}

impl LongLook {
    fn slept(&mut self, ns: u64) {
        let pays = core::mem::take(&mut self.waits) >= PAYING_WAITS;
        if pays {
            self.patience = FIRST_SLEEPS;
        } else if self.on_trial {
            self.patience = (self.patience * 2).min(MOST_SLEEPS);
        }
        self.on_trial = false;
        self.sleeps = if ns < LONG_SLEEP_NS { self.sleeps + 1 } else { 0 };
        if self.sleeps >= self.patience {
            (self.sleeps, self.ns, self.on_trial) = (0, ns, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_on_the_cpu_the_other_end_needs() {
        let mut spin = Spin::default();
        spin.learn(true);
        assert_eq!(spin.budget_ns(PeerCpu::SameCpu), 0);
        assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 20_000);
        assert_eq!(spin.budget_ns(PeerCpu::Unknown), 5_000);
    }

    #[test]
    fn failing_shortens_it_and_succeeding_restores_it() {
        let mut spin = Spin::default();
        (0..20).for_each(|_| spin.learn(false));
        assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 1_000);
        (0..20).for_each(|_| spin.learn(true));
        assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 20_000);
    }

    #[test]
    fn a_short_sleep_lengthens_it_and_a_long_one_does_not() {
        let mut spin = Spin::default();
        (0..20).for_each(|_| spin.learn(false));
        spin.slept(1_000_000);
        assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 1_000);
        (0..3).for_each(|_| spin.slept(30_000));
        assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 20_000);
    }

    /// Counts the long looks in so many waits that each end in a sleep of `ns`.
    fn long_looks(waits: u32, ns: u64) -> u32 {
        let mut spin = Spin::default();
        let looks = (0..waits).filter(|_| {
            spin.begins();
            let budget_ns = spin.budget_ns(PeerCpu::OtherCpu);
            assert!(budget_ns <= ns.max(20_000));
            spin.learn(false);
            spin.slept(ns);
            budget_ns > 20_000
        });
        looks.count() as u32
    }

    #[test]
    fn short_sleeps_lead_to_a_long_look_and_long_ones_do_not() {
        assert_eq!(long_looks(5, 70_000), 1);
        assert_eq!(long_looks(10_000, LONG_SLEEP_NS), 0);
    }

    #[test]
    fn long_looks_that_do_not_pay_become_seldom() {
        let looks = long_looks(1_000_000, 150_000);
        assert!((10..40).contains(&looks), "{looks}");
    }

    #[test]
    fn long_looks_that_pay_stay_frequent() {
        let mut spin = Spin::default();
        for round in 0..100 {
            for _ in 0..FIRST_SLEEPS {
                assert!(spin.budget_ns(PeerCpu::OtherCpu) <= 20_000, "{round}");
                spin.slept(70_000);
            }
            assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 70_000, "{round}");
            (0..PAYING_WAITS).for_each(|_| spin.begins());
        }
    }

    #[test]
    fn a_long_look_is_not_for_an_end_that_shares_its_cpu() {
        let mut spin = Spin::default();
        (0..100).for_each(|_| spin.slept(70_000));
        assert_eq!(spin.budget_ns(PeerCpu::SameCpu), 0);
    }
}
