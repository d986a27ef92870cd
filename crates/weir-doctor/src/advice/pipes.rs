//! Advice on pipes: more memory between two stages that wait for each other in turn.

use super::{Advice, AdviceKind, Gain, estimate};
use crate::around::{is_short_of_cpu, throttled};
use crate::facts::{Pipe, Run, Stage};
use crate::limits;
use crate::load::sleeps_for_a_rate;
use crate::programs;

/// A pipe full (or empty) for less than this share is not evidence.
const OFTEN: f64 = 0.10;
/// A pipe of this size or more gains little from growing: with an estimate of 1.12 to 1.34, five
/// pipelines gained 1.03 to 1.10 or nothing (docs/design/advice.md).
const LARGE_PIPE_BYTES: u64 = 262_144;
/// It is advised from this estimate on.
const LARGE_PIPE_GAIN: f64 = 1.5;
/// A bound that is this many times the estimate is too loose to state.
const LOOSE: f64 = 1.10;

/// Advises more memory for one pipe.
///
/// Memory lets a writer run ahead while its reader is busy. That saves time only if the writer then
/// ends earlier: one that keeps to a rate sleeps longer instead, so a stage with a rate limit, or
/// with repeated short sleeps, gets no elastic buffer. If no CPU time is left, more work at once
/// gains nothing either.
pub(super) fn pipe_advice(run: &Run, position: usize) -> Option<Advice> {
    let pipe: &Pipe = &run.pipes[position];
    let (full, empty) = pipe.shares();
    let often = full >= OFTEN && empty >= OFTEN;
    let in_turn = often && pipe.samples >= Pipe::ENOUGH_SAMPLES;
    let (writer, reader) = (run.stages.get(pipe.from)?, run.stages.get(pipe.to)?);
    // A relay by its nature waits for both its neighbours: its waits are not evidence about a pipe.
    let relayed = |stage: &Stage| stage.relay || programs::is_buffer(&stage.label);
    if !in_turn || relayed(writer) || relayed(reader) {
        return None;
    }
    if programs::keeps_a_pace(&writer.label) || lack_cpu(run, writer, reader) {
        return None;
    }
    let bursts = pipe.longest_turn_ns >= Pipe::LONG_TURN_NS;
    let long = pipe.longest_full_ns.min(pipe.longest_empty_ns) >= Pipe::LONG_TURN_NS;
    let kind = if bursts {
        if sleeps_for_a_rate(run, writer) {
            return None;
        }
        AdviceKind::ElasticBuffer
    } else if long || pipe.capacity_bytes >= pipe.limit_bytes {
        // Memory does not remove long waits that are not turns (a slow start, then a slow reader).
        return None;
    } else {
        AdviceKind::LargerPipe
    };
    // Memory lets the writer run ahead in each burst, and no further.
    let most_ns = if kind == AdviceKind::ElasticBuffer { pipe.long_turns_ns } else { u64::MAX };
    let gain = gain(run, writer, reader, most_ns);
    let large = pipe.capacity_bytes >= LARGE_PIPE_BYTES && kind == AdviceKind::LargerPipe;
    if large && gain.factor() < LARGE_PIPE_GAIN {
        return None;
    }
    Some(Advice { kind, stage: None, pipe: Some(position), gain })
}

/// Whether two stages lacked the CPU time to work at once: they waited for a CPU as long as they
/// could save.
fn lack_cpu(run: &Run, writer: &Stage, reader: &Stage) -> bool {
    let saved_ns = writer.times.output_ns.min(reader.times.input_ns);
    let queue_ns = writer.times.queue_ns + reader.times.queue_ns;
    throttled(run).is_some() || (is_short_of_cpu(run) && queue_ns > saved_ns)
}

/// Estimates the gain: each side waits for the other in turn, and either could save the smaller
/// wait. In a longer pipeline other stages may then wait less too, so this is not a bound, and the
/// true bound is loose.
fn gain(run: &Run, writer: &Stage, reader: &Stage, most_ns: u64) -> Gain {
    let idle_ns = writer.times.output_ns.min(reader.times.input_ns).min(most_ns);
    let likely = estimate(run.share(idle_ns));
    let bound = limits::without_waits(run);
    if bound > LOOSE * likely { Gain::About(likely) } else { Gain::AtMost(bound) }
}
