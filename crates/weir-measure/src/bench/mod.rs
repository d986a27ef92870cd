//! The engine of `weir bench`: figures that repeat on a noisy, shared machine.
//!
//! A run is a number of *cells*, each a fresh process that runs the cases of one group round after
//! round in random order. Cells of all groups alternate in random order, so every case sees all of
//! the run's time, and every round pairs the cases of its group.
//!
//! - [`params`], [`case`]: what there is to measure, and with what.
//! - [`pick`]: which of it is asked for.
//! - [`place`], [`load`]: where the sides run, and what runs beside them.
//! - [`reference`](mod@reference), [`line`](mod@line): what is looked at beside every batch.
//! - [`latency`]: latency at a stated rate.
//! - [`plan`], [`pace`], [`drive`], [`cell`]: what will be done, how fast, by the command and by a
//!   fresh process.
//! - [`estimate`], [`assemble`]: from batches to figures with intervals.
//! - [`host`], [`state`]: the host's fingerprint, what it does at present, and beside a run.
//! - [`record`], [`remarks`]: what a run gives, and what is surprising in it.

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
mod upgrade;

#[cfg(test)]
mod tests;
