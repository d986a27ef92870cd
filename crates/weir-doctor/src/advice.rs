//! What would make a run faster: said only where the evidence supports it, with what it could
//! gain.
//!
//! Each rule is a function from facts to at most one piece of advice for a stage or a pipe. A gain
//! is a true bound where the work stays and only waits go (see `limits`), or where all of
//! a stage's work goes; where the advice replaces a program or makes it cheaper by an unknown
//! amount it is an estimate, and says so. At most [`MOST`] pieces are given, none that could gain
//! less than the run can resolve, and none that was tried on an earlier run and gained nothing.

use crate::around::throttled;
use crate::facts::Run;
use crate::verdict::Verdict;
use alloc::vec::Vec;

mod cpus;
mod pipes;
mod stages;

pub use cpus::{Scarcity, scarcity};

/// Kinds of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::AsRefStr, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    /// A larger pipe between two stages.
    LargerPipe,
    /// A buffer larger than any pipe between two stages.
    ElasticBuffer,
    /// More CPUs, a higher quota, or a host with less else to do.
    MoreCpus,
    /// Comparing and classifying text as bytes.
    CLocale,
    /// A (de)compressor that uses several CPUs.
    ParallelCompressor,
    /// Fewer, larger writes.
    LargerWrites,
    /// Fewer, larger reads.
    LargerReads,
    /// Fewer processes, each with more to do.
    FewerProcesses,
}

/// How much the whole run could gain by a piece of advice: a factor, 1 or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gain {
    /// It would be at most this many times faster, whatever happens.
    AtMost(f64),
    /// It would be about this many times faster: an estimate that may turn out too low or too
    /// high.
    About(f64),
}

impl Gain {
    /// The factor.
    pub fn factor(self) -> f64 {
        match self {
            Gain::AtMost(factor) | Gain::About(factor) => factor,
        }
    }
}

/// One piece of advice. Why it is given, the facts of the run say.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Its kind.
    pub kind: Kind,
    /// Position of the stage it is about.
    pub stage: Option<usize>,
    /// Position of the pipe it is about, in [`Run::pipes`].
    pub pipe: Option<usize>,
    /// What the whole run could gain.
    pub gain: Gain,
}

/// Advice that was tried and gained nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuted {
    /// Its kind.
    pub kind: Kind,
    /// The stage it was about.
    pub stage: Option<usize>,
    /// The pipe it was about.
    pub pipe: Option<usize>,
}

/// At most this many pieces of advice are given.
pub const MOST: usize = 3;
/// Gains below this are not worth a line.
const WORTH: f64 = 1.05;

/// The advice for a run, the most gainful first, and more CPUs last. What was `refuted` on an
/// earlier run is not given.
pub fn advise(run: &Run, verdict: &Verdict, refuted: &[Refuted]) -> Vec<Advice> {
    let mut all = Vec::new();
    for position in 0..run.pipes.len() {
        all.extend(pipes::pipe_advice(run, position));
    }
    for position in 0..run.stages.len() {
        all.extend(stages::fewer_processes(run, position));
        all.extend(stages::larger_transfers(run, verdict, position));
    }
    if let Some(culprit) = &verdict.culprit {
        all.extend(stages::c_locale(run, culprit.stage));
        all.extend(stages::parallel_compressor(run, culprit));
    }
    all.extend(cpus::more_cpus(run));
    let least = resolution(run);
    all.retain(|advice| advice.gain.factor() >= least && !is_refuted(advice, refuted));
    // What can be changed in the text comes before what has to be asked for elsewhere.
    let elsewhere = |advice: &Advice| advice.kind == Kind::MoreCpus;
    let by_gain = |a: &Advice, b: &Advice| b.gain.factor().total_cmp(&a.gain.factor());
    all.sort_by(|a, b| elsewhere(a).cmp(&elsewhere(b)).then(by_gain(a, b)));
    all.truncate(MOST);
    all
}

/// The least gain that a run can tell from none: with n samples a share of its time is known to
/// about one part in the square root of n.
fn resolution(run: &Run) -> f64 {
    let samples = run.stages.iter().map(|stage| stage.samples).max().unwrap_or(0);
    (1.0 + 1.0 / libm::sqrt(samples.max(1) as f64)).max(WORTH)
}

fn is_refuted(advice: &Advice, refuted: &[Refuted]) -> bool {
    let Advice { kind, stage, pipe, .. } = *advice;
    refuted.contains(&Refuted { kind, stage, pipe })
}

/// What part a time is of that which decides how long the run takes: of its wall time, or, where
/// a quota held it up, of its CPU time.
fn weight(run: &Run, wall_ns: u64, cpu_ns: u64) -> f64 {
    match throttled(run) {
        Some(_) => cpu_ns as f64 / run.cpu_sum_ns().max(1) as f64,
        None => run.share(wall_ns),
    }
}

/// The factor gained by a share that goes away.
fn estimate(share: f64) -> f64 {
    1.0 / (1.0 - share).max(0.01)
}

#[cfg(test)]
mod tests;
