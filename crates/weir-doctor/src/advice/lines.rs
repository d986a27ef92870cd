//! Advice on lines that a program keeps until it has a block of them, while its reader waits.

use super::{Advice, AdviceKind, Gain, estimate};
use crate::facts::Run;
use crate::programs;

/// A stage that writes this many times less often than it reads gathers what it reads.
const GATHERS: u64 = 4;
/// Fewer reads than this are not a flow of lines.
const FEW_READS: u64 = 16;
/// Both must have waited for input for this share of the run.
const MUCH_WAITING: f64 = 0.25;
/// Less time than this share is not worth saving.
const MUCH: f64 = 0.10;

/// Advises to pass lines on at once, where they come slowly and a reader that works on each of them
/// waits until a block is full.
///
/// The reader's work on the last block comes after the end of the source. Blocks before that are
/// worked on while the source continues, so about one block's part of its work could be saved.
pub(super) fn line_buffering(run: &Run, position: usize) -> Option<Advice> {
    let pipe = run.pipes.iter().find(|pipe| pipe.from == position && pipe.to == position + 1)?;
    let (stage, reader) = (run.stages.get(pipe.from)?, run.stages.get(pipe.to)?);
    let io = stage.io?;
    let gathers = io.read_calls >= FEW_READS && io.write_calls * GATHERS <= io.read_calls;
    let waited_ns = stage.times.input_ns.min(reader.times.input_ns);
    if run.script || !gathers || run.share(waited_ns) < MUCH_WAITING {
        return None;
    }
    if !programs::takes_each_line(&reader.label) {
        return None;
    }
    programs::line_buffered(&stage.label)?;
    let work_ns = reader.wall_ns.saturating_sub(reader.times.input_ns);
    if run.share(waited_ns.min(work_ns / io.write_calls.max(1))) < MUCH {
        return None;
    }
    // Blocks may differ, and the last be the largest: this is not a bound.
    let gain = Gain::About(estimate(run.share(waited_ns.min(work_ns))));
    Some(Advice { kind: AdviceKind::LineBuffering, stage: Some(position), pipe: None, gain })
}
