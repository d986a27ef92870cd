//! The engine of `weir bench`: figures that repeat.
//!
//! - [`params`]: units, placements, loads and the parameters of a case.
//! - [`record`]: what a run gives.

pub mod params;
pub mod record;
