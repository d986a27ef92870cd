//! Advice on what is worked on first and thrown away then: a filter in front.

use super::{Advice, AdviceKind, Gain, weight};
use crate::facts::{Evidence, Pipe, Run};
use crate::limits;
use crate::programs::{self, EachLine};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Work on each line that takes a smaller share of the run is not worth a change.
const MUCH_CPU: f64 = 0.3;
/// A filter passes few lines if it passes this part of what it reads, or less.
const FEW: f64 = 0.25;
/// Fewer bytes than this are no flow of lines.
const MANY_BYTES: u64 = 1 << 20;
/// What takes this time a byte takes several times as long as looking for a text in it, by `grep -F`.
const SLOW_NS: f64 = 3.0;

/// Where a filter is that could come first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filter {
    /// In the next stage, which passes this part of what it reads.
    Behind(f64),
    /// In the stage's own program.
    Inside,
}

/// Advises a filter before the stage at `position`, where most of what that works on is thrown away.
pub(super) fn filter_first(run: &Run, position: usize) -> Option<Advice> {
    let stage = run.stages.get(position)?;
    if weight(run, stage.times.cpu_ns, stage.cpu_sum_ns()) < MUCH_CPU {
        return None;
    }
    let gain = match filter(run, position)? {
        Filter::Behind(part) => {
            let (read, next) = (read_bytes(run, position)?, read_bytes(run, position + 1)?);
            let more = read as f64 / next.max(1) as f64;
            let parts = [(position, part), (position + 1, more.max(1.0))];
            Gain::About(limits::with_parts(run, &parts))
        }
        // If no line has it.
        Filter::Inside => Gain::AtMost(limits::without_user_time(run, position)),
    };
    Some(Advice { kind: AdviceKind::FilterFirst, stage: Some(position), pipe: None, gain })
}

/// Returns the filter that could come before the stage at `position`.
pub(super) fn filter(run: &Run, position: usize) -> Option<Filter> {
    let stage = run.stages.get(position)?;
    let read = read_bytes(run, position).filter(|bytes| *bytes >= MANY_BYTES)?;
    let passes = |at: usize, read: u64| {
        let stage = run.stages.get(at)?;
        let io = stage.io.filter(|_| stage.bytes_evidence == Evidence::Exact)?;
        Some(io.write_bytes as f64 / read as f64)
    };
    let behind = || {
        let next = run.stages.get(position + 1)?;
        let joined = |pipe: &&Pipe| pipe.from == position && pipe.to == position + 1;
        run.pipes.iter().find(joined)?;
        programs::each_line(&stage.label)?;
        let read = read_bytes(run, position + 1).filter(|bytes| *bytes >= MANY_BYTES)?;
        let is_it = programs::is_line_filter(&next.label) && next.pipe_in_bytes.is_some();
        passes(position + 1, read).filter(|part| is_it && *part <= FEW).map(Filter::Behind)
    };
    let inside = || {
        programs::with_grep(&stage.label)?;
        let slow = stage.cpu_sum_ns() as f64 >= SLOW_NS * read as f64;
        // Lines that it wrote had the text.
        (slow && passes(position, read)? <= FEW).then_some(Filter::Inside)
    };
    behind().or_else(inside)
}

/// Returns the stages with the filter first, if it surely does the same there.
pub(super) fn filtered(run: &Run, position: usize) -> Option<Vec<(usize, Option<String>)>> {
    let stage = run.stages.get(position)?;
    // What reads files by name would not read the pipe.
    stage.pipe_in_bytes?;
    match filter(run, position)? {
        Filter::Inside => Some(vec![(position, Some(programs::with_grep(&stage.label)?))]),
        Filter::Behind(_) if programs::each_line(&stage.label)? == EachLine::Keeps => {
            let next = run.stages.get(position + 1)?;
            Some(vec![
                (position, Some(next.label.clone())),
                (position + 1, Some(stage.label.clone())),
            ])
        }
        Filter::Behind(_) => None,
    }
}

fn read_bytes(run: &Run, position: usize) -> Option<u64> {
    let stage = run.stages.get(position)?;
    stage.pipe_in_bytes.or(stage.io.map(|io| io.read_bytes))
}
