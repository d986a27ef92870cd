//! What becomes of the bytes that wait in a pipe: whether they grow, shrink or stay, and whether
//! anything moves at all.

use strum::{Display, IntoStaticStr};

/// A pipe with less than this share filled has no backlog.
const LITTLE: f64 = 0.05;
/// The fill has a direction if it changed by this share of the capacity.
const CHANGE: f64 = 0.10;
/// A straight line explains at least this share of the differences between looks, or the fill only
/// swings.
const EXPLAINED: f64 = 0.25;
/// Fewer looks show no direction.
const ENOUGH_LOOKS: u64 = 20;
/// Processes that were still for a shorter time are not stuck.
pub const STILL_NS: u64 = 1_000_000_000;
/// Processes that used a larger share of one CPU were not still.
const STILL_SHARE: f64 = 0.01;

/// The state of a backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, IntoStaticStr)]
pub enum Backlog {
    /// Nothing waits in the pipe.
    #[strum(serialize = "no backlog")]
    Empty,
    /// What waits grows: the reader is slower than the writer.
    #[strum(serialize = "falling behind")]
    FallingBehind,
    /// What waits stays about the same.
    #[strum(serialize = "backlog steady")]
    Steady,
    /// What waits shrinks.
    #[strum(serialize = "draining")]
    Draining,
}

/// The fill of a pipe over time, as the sums of a straight line through it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trend {
    looks: u64,
    begun_ns: u64,
    last_ns: u64,
    time_s: f64,
    share: f64,
    time_time: f64,
    time_share: f64,
    share_share: f64,
}

impl Trend {
    /// Adds a look: at this time, this share of the capacity was filled.
    pub fn add(&mut self, now_ns: u64, share: f64) {
        if self.looks == 0 {
            self.begun_ns = now_ns;
        }
        let time_s = now_ns.saturating_sub(self.begun_ns) as f64 / 1e9;
        self.looks += 1;
        self.last_ns = now_ns;
        self.time_s += time_s;
        self.share += share;
        self.time_time += time_s * time_s;
        self.time_share += time_s * share;
        self.share_share += share * share;
    }

    /// Returns the mean share filled.
    pub fn mean(&self) -> f64 {
        self.share / self.looks.max(1) as f64
    }

    /// Returns by which share of the capacity the fill changed along the line; 0 where it only swung.
    fn change(&self) -> f64 {
        let count = self.looks as f64;
        let spread = count * self.time_time - self.time_s * self.time_s;
        let differences = count * self.share_share - self.share * self.share;
        let both = count * self.time_share - self.time_s * self.share;
        if spread <= 0.0 || both * both < EXPLAINED * spread * differences {
            return 0.0;
        }
        let slope = both / spread;
        slope * (self.last_ns - self.begun_ns) as f64 / 1e9
    }

    /// Returns the state of the backlog; `None` after too few looks.
    pub fn backlog(&self) -> Option<Backlog> {
        let change = self.change();
        match () {
            () if self.looks < ENOUGH_LOOKS => None,
            () if change >= CHANGE => Some(Backlog::FallingBehind),
            () if change <= -CHANGE => Some(Backlog::Draining),
            () if self.mean() < LITTLE => Some(Backlog::Empty),
            () => Some(Backlog::Steady),
        }
    }
}

/// What processes did in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The time.
    pub wall_ns: u64,
    /// Their CPU time in it.
    pub cpu_ns: u64,
    /// The bytes and calls of their reads and writes; `None` where some are not known.
    pub moved: Option<u64>,
    /// Whether one of them waited for another: at a pipe, for most of a time that is reported.
    pub waits: bool,
}

impl Activity {
    /// Whether the processes are stuck: one waits, and in all the time none read or wrote
    /// anything, or used a CPU.
    pub fn is_stuck(&self) -> bool {
        self.is_still() && self.moved == Some(0) && self.waits
    }

    /// Whether they used no CPU, for long enough to tell.
    pub fn is_still(&self) -> bool {
        self.wall_ns >= STILL_NS && (self.cpu_ns as f64) < STILL_SHARE * self.wall_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backlog(looks: u64, share: impl Fn(f64) -> f64) -> Option<Backlog> {
        let mut trend = Trend::default();
        (0..looks).for_each(|at| trend.add(7 + at * 10_000_000, share(at as f64 / looks as f64)));
        trend.backlog()
    }

    #[test]
    fn a_backlog_grows_shrinks_or_stays() {
        assert_eq!(backlog(100, |at| at / 2.0), Some(Backlog::FallingBehind));
        assert_eq!(backlog(100, |at| 0.9 - at / 2.0), Some(Backlog::Draining));
        assert_eq!(backlog(100, |_| 1.0), Some(Backlog::Steady));
        assert_eq!(backlog(100, |at| 0.5 + at / 20.0), Some(Backlog::Steady));
        assert_eq!(backlog(100, |_| 0.01), Some(Backlog::Empty));
    }

    #[test]
    fn one_that_swings_is_steady_and_few_looks_show_nothing() {
        let swings = |at: f64| if ((at * 100.0) as u64).is_multiple_of(2) { 1.0 } else { 0.0 };
        assert_eq!(backlog(100, swings), Some(Backlog::Steady));
        let rarely =
            |at: f64| if at > 0.9 && ((at * 100.0) as u64).is_multiple_of(3) { 0.0 } else { 1.0 };
        assert_eq!(backlog(100, rarely), Some(Backlog::Steady), "empty now and then near the end");
        assert_eq!(backlog(19, |at| at), None);
        assert_eq!(backlog(0, |at| at), None);
        let mut same = Trend::default();
        (0..50).for_each(|_| same.add(5, 0.5));
        assert_eq!(same.backlog(), Some(Backlog::Steady), "no time has passed");
    }

    #[test]
    fn stuck_is_still_and_waiting_with_all_bytes_known() {
        let stuck =
            Activity { wall_ns: 2 * STILL_NS, cpu_ns: 1_000_000, moved: Some(0), waits: true };
        assert!(stuck.is_stuck());
        assert!(!Activity { wall_ns: STILL_NS - 1, cpu_ns: 0, ..stuck }.is_stuck());
        assert!(!Activity { cpu_ns: STILL_NS, ..stuck }.is_stuck());
        assert!(!Activity { moved: Some(1), ..stuck }.is_stuck());
        assert!(!Activity { moved: None, ..stuck }.is_stuck());
        assert!(!Activity { waits: false, ..stuck }.is_stuck());
    }
}
