//! The job to run, and its observer.

use super::stall::StallNews;
use crate::attribution::Sampler;
use rustix::process::Signal;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use weir_doctor::graph::ScriptPipeline;
use weir_doctor::programs::{has_read_all, is_one_command, may_leave_early};

/// A job to run.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The stages, or a single one that is a whole script.
    pub stages: Vec<StageSpec>,
    /// Whether the single stage is a script: the processes it starts are found from outside and
    /// accounted.
    pub script: bool,
    /// Why it is a script and not stages, as printed before "ran whole under the shell".
    pub whole_because: String,
    /// Reads the pipelines of a script's text, to find the lines of what it started.
    pub script_pipelines: Option<fn(&str) -> Vec<ScriptPipeline>>,
    /// The shell for stages that need one.
    pub shell: PathBuf,
    /// Options of that shell, before `-c`.
    pub shell_options: Vec<OsString>,
    /// Capacity of the pipes, and the least of those found in a script. `None`: as the shell makes
    /// them, or larger where that changes nothing but the time.
    pub pipe_bytes: Option<u64>,
    /// Whether the statuses of all stages count.
    pub pipefail: bool,
    /// Whether to enlarge pipes in use when that helps.
    pub pipe_auto: bool,
    /// Time between two ticks; at the start of the run they are closer together.
    pub tick_ns: u64,
    /// Which of descriptors 0 to 2 the stages must have closed, as this process has.
    pub closed: [bool; 3],
    /// Whether the stages ignore SIGPIPE, and do not get its default action.
    pub pipe_ignored: bool,
    /// Whether to sample the functions in which the stages compute.
    pub profile: bool,
    /// Whether to trace them.
    pub trace: bool,
    /// Whether to keep what the stages did over time.
    pub history: bool,
    /// A variable for each stage and all that it starts; empty where they get none.
    pub variables: Vec<(OsString, OsString)>,
}

/// Capacity of a pipe that may be larger than a shell's. Measured on cat|wc: it takes half the time
/// of Linux's own 64 KiB; 1 MiB gains little more.
pub const LARGER_PIPE_BYTES: u64 = 256 << 10;

impl Job {
    /// Returns the capacity of the pipe behind each stage but the last; `None`: as the kernel makes
    /// it.
    ///
    /// Through a larger pipe a writer gets further before it learns that its reader left. So a pipe
    /// keeps the shell's size where a reader behind it may leave early, and where the writer's status
    /// counts: in that of the pipeline, or to a shell that runs the writer as one of its commands.
    pub fn pipe_sizes(&self) -> Vec<Option<u64>> {
        let mut left_early = false;
        let mut size = |pair: &[StageSpec]| {
            let (writer, reader) = (&pair[0], &pair[1]);
            let passes_on = reader.inserted || !has_read_all(&reader.label);
            left_early = left_early && passes_on || may_leave_early(&reader.label);
            let larger = !self.pipefail && !left_early && is_one_command(&writer.label);
            self.pipe_bytes.or(larger.then_some(LARGER_PIPE_BYTES))
        };
        let mut sizes: Vec<_> = self.stages.windows(2).rev().map(&mut size).collect();
        sizes.reverse();
        sizes
    }

    /// Returns the text of a stage that is run by a shell.
    pub(super) fn text(&self, stage: usize) -> Option<&str> {
        match &self.stages.get(stage)?.launch {
            Launch::Shell(text) => text.to_str(),
            Launch::Exec { .. } => None,
        }
    }
}

/// One stage to run.
#[derive(Clone, Debug)]
pub struct StageSpec {
    /// Its name for people.
    pub label: String,
    /// How it is started.
    pub launch: Launch,
    /// Whether it is a buffer that nobody typed.
    pub inserted: bool,
}

/// How a stage is started.
#[derive(Clone, Debug)]
pub enum Launch {
    /// A program, started directly.
    Exec {
        /// Variables set for it alone.
        env: Vec<(OsString, OsString)>,
        /// Its name and arguments.
        argv: Vec<OsString>,
        /// The command for a shell, which is used if starting the program fails in an unusual way.
        text: Option<OsString>,
    },
    /// A text for the shell.
    Shell(OsString),
}

/// To whom a signal to this process is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// To nobody: the stages get it by themselves, or need not.
    Nobody,
    /// To the first process of each stage.
    Stages,
    /// To all known processes of the run: half a pipeline left running would help nobody.
    All,
}

/// An observer of a running job.
pub trait Watcher {
    /// Returns the signals that came since the last call.
    fn signals(&mut self) -> Vec<i32>;
    /// Returns to whom a signal that came is passed on.
    fn forward(&mut self, signal: i32) -> Forward {
        let ends = [Signal::TERM.as_raw(), Signal::HUP.as_raw()].contains(&signal);
        if ends { Forward::All } else { Forward::Nobody }
    }
    /// Reports that all stages have ended. The record of the run is not made yet.
    fn over(&mut self) {}
    /// Reports that a stage could not be started, for this reason.
    fn failed(&mut self, position: usize, label: &str, reason: &str);
    /// Returns after which time in which nothing moves a stall is told of, if it is.
    fn stall_after(&self) -> Option<Duration> {
        None
    }
    /// Tells of a stall.
    fn stall(&mut self, _: StallNews) {}
    /// Reports progress, at most every 100 ms or so.
    fn progress(&mut self, now_ns: u64, sampler: &Sampler);
}
