//! What would make a run faster: said only where the evidence supports it, with what it could
//! gain at most.
//!
//! Each rule is a function from facts to at most one piece of advice for a stage or a pipe. A
//! gain is an upper bound of the factor by which the whole run could become faster; advice that
//! could not gain 3 % is not given.

use crate::facts::{Pipe, Run, Stage};
use crate::verdict::{Reason, Verdict};
use crate::words;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub(crate) mod programs;

pub use programs::is_relay;

/// Kinds of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A larger pipe between two stages.
    LargerPipe,
    /// A buffer larger than any pipe between two stages.
    ElasticBuffer,
    /// More CPUs.
    MoreCpus,
    /// Comparing and classifying text as bytes.
    CLocale,
    /// A (de)compressor that uses several CPUs.
    ParallelCompressor,
    /// Fewer, larger writes.
    LargerWrites,
    /// Fewer, larger reads.
    LargerReads,
}

impl Kind {
    /// The stable name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::LargerPipe => "larger-pipe",
            Kind::ElasticBuffer => "elastic-buffer",
            Kind::MoreCpus => "more-cpus",
            Kind::CLocale => "c-locale",
            Kind::ParallelCompressor => "parallel-compressor",
            Kind::LargerWrites => "larger-writes",
            Kind::LargerReads => "larger-reads",
        }
    }
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Its kind.
    pub kind: Kind,
    /// Position of the stage it is about.
    pub stage: Option<usize>,
    /// Position of the pipe it is about, in [`Run::pipes`].
    pub pipe: Option<usize>,
    /// The whole run would be at most this many times faster.
    pub gain_limit: f64,
    /// What to do, and why, in a sentence.
    pub text: String,
}

/// Gains below this are not worth a line.
const WORTH: f64 = 1.03;
/// Transfers below this mean size are tiny.
const TINY_BYTES: u64 = 512;
/// Fewer calls than this do not matter.
const MANY_CALLS: u64 = 2_000;
/// Fewer looks at a pipe than this say nothing of it.
pub const ENOUGH_SAMPLES: u64 = 20;
/// A pipe full (or empty) for less than this share is not taken as evidence.
const OFTEN: f64 = 0.10;
/// Waits longer than this come from bursts that no pipe holds.
const LONG_WAIT_NS: u64 = 50_000_000;

/// All advice for a run, the most gainful first.
pub fn advise(run: &Run, verdict: &Verdict) -> Vec<Advice> {
    let mut all = Vec::new();
    for position in 0..run.pipes.len() {
        all.extend(pipe_advice(run, position));
    }
    for position in 0..run.stages.len() {
        all.extend(larger_transfers(run, verdict, position));
    }
    if let Some(culprit) = &verdict.culprit {
        all.extend(c_locale(run, verdict, culprit.stage));
        all.extend(parallel_compressor(run, verdict, culprit.stage));
    }
    all.extend(more_cpus(run));
    all.retain(|advice| advice.gain_limit >= WORTH);
    all.sort_by(|a, b| b.gain_limit.total_cmp(&a.gain_limit));
    all
}

/// A factor from the share of the run that would go away, bounded by the next limit.
fn gain(run: &Run, saved_ns: u64, bound: Option<f64>) -> f64 {
    let left = (1.0 - run.share(saved_ns)).max(0.01);
    (1.0 / left).min(bound.unwrap_or(f64::INFINITY))
}

/// How much faster the run could be with this stage free; 1 for all but the culprit.
fn bound(verdict: &Verdict, stage: usize) -> Option<f64> {
    let culprit = verdict.culprit.as_ref().filter(|culprit| culprit.stage == stage)?;
    Some(culprit.speedup_limit.unwrap_or(f64::INFINITY))
}

fn pipe_advice(run: &Run, position: usize) -> Option<Advice> {
    let pipe: &Pipe = &run.pipes[position];
    let often = pipe.full_share >= OFTEN && pipe.empty_share >= OFTEN;
    let in_turn = often && pipe.samples >= ENOUGH_SAMPLES;
    let (writer, reader) = (run.stages.get(pipe.from)?, run.stages.get(pipe.to)?);
    // A relay waits for both its neighbours by its nature: its waits say nothing about a pipe.
    let relayed = |stage: &Stage| stage.relay || programs::is_buffer(&stage.label);
    if !in_turn || relayed(writer) || relayed(reader) {
        return None;
    }
    // Each side waits for the other in turn: what either could save is the smaller wait.
    let idle_ns = writer.times.output_ns.min(reader.times.input_ns);
    let gain_limit = gain(run, idle_ns, None);
    let between = format!("{}->{}", pipe.from + 1, pipe.to + 1);
    let evidence = format!(
        "it was full {} and empty {} of the time",
        words::percent(pipe.full_share),
        words::percent(pipe.empty_share)
    );
    let bursts = pipe.longest_turn_ns >= LONG_WAIT_NS;
    let long = pipe.longest_full_ns.min(pipe.longest_empty_ns) >= LONG_WAIT_NS;
    let (kind, text) = if bursts {
        let again = if run.script { "" } else { "run again with --elastic, or: " };
        let text = format!(
            "put an elastic buffer into pipe {between} ({again}... | weir buffer | ...): \
             {evidence}, in bursts larger than a pipe"
        );
        (Kind::ElasticBuffer, text)
    } else if long || pipe.capacity_bytes >= pipe.limit_bytes {
        // Long waits that are no turns (a slow start, then a slow reader) no memory takes away.
        return None;
    } else {
        let limit = words::size(pipe.limit_bytes);
        let text = format!("give pipe {between} up to {limit} (--pipe-size auto): {evidence}");
        (Kind::LargerPipe, text)
    };
    Some(Advice { kind, stage: None, pipe: Some(position), gain_limit, text })
}

fn larger_transfers(run: &Run, verdict: &Verdict, position: usize) -> Option<Advice> {
    let stage = run.stages.get(position).filter(|stage| !stage.relay)?;
    let tiny = |calls: u64, bytes: u64| calls >= MANY_CALLS && bytes / calls < TINY_BYTES;
    let writes = tiny(stage.write_calls, stage.write_bytes);
    let reads = tiny(stage.read_calls, stage.read_bytes);
    let (kind, verb, calls, bytes) = match (writes, reads) {
        (true, true) if stage.read_calls > stage.write_calls => read_side(stage),
        (true, _) => (Kind::LargerWrites, "writes", stage.write_calls, stage.write_bytes),
        (false, true) => read_side(stage),
        _ => return None,
    };
    // Of the culprit, its own system time goes away. Tiny writes also wake the reader each time,
    // so of other stages only what the whole pipeline spends in the kernel can be saved.
    let saved_ns = stage.system_ns.min(stage.times.busy_ns());
    let gain_limit = gain(run, saved_ns, bound(verdict, position));
    let culprit = bound(verdict, position).is_some();
    if !culprit && run.share(saved_ns) < 0.10 {
        return None;
    }
    let name = words::stage(position, &stage.label);
    let each = bytes / calls.max(1);
    let calls = words::count(calls);
    let hint = programs::buffering_hint(&stage.label, kind);
    let text = format!("{name} {verb} {each} bytes a call in {calls} calls: {hint}");
    Some(Advice { kind, stage: Some(position), pipe: None, gain_limit, text })
}

fn read_side(stage: &Stage) -> (Kind, &'static str, u64, u64) {
    (Kind::LargerReads, "reads", stage.read_calls, stage.read_bytes)
}

fn c_locale(run: &Run, verdict: &Verdict, position: usize) -> Option<Advice> {
    let stage = &run.stages[position];
    let locale = stage.locale.as_ref()?;
    if !programs::locale_matters(&stage.program) || run.share(stage.times.cpu_ns) < 0.3 {
        return None;
    }
    let gain_limit = gain(run, stage.times.cpu_ns, bound(verdict, position));
    let (name, program) = (words::stage(position, &stage.label), &stage.program);
    let text = format!(
        "set LC_ALL=C for {name}, if bytes will do: {program} compares text by the rules of {locale}"
    );
    Some(Advice { kind: Kind::CLocale, stage: Some(position), pipe: None, gain_limit, text })
}

fn parallel_compressor(run: &Run, verdict: &Verdict, position: usize) -> Option<Advice> {
    let stage = &run.stages[position];
    let culprit = verdict.culprit.as_ref()?;
    let idle_cpus = run.cpus - run.share(run.cpu_sum_ns());
    let instead = programs::parallel_form(&stage.label)?;
    if culprit.reason != Reason::Cpu || !stage.single_task || idle_cpus < 0.5 {
        return None;
    }
    // The work stays; it can at best be spread over its own CPU and the idle ones.
    let saved = stage.times.cpu_ns as f64 * (1.0 - 1.0 / (1.0 + idle_cpus));
    let gain_limit = gain(run, saved as u64, bound(verdict, position));
    let name = words::stage(position, &stage.label);
    let text = format!("{name} used one CPU while {idle_cpus:.1} were idle: try {instead}");
    let kind = Kind::ParallelCompressor;
    Some(Advice { kind, stage: Some(position), pipe: None, gain_limit, text })
}

fn more_cpus(run: &Run) -> Option<Advice> {
    let queue_ns: u64 = run.stages.iter().map(|stage| stage.times.queue_ns).sum();
    if !run.cpus_full() || run.share(queue_ns) < 0.10 {
        return None;
    }
    let longest_ns = run.stages.iter().map(|stage| stage.times.own_ns()).max()?;
    let gain_limit = run.wall_ns as f64 / longest_ns.max(1) as f64;
    let text = format!(
        "more CPUs: the {} it may use were full, and stages waited {:.1} s for one",
        if run.cpus == 1.0 { String::from("CPU") } else { format!("{} CPUs", run.cpus) },
        queue_ns as f64 / 1e9
    );
    Some(Advice { kind: Kind::MoreCpus, stage: None, pipe: None, gain_limit, text })
}

#[cfg(test)]
mod tests;
