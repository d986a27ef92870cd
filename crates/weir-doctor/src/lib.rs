//! Decisions about runs: no clock, no input or output, no unsafe code.
//!
//! Facts come in, decisions go out, so that the same code runs on the real machine and in a test
//! that writes the facts down by hand.
//!
//! - [`state`]: the state of a stage at an instant, and which of several states counts.
//! - [`graph`]: the processes that a run started: pipelines among them, and the critical path.
//! - [`groups`]: the share and the verdict of each pipeline found, and of the whole.
//! - [`partition`]: samples of states, adjusted to exact totals.
//! - [`facts`]: the measurements of one run, the input of the next two.
//! - [`command`]: the words of a command as typed, and the command changed.
//! - [`programs`]: knowledge about common programs.
//! - [`repacked`]: what a script packs and unpacks again.
//! - [`read_again`]: a file that several commands of a script read.
//! - [`load`]: what each stage was: how busy, and with what.
//! - [`around`]: causes that took the run's CPU time: a quota, others, its own stages.
//! - [`outside`]: what a stage waited for outside the run.
//! - `parts`: the parts of a time that was spent.
//! - [`phases`]: where the stage that holds a run up changes.
//! - [`diagnosis`]: all that is found about a run, in one value; the report prints that.
//! - [`verdict`]: which stage was the bottleneck, and why.
//! - [`advice`]: what would make it faster, where the evidence supports it.
//! - [`ending`]: whether the end of a stage is a failure, and whose input it cut short.
//! - [`ends`]: the ends of a run of which a report must speak.
//! - [`failures`]: the commands of a script that failed, and which of them ended it.
//! - `limits`: how short a run could become, which bounds the gain of advice.
//! - [`starts`]: commands that are started again and again, and what their start takes.
//! - [`why`]: why a process does not continue, from process to process.
//! - [`stall`]: what a time in which nothing moved says about the run.
//! - [`sizing`]: when to enlarge a kernel pipe that is in use.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod advice;
pub mod around;
pub mod backlog;
pub mod command;
pub mod diagnosis;
pub mod ending;
pub mod ends;
pub mod facts;
pub mod failures;
pub mod graph;
pub mod groups;
mod limits;
pub mod load;
#[cfg(test)]
mod made;
pub mod outside;
pub mod partition;
mod parts;
pub mod phases;
pub mod programs;
pub mod read_again;
pub mod repacked;
pub mod sizing;
pub mod stall;
pub mod starts;
pub mod state;
pub mod verdict;
pub mod why;
