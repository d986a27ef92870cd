//! How long an end that must wait looks again and again before it sleeps.
//!
//! Waking a sleeper on another CPU costs tens of microseconds; looking costs CPU time. So an end
//! looks for about as long as a wake-up takes if looking has succeeded lately, and hardly at all if
//! it has not. It never looks while the other end needs this very CPU (measured: 25 times slower).

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

/// The time to look, which follows from the success of looking.
#[derive(Clone, Debug)]
pub struct Spin {
    most_ns: u64,
    budget_ns: u64,
}

impl Spin {
    /// Starts with the time that a wake-up takes, which is also the most.
    pub fn new(wake_ns: u64) -> Spin {
        let most_ns = wake_ns.max(LEAST_NS);
        Spin { most_ns, budget_ns: most_ns }
    }

    /// Returns how long to look this time.
    pub fn budget_ns(&self, peer: PeerCpu) -> u64 {
        match peer {
            PeerCpu::SameCpu => 0,
            PeerCpu::OtherCpu => self.budget_ns,
            PeerCpu::Unknown => self.budget_ns.min(self.most_ns / 4),
        }
    }

    /// Learns whether looking succeeded in time.
    pub fn learn(&mut self, came: bool) {
        self.budget_ns = if came {
            (self.budget_ns * 2).min(self.most_ns)
        } else {
            (self.budget_ns / 2).max(LEAST_NS.min(self.most_ns))
        };
    }
}

impl Spin {
    /// Learns how long the end slept. If that was hardly longer than a wake-up takes, a longer look
    /// would have been better; so a time that has become short grows again.
    pub fn slept(&mut self, ns: u64) {
        if ns < self.most_ns * 2 {
            self.budget_ns = (self.budget_ns * 4).min(self.most_ns);
        }
    }
}

/// Whether an end that shares its CPU with the other end gives up the CPU before it sleeps.
///
/// A reader on the writer's CPU that every small write wakes runs at once, takes one record and
/// sleeps again: two switches a record. If it yields once instead, it finds what the writer has
/// written meanwhile, and neither needs a wake-up. If others want the CPU, yielding costs a time
/// slice; then it is not done for a while, which grows each time.
#[derive(Clone, Debug, Default)]
pub struct Yielding {
    skip: u32,
    patience: u32,
}

/// Yielding for longer than this did not pay.
const LONG_NS: u64 = 10_000_000;
const MOST_PATIENCE: u32 = 1_024;
/// If more writers than this wait for one reader, those on its CPU sleep at once: each that yields
/// stays runnable, and the reader's share of its CPU shrinks. Measured on 2 CPUs with messages of
/// 4 KiB: yielding pays with 64 writers and costs with 128 (docs/design/port.md).
const MOST_RIVALS: u32 = 96;

impl Yielding {
    /// Whether to yield this time, if `rivals` ends are known to wait for the other one.
    pub fn wants(&mut self, rivals: u32) -> bool {
        if rivals > MOST_RIVALS {
            return false;
        }
        let wants = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        wants
    }

    /// Learns how long it took to get the CPU back, and whether what was awaited had come.
    pub fn learn(&mut self, came: bool, ns: u64) {
        if came && ns < LONG_NS {
            self.patience = 0;
        } else {
            self.patience = (self.patience * 2).clamp(1, MOST_PATIENCE);
            self.skip = self.patience;
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
        assert_eq!(spin.budget_ns(PeerCpu::SameCpu), 0);
        assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 20_000);
        assert_eq!(spin.budget_ns(PeerCpu::Unknown), 5_000);
    }

    #[test]
    fn giving_way_is_left_where_it_does_not_pay() {
        let mut yielding = Yielding::default();
        assert!((0..100).all(|_| {
            yielding.learn(true, 1_000);
            yielding.wants(0)
        }));
        let mut given = 0;
        for _ in 0..10_000 {
            if yielding.wants(0) {
                given += 1;
                yielding.learn(false, 3_000);
            }
        }
        assert!((10..30).contains(&given), "{given}");
        yielding = Yielding::default();
        yielding.learn(true, 2 * LONG_NS);
        assert!(!yielding.wants(0));
    }

    #[test]
    fn many_rivals_do_not_give_way_and_few_do_again() {
        let mut yielding = Yielding::default();
        assert!(yielding.wants(64));
        assert!([128, 256, u32::MAX].into_iter().all(|rivals| !yielding.wants(rivals)));
        assert!(yielding.wants(64));
    }

    #[test]
    fn failing_shortens_it_and_succeeding_restores_it() {
        let mut spin = Spin::new(20_000);
        (0..20).for_each(|_| spin.learn(false));
        assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 1_000);
        (0..20).for_each(|_| spin.learn(true));
        assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 20_000);
    }

    #[test]
    fn a_short_sleep_lengthens_it_and_a_long_one_does_not() {
        let mut spin = Spin::new(20_000);
        (0..20).for_each(|_| spin.learn(false));
        spin.slept(1_000_000);
        assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 1_000);
        (0..3).for_each(|_| spin.slept(30_000));
        assert_eq!(spin.budget_ns(PeerCpu::OtherCpu), 20_000);
    }
}
