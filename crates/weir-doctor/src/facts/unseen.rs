//! What the pipes beside a stage tell of waits that samples hardly met.
//!
//! A stage that its neighbour wakes every few microseconds may be found ready at each look: the
//! look takes a CPU for longer than the wait lasts. Its blocked time is exact all the same, and
//! only what it waited for is missing. No other wait hides like this: one for a disk or a lock
//! would still continue when it is looked at.

use super::{Pipe, Run, Stage};
use crate::state::TaskState;

/// A pipe is a source of waits if its mean fill is this far from one end, and it never was at the
/// other.
const NEAR: f64 = 0.05;

impl Run {
    /// Decides, for each stage with waits that too few samples met, whether it waited for its input
    /// or its output. Where both or neither can be, the samples stand.
    pub fn settle_unseen_waits(&mut self) {
        for (at, stage) in self.stages.iter_mut().enumerate() {
            let enough = |pipe: &&Pipe| pipe.samples >= Pipe::ENOUGH_SAMPLES;
            let before = self.pipes.iter().filter(enough).find(|pipe| pipe.to == at);
            let after = self.pipes.iter().filter(enough).find(|pipe| pipe.from == at);
            stage.settle_unseen_waits(before.is_some_and(is_drained), after.is_some_and(is_filled));
        }
    }
}

impl Stage {
    fn settle_unseen_waits(&mut self, starved: bool, held: bool) {
        if self.hidden || self.samples < Pipe::ENOUGH_SAMPLES || starved == held {
            return;
        }
        self.blocked_by_pipes = self.times.unseen_ns > 0;
        let state = if starved { TaskState::BlockedIn } else { TaskState::BlockedOut };
        self.times = self.times.unseen_was(state);
    }
}

fn is_drained(pipe: &Pipe) -> bool {
    pipe.mean_fill.is_some_and(|fill| fill <= NEAR) && pipe.times_full == 0
}

fn is_filled(pipe: &Pipe) -> bool {
    pipe.mean_fill.is_some_and(|fill| fill >= 1.0 - NEAR) && pipe.times_empty == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Times;
    use alloc::vec::Vec;

    /// Three stages; the middle one was blocked for 70 of 100 ns, and no sample shows in what.
    fn run(fills: [f64; 2]) -> Run {
        let pipe = |from: usize, fill: f64| Pipe {
            from,
            to: from + 1,
            mean_fill: Some(fill),
            times_full: u64::from(fill > 0.5),
            times_empty: u64::from(fill < 0.5),
            samples: 90,
            ..Pipe::default()
        };
        let times = Times { cpu_ns: 30, unknown_ns: 70, unseen_ns: 70, ..Times::default() };
        let stage = Stage { times, samples: 90, ..Stage::default() };
        let stages: Vec<Stage> = [Stage::default(), stage, Stage::default()].into();
        Run { stages, pipes: [pipe(0, fills[0]), pipe(1, fills[1])].into(), ..Run::default() }
    }

    fn waits(mut run: Run) -> (u64, u64, u64, bool) {
        run.settle_unseen_waits();
        let stage = &run.stages[1];
        let times = &stage.times;
        (times.input_ns, times.output_ns, times.unknown_ns, stage.blocked_by_pipes)
    }

    /// A `sort` behind a slow loop was called busy all the time in one of four runs.
    #[test]
    fn an_empty_pipe_before_a_stage_is_what_it_waited_for() {
        assert_eq!(waits(run([0.01, 0.0])), (70, 0, 0, true));
        assert_eq!(waits(run([0.99, 0.98])), (0, 70, 0, true));
    }

    #[test]
    fn what_the_pipes_do_not_decide_stays_unknown() {
        assert_eq!(waits(run([0.5, 0.0])), (0, 0, 70, false));
        assert_eq!(waits(run([0.0, 1.0])), (0, 0, 70, false));
        let mut seen = run([0.0, 0.0]);
        seen.stages[1].times.unseen_ns = 0;
        assert_eq!(waits(seen), (0, 0, 70, false), "samples met waits that have no name");
        let mut few = run([0.0, 0.0]);
        few.pipes[0].samples = 3;
        assert_eq!(waits(few), (0, 0, 70, false));
        let mut hidden = run([0.0, 0.0]);
        hidden.stages[1].hidden = true;
        assert_eq!(waits(hidden), (0, 0, 70, false));
    }
}
