//! The decisions about runs, and nothing else: no clock, no input or output, no unsafe code.
//!
//! Facts come in, decisions go out, so that the same code runs on the real machine and in a test
//! that writes the facts down by hand.
//!
//! - [`state`]: what a stage is doing at an instant, and which of several states counts.
//! - [`partition`]: samples of states, brought into line with exact totals.
//! - [`facts`]: what was measured of one run, the input of the next two.
//! - [`programs`]: what is known of well-known programs.
//! - `load`: how much of the run each stage was busy.
//! - [`around`]: what took the run's CPU time: a quota, others, its own stages.
//! - [`verdict`]: which stage held the pipeline up, and why.
//! - [`advice`]: what would make it faster, where the evidence supports saying so.
//! - [`ending`]: whether the way a stage ended is a failure, and whose input it cut short.
//! - `limits`: how short a run could become, which bounds what advice can gain.
//! - [`sizing`]: when to enlarge a kernel pipe that is in use.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod advice;
pub mod around;
pub mod ending;
pub mod facts;
mod limits;
mod load;
pub mod partition;
pub mod programs;
pub mod sizing;
pub mod state;
pub mod verdict;
