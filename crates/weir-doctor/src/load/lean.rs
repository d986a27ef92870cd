//! What a pipe tells of the two stages beside it: one that is often full and hardly ever empty
//! has the slower stage behind it, one that is often empty and hardly ever full before it.

use crate::facts::{Pipe, Run};

/// A pipe full (or empty) for less than this share of the time says nothing.
const OFTEN: f64 = 0.10;
/// "Hardly ever" is this many times less.
const CLEARLY: f64 = 2.0;

/// A side of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Who writes into it.
    Writer,
    /// Who reads from it.
    Reader,
}

/// The slower side of a pipe, if it tells.
pub(crate) fn slower(pipe: &Pipe) -> Option<Side> {
    let (full, empty) = pipe.shares();
    match pipe.samples >= Pipe::ENOUGH_SAMPLES {
        true if full >= OFTEN && full >= CLEARLY * empty => Some(Side::Reader),
        true if empty >= OFTEN && empty >= CLEARLY * full => Some(Side::Writer),
        _ => None,
    }
}

/// Which of two stages is the slower one by the pipes between them, if all of these agree.
pub(crate) fn slower_of(run: &Run, one: usize, other: usize) -> Option<usize> {
    let (left, right) = (one.min(other), one.max(other));
    let mut found = None;
    for from in left..right {
        let pipe = run.pipes.iter().find(|pipe| pipe.from == from && pipe.to == from + 1)?;
        let side = slower(pipe)?;
        if found.is_some_and(|found| found != side) {
            return None;
        }
        found = Some(side);
    }
    Some(if found? == Side::Reader { right } else { left })
}
