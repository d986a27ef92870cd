//! What is to be run, and who looks on.

use crate::attribution::Sampler;
use std::ffi::OsString;
use std::path::PathBuf;

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The stages, or a single one that is a whole script.
    pub stages: Vec<StageSpec>,
    /// The single stage is a script: account the processes it starts, found from outside.
    pub script: bool,
    /// Why it is a script and not stages, as it is said before "ran whole under the shell".
    pub whole_because: String,
    /// The shell for stages that need one.
    pub shell: PathBuf,
    /// Options of that shell, before `-c`.
    pub shell_options: Vec<OsString>,
    /// Capacity of the pipes.
    pub pipe_bytes: u64,
    /// Enlarge pipes in use when that helps.
    pub pipe_auto: bool,
    /// Time between two ticks after the first 200 ms, which are looked at more closely.
    pub tick_ns: u64,
    /// Which of descriptors 0 to 2 the stages are to have closed, as this process did.
    pub closed: [bool; 3],
}

/// One stage to run.
#[derive(Clone, Debug)]
pub struct StageSpec {
    /// How it is named to people.
    pub label: String,
    /// How it is started.
    pub launch: Launch,
    /// It is a buffer that nobody typed.
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
        /// The same for a shell, which is asked where starting it fails in an unusual way.
        text: Option<OsString>,
    },
    /// A text for the shell.
    Shell(OsString),
}

/// Who looks on while a job runs.
pub trait Watcher {
    /// Signals that came since the last call.
    fn signals(&mut self) -> Vec<i32>;
    /// A stage could not be started, for this reason.
    fn failed(&mut self, position: usize, label: &str, reason: &str);
    /// Called at most every 100 ms or so.
    fn progress(&mut self, now_ns: u64, sampler: &Sampler);
}
