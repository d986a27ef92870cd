//! What is known of one process, whoever told it.

use super::classify::Endpoints;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use weir_doctor::ending::Ending;
use weir_doctor::facts::Io;
use weir_sys::Pid;

/// What is known of a process. Samples and the kernel's events of processes each fill one of their
/// own; that of a [`Group`](super::Group) is what both say together, and what stages, rows and found
/// pipelines are made of.
#[derive(Clone, Debug, Default)]
pub struct ProcessRecord {
    /// Its id.
    pub pid: Pid,
    /// Name of the program that it runs, as the kernel cuts it (15 bytes).
    pub program: String,
    /// Its arguments, joined by spaces; empty where they could not be read.
    pub command: String,
    /// The script that it reads, if it is a shell with one.
    pub script: Option<PathBuf>,
    /// The locale it compares text in, unless C or POSIX.
    pub locale: Option<String>,
    /// Whether its environment tells python not to gather output.
    pub unbuffered: bool,
    /// What it was before it became what it is, if it had started others by then: its arguments, or
    /// nothing where it was a copy of the one that started it or they could not be read.
    pub before: Option<String>,
    /// When it became what it is.
    pub became_ns: u64,
    /// Its input and output.
    pub ends: Endpoints,
    /// The path of its standard output, where that is a regular file.
    pub output: Option<String>,
    /// How it ended, if that is known.
    pub ending: Option<Ending>,
    /// What it has read and written: a lower bound until its end.
    pub io: Option<Io>,
    /// Share of system time in its CPU time, in parts of a thousand.
    pub system_permille: u64,
    /// CPU time of the descendants that it waited for, to a clock tick, and whether that was read
    /// after its end: then it is all.
    pub waited: (u64, bool),
}

impl ProcessRecord {
    /// Makes the record of a process of which nothing else is known.
    pub fn new(pid: Pid) -> ProcessRecord {
        ProcessRecord { pid, ..ProcessRecord::default() }
    }

    /// Takes what a later sample showed. What the kernel does not show any more stays.
    pub fn take_sample(&mut self, sample: &ProcessRecord) {
        // An ended process shows its program and no arguments, or nothing.
        let other = !sample.program.is_empty() && self.program != sample.program;
        if other || !sample.command.is_empty() {
            self.program.clone_from(&sample.program);
            self.command.clone_from(&sample.command);
            self.script.clone_from(&sample.script);
        }
        self.locale.clone_from(&sample.locale);
        self.unbuffered = sample.unbuffered;
        self.io = sample.io.or(self.io);
        self.system_permille = sample.system_permille;
        self.waited = sample.waited;
        self.ending = sample.ending.or(self.ending);
    }

    /// Takes what the events told of the whole life of a process that was started in the run.
    /// `ended`: its end was among them.
    pub fn take_events(&mut self, events: &ProcessRecord, ended: bool) {
        if self.output.is_none() {
            self.output.clone_from(&events.output);
        }
        if ended {
            self.io = more_of(events.io, self.io);
        }
    }
}

/// Converts a process's status to how it ended.
pub fn ending(status: ExitStatus) -> Ending {
    let signal = status.signal().map(Ending::Signal);
    signal.unwrap_or_else(|| Ending::Code(status.code().unwrap_or_default()))
}

/// Converts a status as waitpid(2) has it.
pub fn ending_of(status: i32) -> Ending {
    ending(ExitStatus::from_raw(status))
}

/// Returns the larger of two lower bounds: that of the account, and what was seen at the last look.
/// Calls are those that were seen.
fn more_of(account: Option<Io>, seen: Option<Io>) -> Option<Io> {
    let (Some(account), Some(seen)) = (account, seen) else { return account.or(seen) };
    Some(Io {
        read_bytes: account.read_bytes.max(seen.read_bytes),
        write_bytes: account.write_bytes.max(seen.write_bytes),
        ..seen
    })
}
