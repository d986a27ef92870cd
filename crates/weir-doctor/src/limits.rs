//! How short a run could become: the remaining time if a part of its work were gone.
//!
//! A stage needs its own time whatever the others do, and all stages together need their CPU time
//! divided by the CPUs they may use. The larger of both is the least time of the run, so its wall
//! time divided by that is a true bound, however the stages overlap. If a figure is uncertain, the
//! smaller value counts: the bound is then too high, never too low.

use crate::facts::Run;
use crate::load::{LITTLE, is_paced, lives_by_naps};
use crate::programs::rate_of;

/// Transfers of a mean size below this are tiny: they cost the call, not the bytes.
pub const TINY_BYTES: u64 = 512;
/// Fewer calls than this do not matter.
pub const MANY_CALLS: u64 = 2_000;

/// Whether there were many calls that moved few bytes each.
pub fn are_tiny(calls: u64, bytes: u64) -> bool {
    calls >= MANY_CALLS && bytes / calls < TINY_BYTES
}

/// Estimates the user time that goes with a call: its own code, and caches that it cools.
const CALL_NS: u64 = 1_000;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct StageNeeds {
    /// Time that it needs on its own.
    own_ns: f64,
    cpu_ns: f64,
}

impl StageNeeds {
    /// Returns what is needed when so much of its CPU time is saved.
    fn less(self, saved_ns: u64) -> StageNeeds {
        let less = |ns: f64| (ns - saved_ns as f64).max(0.0);
        StageNeeds { own_ns: less(self.own_ns), cpu_ns: less(self.cpu_ns) }
    }
}

/// Returns how many times faster the run could be, at most, if no stage waited for another.
pub fn without_waits(run: &Run) -> f64 {
    let rests = (0..run.stages.len()).map(|at| whole(run, at));
    factor(run, rests, run.usable_cpus())
}

/// Returns how many times faster the run could be, at most, on `cpus` CPUs that are all free.
pub fn with_cpus(run: &Run, cpus: f64) -> f64 {
    factor(run, (0..run.stages.len()).map(|at| spread(run, at, cpus)), cpus)
}

/// Returns how many times faster the run could be, at most, without the stage at `position`.
///
/// `None` if no other stage takes time, or if one sleeps for a rate, or for a reason, that is not known. If a
/// neighbour exchanges tiny pieces with the stage, the cost of that neighbour's calls may go as well.
pub fn without_stage(run: &Run, position: usize) -> Option<f64> {
    let others = || (0..run.stages.len()).filter(|at| *at != position);
    let works = |at: usize| run.stages[at].times.sure_own_ns() > 0 || rated_ns(run, at) > 0.0;
    let unknown = |at: usize| hides_a_rate(run, at) || sleeps_in_doubt(run, at);
    if !others().any(works) || others().any(unknown) {
        return None;
    }
    let rests = (0..run.stages.len()).map(|at| match at {
        at if at == position => StageNeeds::default(),
        at => beside(run, at, position),
    });
    Some(factor(run, rests, run.usable_cpus()))
}

/// Returns how many times faster the run could be, at most, if the stage at `position` needed no user
/// CPU time: its kernel time and its waits remain.
pub fn without_user_time(run: &Run, position: usize) -> f64 {
    without_some(run, &[(position, run.stages[position].user_ns)])
}

/// Returns how many times faster the run could be, at most, if these stages needed so much less user
/// CPU time.
pub fn without_some(run: &Run, saved: &[(usize, u64)]) -> f64 {
    let rests = run.stages.iter().enumerate().map(|(at, stage)| {
        let of_it = saved.iter().filter(|(of, _)| *of == at).map(|(_, ns)| ns).sum::<u64>();
        whole(run, at).less(of_it.min(stage.user_ns))
    });
    factor(run, rests, run.usable_cpus())
}

/// Returns how many times faster the run could be, at most, if each of these stages needed that part of
/// what it did.
pub fn with_parts(run: &Run, parts: &[(usize, f64)]) -> f64 {
    let rests = (0..run.stages.len()).map(|at| {
        let part = parts.iter().find(|(of, _)| *of == at).map_or(1.0, |(_, part)| *part);
        let StageNeeds { own_ns, cpu_ns } = whole(run, at);
        StageNeeds { own_ns: own_ns * part, cpu_ns: cpu_ns * part }
    });
    factor(run, rests, run.usable_cpus())
}

/// Returns how many times faster the run could be, at most, if the first stage, which only passes
/// on a file, were left out: its reader then needs no more time in the kernel, at best.
pub fn without_source(run: &Run) -> f64 {
    let rests = (1..run.stages.len())
        .map(|at| whole(run, at).less(if at == 1 { run.stages[1].system_ns } else { 0 }));
    factor(run, rests, run.usable_cpus())
}

fn whole(run: &Run, at: usize) -> StageNeeds {
    spread(run, at, run.usable_cpus())
}

/// Returns the full needs of a stage on this many CPUs: several tasks may share them better than
/// they did. A stage that keeps to a rate takes as long as it did, whatever the others do.
fn spread(run: &Run, at: usize, cpus: f64) -> StageNeeds {
    let stage = &run.stages[at];
    let (times, sum_ns) = (&stage.times, stage.cpu_sum_ns() as f64);
    let waits_ns = times.sure_own_ns() - times.work_cpu_ns();
    // Who spins needs no CPU for that.
    let sum_ns = sum_ns * (1.0 - times.spun_cpu_ns as f64 / times.cpu_ns.max(1) as f64);
    // One task alone cannot share its work with others.
    let work_ns = times.work_cpu_ns();
    let alone_ns = work_ns.saturating_sub(stage.several_ns) as f64;
    let cpu_ns = match stage.single_task {
        true => work_ns as f64,
        false => (work_ns as f64).min(sum_ns / cpus.max(1.0)).max(alone_ns),
    };
    // A relay works while its neighbours do; beside theirs it needs only its CPU time.
    let own_ns = match stage.relay {
        true => 0.0,
        false if is_paced(run, at) => (times.busy_ns() + times.output_ns) as f64,
        false => (cpu_ns + waits_ns as f64).max(rated_ns(run, at)),
    };
    StageNeeds { own_ns, cpu_ns: sum_ns }
}

/// Returns the time that a stage needs by itself for as much as passed, whatever it hid behind.
pub(crate) fn own_ns(run: &Run, at: usize) -> f64 {
    whole(run, at).own_ns
}

/// Returns the time that a stage needs to keep to the rate that its options say; 0 where they say none.
fn rated_ns(run: &Run, at: usize) -> f64 {
    /// It may have been a little faster for a while.
    const SLACK: f64 = 0.9;
    let stage = &run.stages[at];
    let passed = stage.pipe_out_bytes.or(stage.pipe_in_bytes).or(run.passed(at).0);
    match (rate_of(&stage.label), passed) {
        (Some(rate), Some(bytes)) => {
            (SLACK * bytes as f64 / rate as f64 * 1e9).min(run.wall_ns as f64)
        }
        _ => 0.0,
    }
}

/// Whether a stage seems to keep to a rate behind a pipe that is often full: if that was free, it would
/// sleep for longer, and nobody knows how long.
fn hides_a_rate(run: &Run, at: usize) -> bool {
    let stage = &run.stages[at];
    let held = run.share(stage.times.output_ns) >= LITTLE;
    held && rate_of(&stage.label).is_none() && !is_paced(run, at) && lives_by_naps(stage)
}

/// Whether a stage slept for long while its input was empty, and nobody knows whether it would have slept
/// beside a faster writer.
fn sleeps_in_doubt(run: &Run, at: usize) -> bool {
    run.share(run.stages[at].times.doubtful_ns) >= LITTLE
}

/// Returns the remaining needs of the stage `at` when the one at `gone` is replaced.
fn beside(run: &Run, at: usize, gone: usize) -> StageNeeds {
    let (rest, stage) = (whole(run, at), &run.stages[at]);
    match tiny_calls(run, at, gone) {
        0 => rest,
        calls => rest.less(stage.system_ns + stage.user_ns.min(calls * CALL_NS)),
    }
}

/// Whether a stage exchanges tiny pieces with a neighbour: that one's needs without it are then
/// unknown, and a limit without it is an estimate.
pub fn has_tiny_neighbour(run: &Run, position: usize) -> bool {
    (0..run.stages.len()).any(|at| at != position && tiny_calls(run, at, position) > 0)
}

/// Returns the calls by which a stage exchanges tiny pieces with another; 0 if it does not.
fn tiny_calls(run: &Run, at: usize, other: usize) -> u64 {
    let io = run.stages[at].io.unwrap_or_default();
    let joined = |from: usize, to: usize| run.pipes.iter().any(|p| p.from == from && p.to == to);
    let reads = joined(other, at) && are_tiny(io.read_calls, io.read_bytes);
    let writes = joined(at, other) && are_tiny(io.write_calls, io.write_bytes);
    if reads || writes { io.read_calls + io.write_calls } else { 0 }
}

fn factor(run: &Run, rests: impl Iterator<Item = StageNeeds>, cpus: f64) -> f64 {
    let add = |(own, cpu): (f64, f64), rest: StageNeeds| (own.max(rest.own_ns), cpu + rest.cpu_ns);
    let (own_ns, cpu_ns) = rests.fold((0.0, 0.0), add);
    let least_ns = own_ns.max(cpu_ns / cpus.max(0.01)).max(1.0);
    (run.wall_ns as f64 / least_ns).max(1.0)
}

#[cfg(test)]
mod tests;
