//! Detecting that the whole job was stopped and continued.
//!
//! Both this process and a stage must have been continued: a stage stopped alone is no stop of the
//! job. The two signs come separately, since processes are continued one after the other and since
//! this process may have been stopped at any point, even between looking for one sign and the
//! other.

/// How long to wait for the second sign.
const TOGETHER_NS: u64 = 1_000_000_000;
/// How often to look for it meanwhile: a stage that ends takes its sign with it.
const AGAIN_NS: u64 = 2_000_000;

/// The signs seen so far.
#[derive(Debug, Default)]
pub struct Stops {
    here: bool,
    there: bool,
    /// When events were last taken before the first sign: the job was still running then.
    ran_ns: u64,
    /// When the first sign was seen.
    seen_ns: u64,
}

impl Stops {
    /// Takes the events since `ran_ns`: whether this process (`here`) and whether a stage (`there`)
    /// was continued. Returns the time in which the job did not run.
    pub fn note(&mut self, here: bool, there: bool, ran_ns: u64, now_ns: u64) -> u64 {
        if self.waits() && now_ns > self.seen_ns + TOGETHER_NS {
            *self = Stops::default();
        }
        if (here || there) && !self.waits() {
            (self.ran_ns, self.seen_ns) = (ran_ns, now_ns);
        }
        self.here |= here;
        self.there |= there;
        if !(self.here && self.there) {
            return 0;
        }
        let stopped_ns = now_ns.saturating_sub(self.ran_ns);
        *self = Stops::default();
        stopped_ns
    }

    /// Returns the latest time for the next look, given that time without a first sign.
    pub fn look_by(&self, due_ns: u64, now_ns: u64) -> u64 {
        if self.waits() { due_ns.min(now_ns + AGAIN_NS) } else { due_ns }
    }

    fn waits(&self) -> bool {
        self.here || self.there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn both_signs_make_a_stop_in_whatever_order_they_come() {
        assert_eq!(Stops::default().note(true, true, 10 * MS, 900 * MS), 890 * MS);
        for here_first in [true, false] {
            let mut stops = Stops::default();
            assert_eq!(stops.note(here_first, !here_first, 10 * MS, 900 * MS), 0);
            assert_eq!(stops.note(!here_first, here_first, 900 * MS, 910 * MS), 900 * MS);
            assert_eq!(stops.note(false, false, 910 * MS, 920 * MS), 0);
        }
    }

    /// A job was continued and, within a tenth of a second, ended: this process saw its own sign,
    /// slept until its next sample, and then its stages' signs had gone with them.
    #[test]
    fn after_one_sign_the_other_is_looked_for_soon() {
        let mut stops = Stops::default();
        assert_eq!(stops.look_by(300 * MS, 10 * MS), 300 * MS);
        stops.note(true, false, 10 * MS, 20 * MS);
        assert_eq!(stops.look_by(300 * MS, 20 * MS), 22 * MS);
        assert_eq!(stops.look_by(21 * MS, 20 * MS), 21 * MS);
        stops.note(false, true, 20 * MS, 22 * MS);
        assert_eq!(stops.look_by(300 * MS, 22 * MS), 300 * MS);
    }

    #[test]
    fn one_sign_alone_is_forgotten() {
        let mut stops = Stops::default();
        assert_eq!(stops.note(false, true, 10 * MS, 20 * MS), 0);
        assert_eq!(stops.note(true, false, 2000 * MS, 2010 * MS), 0);
        assert_eq!(stops.note(false, true, 2010 * MS, 2015 * MS), 15 * MS);
    }
}
