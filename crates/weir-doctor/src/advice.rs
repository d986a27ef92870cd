//! Advice on what would make a run faster: given only where the evidence supports it, with the
//! possible gain.
//!
//! Each rule is a function from facts to at most one piece of advice for a stage or a pipe. A gain
//! is a true bound where the work stays and only waits go (see `limits`), or where all of a stage's
//! work goes. Where the advice replaces a program or makes it cheaper by an unknown amount, the
//! gain is an estimate, and says so. At most [`MOST`] pieces are given, none whose gain the run
//! cannot resolve, and none that an earlier run tried without a gain.

use crate::around::throttled;
use crate::ending::{BY_SIGNAL, Ending, SIGKILL};
use crate::facts::Run;
use crate::verdict::Verdict;
use alloc::vec::Vec;

mod cpus;
mod filters;
pub(crate) mod jobs;
mod lines;
pub(crate) mod passes;
mod pipes;
mod rewrite;
mod stages;
pub(crate) mod starts;
mod tools;

pub use cpus::Scarcity;
pub use filters::Filter;
pub use passes::{Rereads, rereads};
pub use rewrite::{Advised, Change};
pub use starts::Restarts;

/// Kinds of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::AsRefStr, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum AdviceKind {
    /// A larger pipe between two stages.
    LargerPipe,
    /// A buffer larger than any pipe between two stages.
    ElasticBuffer,
    /// More CPUs, or a higher quota.
    MoreCpus,
    /// Comparing and classifying text as bytes.
    CLocale,
    /// A (de)compressor that uses several CPUs.
    ParallelCompressor,
    /// More threads, by the program's own option.
    MoreThreads,
    /// Records passed on uncompressed to a stage that unpacks them at once.
    UncompressedStream,
    /// A file opened as standard input, without a `cat` before it.
    DirectInput,
    /// A cipher that the CPU has instructions for.
    FasterCipher,
    /// Each line passed on at once, to a reader that works on each.
    LineBuffering,
    /// Fewer, larger writes.
    LargerWrites,
    /// Fewer, larger reads.
    LargerReads,
    /// Fewer processes, each with more to do.
    FewerProcesses,
    /// One pass over a file that is read again and again.
    OnePass,
    /// One flush to the disk for many writes.
    FewerFlushes,
    /// One process that does what many of the same program did.
    OneProcess,
    /// The longest job first.
    LongestFirst,
    /// A file between two commands of a script left as it is, and not packed.
    NoPacking,
    /// Lines counted in a table, where they are sorted only to be counted.
    CountInTable,
    /// A filter that passes few lines before what works on each of them.
    FilterFirst,
}

/// The possible gain of the whole run from a piece of advice: a factor, 1 or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gain {
    /// A bound: at most this many times faster.
    AtMost(f64),
    /// An estimate, which may be too low or too high: about this many times faster.
    About(f64),
}

impl Gain {
    /// Returns the factor.
    pub fn factor(self) -> f64 {
        match self {
            Gain::AtMost(factor) | Gain::About(factor) => factor,
        }
    }
}

/// One piece of advice. The facts of the run give the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Its kind.
    pub kind: AdviceKind,
    /// Position of the stage it is about.
    pub stage: Option<usize>,
    /// Position of the pipe it is about, in [`Run::pipes`].
    pub pipe: Option<usize>,
    /// The possible gain of the whole run.
    pub gain: Gain,
}

/// Advice that was tried without a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuted {
    /// Its kind.
    pub kind: AdviceKind,
    /// The stage it was about.
    pub stage: Option<usize>,
    /// The pipe it was about.
    pub pipe: Option<usize>,
}

/// What lies outside of a run. It is asked only where a finding needs it.
pub trait Surroundings {
    /// Whether a program is installed.
    fn has_program(&self, _name: &str) -> bool {
        false
    }

    /// Returns the advice on this run that was tried without a gain.
    fn refuted(&self) -> Vec<Refuted> {
        Vec::new()
    }

    /// Whether a later run of the same command can use what this one showed.
    fn remembers(&self) -> bool {
        false
    }
}

/// Nothing is installed, and nothing was tried.
impl Surroundings for () {}

/// Most pieces of advice that are given.
pub const MOST: usize = 3;
/// Gains below this are not mentioned.
pub(crate) const WORTH: f64 = 1.1;

/// Returns the advice for a run, the largest gain first, and more CPUs last. Advice in `refuted`,
/// from an earlier run, is left out. A run that memory ran out for has other troubles than its speed.
pub fn advise(run: &Run, verdict: &Verdict, refuted: &dyn Fn() -> Vec<Refuted>) -> Vec<Advice> {
    let mut all = Vec::new();
    if lacked_memory(run) {
        return all;
    }
    for position in 0..run.pipes.len() {
        all.extend(pipes::pipe_advice(run, position));
    }
    for position in 0..run.stages.len() {
        all.extend(stages::fewer_processes(run, verdict, position));
        all.extend(stages::larger_transfers(run, verdict, position));
        all.extend(stages::fewer_flushes(run, position));
        all.extend(tools::faster_cipher(run, position));
        all.extend(lines::line_buffering(run, position));
        all.extend(passes::count_in_table(run, position));
    }
    if let Some(culprit) = &verdict.culprit {
        all.extend(stages::c_locale(run, culprit.stage));
        // Threads by its own option are one of the ways for a compressor.
        let compressor = stages::parallel_compressor(run, culprit);
        all.extend(compressor.or_else(|| tools::more_threads(run, culprit)));
        all.extend(cpus::higher_quota(run, verdict, culprit));
        all.extend(filters::filter_first(run, culprit.stage));
    }
    all.extend(jobs::longest_first(run));
    all.extend(tools::uncompressed_stream(run));
    all.extend(tools::direct_input(run, verdict));
    all.extend(passes::one_pass(run));
    all.extend(starts::one_process(run));
    all.extend(cpus::more_cpus(run, verdict));
    let least = resolution(run);
    all.retain(|advice| advice.gain.factor() >= least);
    keep_best(&mut all, refuted);
    all
}

/// Leaves out what was refuted, puts the largest gain first and keeps [`MOST`] pieces. Changes to the
/// command come before those that somebody else must make.
pub(crate) fn keep_best(all: &mut Vec<Advice>, refuted: &dyn Fn() -> Vec<Refuted>) {
    // How one process does it says more than that there should be fewer.
    if all.iter().any(|advice| advice.kind == AdviceKind::OneProcess) {
        all.retain(|advice| advice.kind != AdviceKind::FewerProcesses);
    }
    if !all.is_empty() {
        let refuted = refuted();
        all.retain(|&Advice { kind, stage, pipe, .. }| {
            !refuted.contains(&Refuted { kind, stage, pipe })
        });
    }
    let elsewhere = |advice: &Advice| advice.kind == AdviceKind::MoreCpus;
    let by_gain = |a: &Advice, b: &Advice| b.gain.factor().total_cmp(&a.gain.factor());
    all.sort_by(|a, b| elsewhere(a).cmp(&elsewhere(b)).then(by_gain(a, b)));
    all.truncate(MOST);
}

/// Returns the least gain that a run can distinguish from none: n samples determine a share of its
/// time to about one part in the square root of n.
fn resolution(run: &Run) -> f64 {
    let samples = run.stages.iter().map(|stage| stage.samples).max().unwrap_or(0);
    (1.0 + 1.0 / libm::sqrt(samples.max(1) as f64)).max(WORTH)
}

/// Whether the kernel killed a part of the run because memory ran out.
pub(crate) fn lacked_memory(run: &Run) -> bool {
    let some = |kills: Option<u64>| kills.is_some_and(|kills| kills > 0);
    const INSIDE: i32 = BY_SIGNAL + SIGKILL;
    let killed = |ending: &Option<Ending>| {
        matches!(ending, Some(Ending::Signal(SIGKILL) | Ending::Code(INSIDE)))
    };
    let any = run.stages.iter().map(|stage| &stage.ending).chain([&run.ending]).any(killed);
    some(run.memory_kills.group) || any && some(run.memory_kills.host)
}

/// Returns a time as a share of what decides the run's length: its wall time or, under a decisive
/// quota, its CPU time.
fn weight(run: &Run, wall_ns: u64, cpu_ns: u64) -> f64 {
    match throttled(run) {
        Some(_) => cpu_ns as f64 / run.cpu_sum_ns().max(1) as f64,
        None => run.share(wall_ns),
    }
}

/// Returns the factor gained if a share goes away.
fn estimate(share: f64) -> f64 {
    1.0 / (1.0 - share).max(0.01)
}

#[cfg(test)]
mod tests;
