//! Which stage beside a pipe is slower: the one behind a pipe that is often full and hardly ever
//! empty, or the one before a pipe that is often empty and hardly ever full.

use crate::facts::{Pipe, Run};

/// A pipe that is full (or empty) for less than this share of the time is not evidence.
const OFTEN: f64 = 0.10;
/// "Hardly ever" means this many times less.
const CLEARLY: f64 = 2.0;

/// The stage on one side of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeSide {
    /// The one before it.
    Writer,
    /// The one behind it.
    Reader,
}

/// Returns the slower side of a pipe, if the fill shows it.
pub(crate) fn slower(pipe: &Pipe) -> Option<PipeSide> {
    let (full, empty) = pipe.shares();
    match pipe.samples >= Pipe::ENOUGH_SAMPLES {
        true if full >= OFTEN && full >= CLEARLY * empty => Some(PipeSide::Reader),
        true if empty >= OFTEN && empty >= CLEARLY * full => Some(PipeSide::Writer),
        _ => None,
    }
}

/// Returns the slower of two stages, if all pipes between them agree.
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
    Some(if found? == PipeSide::Reader { right } else { left })
}
