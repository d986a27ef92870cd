//! Machines in virtual time.
//!
//! - [`heap`], [`kernel`], [`disk`]: events, processes on CPUs, a disk.
//! - [`machine`]: constants with their sources, from `machines/*.toml`.
//! - [`allen`], [`bbn`], [`joy`], [`franke`]: the published experiments; [`published`] has their figures.
//! - [`outcome`]: published and modelled figures beside each other.
//! - [`catalogue`]: the experiments by name, and the predictions.
//! - [`storm`]: faults over the decisions of `weir-policy`.
//! - [`whatif`]: what a measured pipeline would take with other pipes, CPUs or stages.
//!
//! Nothing here reads a clock: the same seed gives the same bytes on every machine.

#![forbid(unsafe_code)]

pub mod allen;
pub mod bbn;
pub mod catalogue;
pub mod disk;
pub mod franke;
pub mod heap;
pub mod joy;
pub mod kernel;
pub mod machine;
pub mod outcome;
pub mod published;
pub mod storm;
pub mod whatif;
