//! What a time in which nothing moved says about the run.

use crate::facts::Run;
use crate::verdict::{Busy, BusyPart, BusyReason, Finding, Verdict};
use crate::why::Why;

/// A stall of less than this share of the run is not what held it up.
const MOST: f64 = 0.5;

/// A time in which nothing was read, written or computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Stall {
    /// How long it lasted at least.
    pub lasted_ns: u64,
    /// What the processes waited for meanwhile.
    pub why: Why,
}

/// Where a report tells of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is the verdict.
    Verdict,
    /// It stands behind a verdict that does not say who is waited for.
    Behind,
}

/// Returns where a report with this verdict tells of a stall; `has_parts`: whether it has verdicts of
/// groups in its place.
pub fn place(run: &Run, verdict: &Verdict, has_parts: bool, stall: &Stall) -> Option<Place> {
    if run.share(stall.lasted_ns) < MOST {
        return None;
    }
    let sleeps = || verdict.culprit.as_ref().is_some_and(|it| it.reason == BusyReason::Sleep);
    match &verdict.finding {
        _ if has_parts => Some(Place::Verdict),
        Finding::Idle | Finding::EachWaits | Finding::TooShort => Some(Place::Verdict),
        // These name it themselves.
        Finding::LeftOpen(_) | Finding::HeldUp(Busy::Outside(..)) => None,
        // It may be among the stages: then nobody told it to sleep.
        _ if stall.why.left_open().is_some() => Some(Place::Verdict),
        Finding::HeldUp(_) if sleeps() => None,
        // What that child waits for is told.
        Finding::HeldUp(Busy::Parts(parts))
            if parts.first().is_some_and(|(part, _)| *part == BusyPart::Child) =>
        {
            Some(Place::Verdict)
        }
        _ => Some(Place::Behind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{MS, run, stage};
    use crate::verdict::judge;
    use alloc::vec;
    use alloc::vec::Vec;

    fn place_of(run: &Run, lasted_ms: u64) -> Option<Place> {
        let why = Why { links: Vec::new(), circle: None, cut: false, left_out: 0 };
        place(run, &judge(run), false, &Stall { lasted_ns: lasted_ms * MS, why })
    }

    #[test]
    fn a_stall_of_most_of_the_run_is_the_verdict_where_no_stage_held_it_up() {
        let waits = run(vec![stage("a", [5, 0, 0, 995, 0]), stage("b", [5, 0, 995, 0, 0])]);
        assert_eq!(place_of(&waits, 900), Some(Place::Verdict));
        assert_eq!(place_of(&waits, 400), None, "the rest was longer");
    }

    #[test]
    fn it_stands_behind_a_verdict_that_names_no_other_and_is_left_out_behind_one_that_does() {
        let mut locked = run(vec![stage("flock l a", [5, 0, 0, 0, 0])]);
        locked.stages[0].times.lock_ns = 995 * MS;
        assert_eq!(place_of(&locked, 900), Some(Place::Behind));
        let sleeps =
            run(vec![stage("yes", [5, 0, 0, 995, 0]), stage("sleep 1", [0, 0, 0, 0, 1000])]);
        assert_eq!(place_of(&sleeps, 900), None);
    }

    #[test]
    fn it_is_the_verdict_where_the_stage_that_is_named_only_waits_for_its_child() {
        let mut waits = run(vec![stage("timeout 5 x", [5, 0, 0, 0, 0])]);
        waits.stages[0].times.child_ns = 995 * MS;
        assert_eq!(place_of(&waits, 900), Some(Place::Verdict));
    }
}
