//! Advice on pipes: memory between two stages that wait for each other in turn.

use super::{Advice, Gain, Kind, estimate};
use crate::around::{is_short_of_cpu, throttled};
use crate::facts::{Pipe, Run, Stage};
use crate::limits;
use crate::load::sleeps_for_a_rate;
use crate::programs;

/// A pipe full (or empty) for less than this share is not taken as evidence.
const OFTEN: f64 = 0.10;
/// Waits longer than this come from bursts that no pipe holds.
const LONG_WAIT_NS: u64 = 50_000_000;
/// A bound that is this many times the estimate says too little.
const LOOSE: f64 = 1.10;

/// More memory for one pipe.
///
/// Memory lets a writer go on while its reader is busy. That gains time only if the writer is
/// then done earlier: one that keeps to a rate sleeps the longer, so a stage that is told a rate,
/// or that sleeps a little again and again, gets no elastic buffer. Where there is no CPU time
/// left, letting more be done at once gains nothing either.
pub(super) fn pipe_advice(run: &Run, position: usize) -> Option<Advice> {
    let pipe: &Pipe = &run.pipes[position];
    let (full, empty) = pipe.shares();
    let often = full >= OFTEN && empty >= OFTEN;
    let in_turn = often && pipe.samples >= Pipe::ENOUGH_SAMPLES;
    let (writer, reader) = (run.stages.get(pipe.from)?, run.stages.get(pipe.to)?);
    // A relay waits for both its neighbours by its nature: its waits say nothing about a pipe.
    let relayed = |stage: &Stage| stage.relay || programs::is_buffer(&stage.label);
    if !in_turn || relayed(writer) || relayed(reader) {
        return None;
    }
    if programs::keeps_a_pace(&writer.label) || lack_cpu(run, writer, reader) {
        return None;
    }
    let bursts = pipe.longest_turn_ns >= LONG_WAIT_NS;
    let long = pipe.longest_full_ns.min(pipe.longest_empty_ns) >= LONG_WAIT_NS;
    let kind = if bursts {
        if sleeps_for_a_rate(run, writer) {
            return None;
        }
        Kind::ElasticBuffer
    } else if long || pipe.capacity_bytes >= pipe.limit_bytes {
        // Long waits that are no turns (a slow start, then a slow reader) no memory takes away.
        return None;
    } else {
        Kind::LargerPipe
    };
    let gain = gain(run, writer, reader);
    Some(Advice { kind, stage: None, pipe: Some(position), gain })
}

/// Whether two stages could not do more at once for want of CPU time: they waited for a CPU as
/// long as they could save.
fn lack_cpu(run: &Run, writer: &Stage, reader: &Stage) -> bool {
    let saved_ns = writer.times.output_ns.min(reader.times.input_ns);
    let queue_ns = writer.times.queue_ns + reader.times.queue_ns;
    throttled(run).is_some() || (is_short_of_cpu(run) && queue_ns > saved_ns)
}

/// Each side waits for the other in turn: what either could save is the smaller wait. In a longer
/// pipeline the stages around may then wait less too, so that this is no bound, and the true one
/// is loose.
fn gain(run: &Run, writer: &Stage, reader: &Stage) -> Gain {
    let idle_ns = writer.times.output_ns.min(reader.times.input_ns);
    let likely = estimate(run.share(idle_ns));
    let bound = limits::without_waits(run);
    if bound > LOOSE * likely { Gain::About(likely) } else { Gain::AtMost(bound) }
}
