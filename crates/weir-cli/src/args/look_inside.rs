//! Options for a closer look at a run, the same in all verbs that watch one.

use clap::{Args, ValueHint};
use std::path::{Path, PathBuf};
use weir_command::fault::Fault;

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

    /// Write the report as Markdown to FILE, for GitHub and GitLab; - is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub md: Option<PathBuf>,

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
    pub fn files(&self) -> [(&'static str, Option<&Path>); 3] {
        let md = self.md.as_deref().filter(|_| !self.is_md_stdout());
        let trace = self.chrome_trace.as_deref();
        [("--md", md), ("--html", self.html.as_deref()), ("--chrome-trace", trace)]
    }

    /// Whether the Markdown goes to standard output.
    pub fn is_md_stdout(&self) -> bool {
        self.md.as_deref() == Some(Path::new("-"))
    }

    /// Refuses Markdown on a standard output that JSON has already.
    pub fn check_stdout(&self, is_json_there: bool) -> Result<(), Fault> {
        match self.is_md_stdout() && is_json_there {
            true => Err(Fault::usage("--json and --md cannot both go to standard output")),
            false => Ok(()),
        }
    }

    /// Whether the course of the run is to be kept.
    pub fn keeps_history(&self) -> bool {
        self.html.is_some() || self.chrome_trace.is_some()
    }
}
