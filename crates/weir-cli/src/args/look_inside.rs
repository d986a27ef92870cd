//! Options for a closer look at a run, the same in all verbs that watch one.

use clap::{Args, ValueHint};
use std::path::{Path, PathBuf};

/// What else to keep of a run, and where to write it.
#[derive(Clone, Debug, Default, Args)]
pub struct LookInside {
    /// Sample the functions in which the stages compute, and show the hottest of the stage that
    /// holds the run up
    #[arg(long)]
    pub profile: bool,

    /// Trace every switch of the CPUs (as root): times by state are then exact, and not sampled
    #[arg(long)]
    pub trace: bool,

    /// Write a page with the course of the run to FILE: states and fills over time, phases, tables
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,

    /// Write the course of the run to FILE as Chrome trace events, which Perfetto opens
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub chrome_trace: Option<PathBuf>,
}

impl LookInside {
    /// Whether functions are to be sampled: a page shows them.
    pub fn profiles(&self) -> bool {
        self.profile || self.html.is_some()
    }

    /// The files that are written, each with its option.
    pub fn files(&self) -> [(&'static str, Option<&Path>); 2] {
        [("--html", self.html.as_deref()), ("--chrome-trace", self.chrome_trace.as_deref())]
    }

    /// Whether the course of the run is to be kept.
    pub fn keeps_history(&self) -> bool {
        self.html.is_some() || self.chrome_trace.is_some()
    }
}
