//! The engine of `weir bench`: figures that repeat on a noisy, shared machine.
//!
//! A run is a number of *cells*, each a fresh process that runs the cases of one group round after
//! round in random order. Cells of all groups alternate in random order, so every case is spread
//! over the whole run, and every round pairs the cases of its group.
//!
//! - [`params`], [`case`]: the things to measure, and their parameters.
//! - [`pick`]: the selection from them.
//! - [`place`], [`load`]: where the sides run, and the load beside them.
//! - [`reference`](mod@reference), [`line`](mod@line): measurements beside every batch.
//! - [`latency`]: latency at a given rate.
//! - [`plan`], [`pace`], [`drive`], [`cell`]: the plan of a run, its timing, and its execution by
//!   the command and by a fresh process.
//! - [`estimate`], [`assemble`]: from batches to figures with intervals.
//! - [`watched`]: all of a run, with the host's state before and beside it.
//! - [`host`], [`state`]: the host's fingerprint, its present activity, and its state beside a run.
//! - [`record`], [`remarks`]: the report of a run, and remarks on surprising figures.

pub mod assemble;
mod calibrate;
pub mod case;
pub mod cell;
pub mod drive;
pub mod estimate;
pub mod host;
pub mod latency;
pub mod line;
pub mod load;
pub mod pace;
pub mod params;
pub mod pick;
pub mod place;
pub mod plan;
pub mod record;
pub mod reference;
pub mod remarks;
pub mod state;
pub mod watched;

#[cfg(test)]
mod tests;
