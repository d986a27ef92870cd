//! How long an end that must wait looks again and again before it sleeps.
//!
//! Waking a sleeper on another CPU costs tens of microseconds, looking costs the CPU. So an end
//! looks for about what a wake-up costs where looking has succeeded of late, and hardly at all
//! where it has not; and never when the other end needs this very CPU (measured: 25 times slower).

/// Where the other end last ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// On the CPU of this end.
    SameCpu,
    /// On another.
    OtherCpu,
    /// It has not said.
    Unknown,
}

/// The least time to look, once that has failed often.
const LEAST_NS: u64 = 1_000;

/// The bound on looking, which follows how looking went.
#[derive(Clone, Debug)]
pub struct Spin {
    most_ns: u64,
    budget_ns: u64,
}

impl Spin {
    /// A bound that starts at, and never exceeds, what a wake-up costs.
    pub fn new(wake_ns: u64) -> Spin {
        let most_ns = wake_ns.max(LEAST_NS);
        Spin { most_ns, budget_ns: most_ns }
    }

    /// How long to look this time.
    pub fn budget_ns(&self, peer: Peer) -> u64 {
        match peer {
            Peer::SameCpu => 0,
            Peer::OtherCpu => self.budget_ns,
            Peer::Unknown => self.budget_ns.min(self.most_ns / 4),
        }
    }

    /// What was looked for came in time, or did not.
    pub fn learn(&mut self, came: bool) {
        self.budget_ns = if came {
            (self.budget_ns * 2).min(self.most_ns)
        } else {
            (self.budget_ns / 2).max(LEAST_NS.min(self.most_ns))
        };
    }
}

impl Spin {
    /// The end slept so long. Where that was hardly more than waking it costs, looking longer
    /// would have been better; this is how a bound that has become short grows again.
    pub fn slept(&mut self, ns: u64) {
        if ns < self.most_ns * 2 {
            self.budget_ns = (self.budget_ns * 4).min(self.most_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_on_the_cpu_the_other_end_needs() {
        let mut spin = Spin::new(20_000);
        spin.learn(true);
        assert_eq!(spin.budget_ns(Peer::SameCpu), 0);
        assert_eq!(spin.budget_ns(Peer::OtherCpu), 20_000);
        assert_eq!(spin.budget_ns(Peer::Unknown), 5_000);
    }

    #[test]
    fn failing_shortens_it_and_succeeding_restores_it() {
        let mut spin = Spin::new(20_000);
        (0..20).for_each(|_| spin.learn(false));
        assert_eq!(spin.budget_ns(Peer::OtherCpu), 1_000);
        (0..20).for_each(|_| spin.learn(true));
        assert_eq!(spin.budget_ns(Peer::OtherCpu), 20_000);
    }

    #[test]
    fn a_short_sleep_lengthens_it_and_a_long_one_does_not() {
        let mut spin = Spin::new(20_000);
        (0..20).for_each(|_| spin.learn(false));
        spin.slept(1_000_000);
        assert_eq!(spin.budget_ns(Peer::OtherCpu), 1_000);
        (0..3).for_each(|_| spin.slept(30_000));
        assert_eq!(spin.budget_ns(Peer::OtherCpu), 20_000);
    }
}
