//! The facts about one run: the input of verdict, advice and report.
//!
//! Each figure states how it is known: see [`Evidence`]. Exact figures come from the kernel's own
//! counters at the end of a stage.

use crate::backlog::Backlog;
use crate::ending::{Ending, MemoryKills};
use crate::graph::{CriticalPath, Jobs, Shape};
use crate::partition::Times;
use alloc::string::String;
use alloc::vec::Vec;

mod around;
mod dry;
mod exchange;
mod failed;
mod groups;
mod history;
mod hot;
mod left;
mod lines;
mod outside;
mod phases;
mod traced;
mod unseen;

pub use around::{GroupQuota, Host, MemoryLimit, Neighbour, Program, Quota, Started};
pub use dry::Dry;
pub use exchange::Exchange;
pub use failed::FailedCommand;
pub(crate) use groups::START_USER_NS;
pub use groups::{FoundGroup, Line, Spread, Unseen, WaitedCpu};
pub use history::{Cell, Fills, History, Lane};
pub use hot::{HotCode, HotFunction, HotStage};
pub use left::{LeftOpen, LeftProcess};
pub use lines::LineTime;
pub use outside::{
    FileAccess, FileWait, FileWaitKind, Flushes, OutsideProcess, Peer, PeerKind, TcpSample,
    TcpWaits,
};
pub use phases::{Holder, Phase};
pub use traced::Traced;

/// The quality of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum Evidence {
    /// Exact: the kernel's own, complete count.
    Exact,
    /// Traced: the scheduler's events told it.
    Traced,
    /// Sampled.
    Sampled,
    /// Derived from other figures; the true value may be larger or smaller.
    Estimated,
    /// An upper bound.
    #[strum(serialize = "upper bound")]
    UpperBound,
    /// A lower bound.
    #[strum(serialize = "lower bound")]
    LowerBound,
    /// Unknown.
    #[default]
    Unknown,
}

impl Evidence {
    /// Returns the one that says less.
    fn weaker(self, other: Evidence) -> Evidence {
        use Evidence::{Estimated, LowerBound, Sampled, Traced, Unknown, UpperBound};
        let order = [Unknown, LowerBound, Sampled, Estimated, UpperBound, Traced];
        let said = |evidence: &Evidence| [self, other].contains(evidence);
        order.into_iter().find(said).unwrap_or(Evidence::Exact)
    }
}

/// A run of a pipeline, or of a script.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// From the start of the first stage to the end of the last, less stops of the job.
    pub wall_ns: u64,
    /// Time the whole job was stopped.
    pub stopped_ns: u64,
    /// CPUs the run could use (affinity and quota), possibly a fraction.
    pub cpus: f64,
    /// The stages, in order along the pipeline.
    pub stages: Vec<Stage>,
    /// The pipes between them.
    pub pipes: Vec<Pipe>,
    /// How the last stage, or the script, ended.
    pub ending: Option<Ending>,
    /// Signals that this process received meanwhile, in order.
    pub signals: Vec<i32>,
    /// Ticks of the sampler.
    pub ticks: u64,
    /// Sentences about what could not be measured.
    pub notes: Vec<String>,
    /// Whether the first stage reads from a pipe, a terminal or a socket outside the run.
    pub input_from_outside: bool,
    /// Whether the last stage writes to a pipe, a terminal or a socket outside the run.
    pub output_to_outside: bool,
    /// Whether it was a script that ran whole, whose stages were found from outside.
    pub script: bool,
    /// Whether the rightmost stage that failed gives the run its status.
    pub pipefail: bool,
    /// Processes that the kernel killed meanwhile because memory had run out.
    pub memory_kills: MemoryKills,
    /// What the CPUs did beside the run.
    pub host: Host,
    /// The programs outside the run that used most of its CPUs, the most first, where none were idle.
    pub neighbours: Vec<Neighbour>,
    /// The CPU quota that restricted the run most, if there is one.
    pub quota: Option<Quota>,
    /// The limit of memory of the run's control groups that was reached most often, if one has one.
    pub memory_limit: Option<MemoryLimit>,
    /// The processes that the run started, all its stages together, if any were seen. In a pipeline
    /// the first process of each stage does not count.
    pub started: Option<Started>,
    /// The pipelines and commands that were found in a script, or inside of stages.
    pub groups: Vec<FoundGroup>,
    /// Which processes were waited for one after the other, where several ran at once.
    pub critical_path: Option<CriticalPath>,
    /// The jobs that one process ran, several at once.
    pub shape: Option<Shape>,
    /// The processes that lived too briefly to be seen, where each process is accounted.
    pub unseen: Option<Unseen>,
    /// Processes that could send each other something, for a good part of the run.
    pub exchanges: Vec<Exchange>,
    /// Who held the run up when; empty for a script, and where nothing was sampled.
    pub phases: Vec<Phase>,
    /// Whether `/proc` could not be read: then only the CPU time and the memory of stages are
    /// known, and their times by state mean nothing.
    pub blind: bool,
    /// The functions in which the stages computed, if that was asked for.
    pub hot: Option<HotCode>,
    /// What the stages did and how full the pipes were over time, if that was asked for.
    pub history: Option<History>,
    /// What was traced, if that was asked for.
    pub traced: Option<Traced>,
    /// The commands that failed among those that it started: first the one that ended it.
    pub failed: Vec<FailedCommand>,
    /// Whether the kernel told of each process: when it ran, and how it ended.
    pub has_all: bool,
    /// The jobs of a build.
    pub jobs: Option<Jobs>,
    /// Where a stage left something running that had the pipe behind it open.
    pub left: Vec<LeftOpen>,
    /// What the run left running that still has the output of the whole run open, where that is a pipe
    /// or a socket.
    pub left_output: Option<LeftProcess>,
    /// What was watched from outside, where weir did not start the processes itself.
    pub watched: Option<Watched>,
}

/// Processes that ran already and were watched for a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// The processes at the beginning.
    pub pids: Vec<i32>,
    /// Whether all of them, and all that they started, have ended.
    pub has_ended: bool,
    /// Whether nothing moved, and somebody waited at a pipe ([`crate::backlog::Activity`]).
    pub is_stuck: bool,
    /// The pipes among them.
    pub pipes: Vec<WatchedPipe>,
}

/// A pipe among watched processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedPipe {
    /// A process that writes it.
    pub writer_pid: Option<i32>,
    /// A process that reads it.
    pub reader_pid: Option<i32>,
    /// What became of the bytes in it; `None` where it was looked at too seldom.
    pub backlog: Option<Backlog>,
}

/// Processes that are copies of the one that started them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Their number.
    pub processes: u64,
    /// The CPU time of all.
    pub cpu_ns: u64,
    /// The CPU time of the one that used most.
    pub most_cpu_ns: u64,
}

/// One stage of a run.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// The command as typed; for a found process, its arguments.
    pub label: String,
    /// Name of the program in it that used most CPU time.
    pub program: String,
    /// Processes it represents: more than one where a script started the same command several
    /// times.
    pub processes: u64,
    /// For rows of a script: its lanes in the history of the run, as they were before they were named.
    pub lanes: Vec<usize>,
    /// From its start to its end.
    pub wall_ns: u64,
    /// Its wall time by state.
    pub times: Times,
    /// The quality of its CPU and queue times there.
    pub times_evidence: Evidence,
    /// The quality of its other times there.
    pub waits_evidence: Evidence,
    /// Whether it was one task all its life: then its CPU and queue times in `times` are exact.
    pub single_task: bool,
    /// Time in which several of its tasks were seen alive.
    pub several_ns: u64,
    /// Most tasks seen at the same time.
    pub most_tasks: usize,
    /// User CPU time of all its tasks.
    pub user_ns: u64,
    /// System CPU time of all its tasks.
    pub system_ns: u64,
    /// Its processes that are copies of another one: the workers of a pool.
    pub copies: Copies,
    /// The quality of user and system time: exact, a lower bound where descendants that nobody
    /// waited for used more, or sampled.
    pub cpu_evidence: Evidence,
    /// Time its tasks waited for a CPU, summed over the tasks.
    pub queue_sum_ns: u64,
    /// Number of samples behind its partition.
    pub samples: u64,
    /// Bytes and calls of its read and write calls, if these could be read.
    pub io: Option<Io>,
    /// The quality of the bytes and calls in `io`.
    pub bytes_evidence: Evidence,
    /// Bytes that came through the pipe in front of it.
    pub pipe_in_bytes: Option<u64>,
    /// Bytes that went through the pipe behind it.
    pub pipe_out_bytes: Option<u64>,
    /// The quality of `pipe_in_bytes`.
    pub pipe_in_evidence: Evidence,
    /// The quality of `pipe_out_bytes`.
    pub pipe_out_evidence: Evidence,
    /// Whether it was seen in calls whose bytes the kernel does not count (`splice`).
    pub uncounted: bool,
    /// Peak memory of its largest process.
    pub max_rss_bytes: Option<u64>,
    /// The quality of that: the kernel's figure, an upper bound, or sampled.
    pub max_rss_evidence: Evidence,
    /// How it ended, if known.
    pub ending: Option<Ending>,
    /// Why it could not be started.
    pub failure: Option<String>,
    /// Whether permission was missing to read the reasons for its waits.
    pub hidden: bool,
    /// Whether no sample met its waits, and the fill of its pipes shows what they were for.
    pub blocked_by_pipes: bool,
    /// The locale in which its program compares and classifies text, unless that is C or POSIX.
    /// Only an installed one: without it, programs fall back to C.
    pub locale: Option<String>,
    /// Whether `PYTHONUNBUFFERED` in its environment tells python not to gather output.
    pub unbuffered: bool,
    /// Whether it only passes on what it reads, at the rate of its reader (`weir buffer`).
    pub relay: bool,
    /// Whether it is a buffer that nobody typed.
    pub inserted: bool,
    /// Time in which a process of it waited to write to its standard error, a pipe.
    pub err_ns: u64,
    /// How often it was found asleep after it had been found in another state. A rate limiter
    /// sleeps hundreds of times; a stage that starts with one long sleep, once.
    pub times_asleep: u64,
    /// The processes that it started, if any were seen. In a script: those started by this
    /// command's processes themselves, without their descendants.
    pub started: Option<Started>,
    /// The peer for which it waited longest on a socket.
    pub peer: Option<Peer>,
    /// The files and devices for which it waited, the longest wait first.
    pub files: Vec<FileWait>,
    /// Of a bash: the lines at which it computed, that with the longest time first.
    pub lines: Vec<LineTime>,
    /// Its waits until what it had written was on the disk.
    pub flushes: Flushes,
    /// The path of the regular file that each of its processes reads, if there are several and all that
    /// were seen with a file read this one; the largest of those that each had open.
    pub shared_file: Option<String>,
    /// The files that its processes read from the beginning to the end, as far as was seen.
    pub files_read: Vec<FileRead>,
    /// The file that is its standard output, if that is one of its own.
    pub output: Option<OutputFile>,
    /// How many of its processes were seen with a file open to be read that is no module of their
    /// program; looked at only where a program's start is known by what it reads.
    pub data_readers: u64,
    /// The CPU quota of a control group of its own that held it up most, if there is one.
    pub quota: Option<GroupQuota>,
    /// The limit of memory of a control group of its own, if there is one.
    pub memory_limit: Option<MemoryLimit>,
    /// Pages of memory that its processes had to wait for, since they were on a disk or in swap, if
    /// known.
    pub major_faults: Option<u64>,
}

/// A file that a command read whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRead {
    /// Its path.
    pub path: String,
    /// The bytes of all its readings.
    pub bytes: u64,
    /// How often it was read.
    pub times: u64,
}

/// The file that a stage writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputFile {
    /// Its path.
    pub path: String,
    /// Whether it was there no more at the end of the run.
    pub is_gone: bool,
}

/// Bytes and calls of processes' read and write calls, on whatever file: their pipe, files, their
/// own program, data passed among themselves. The kernel does not count bytes moved by `splice` and
/// similar calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Bytes that read calls returned.
    pub read_bytes: u64,
    /// Bytes that write calls took.
    pub write_bytes: u64,
    /// Number of read calls.
    pub read_calls: u64,
    /// Number of write calls.
    pub write_calls: u64,
}

/// One pipe between two stages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pipe {
    /// Position in [`Run::stages`] of its writer.
    pub from: usize,
    /// Position in [`Run::stages`] of its reader.
    pub to: usize,
    /// Its capacity at the end.
    pub capacity_bytes: u64,
    /// The capacity that weir gave it; `None` for a pipe of another maker.
    pub given_bytes: Option<u64>,
    /// The last other capacity that was found, which a stage gave it.
    pub resized_bytes: Option<u64>,
    /// Position of the stage that did that, if only one of its two can have done it.
    pub resized_by: Option<usize>,
    /// The largest capacity that it can have here.
    pub limit_bytes: u64,
    /// Mean fill as a share of the capacity, if it was ever sampled.
    pub mean_fill: Option<f64>,
    /// Largest fill seen, as a share of the capacity that it had then.
    pub max_fill: f64,
    /// Share of the time in which it was full.
    pub full_share: Option<f64>,
    /// Share of the time in which it was empty.
    pub empty_share: Option<f64>,
    /// How often it became full.
    pub times_full: u64,
    /// How often it became empty.
    pub times_empty: u64,
    /// Longest time it was found full without a break.
    pub longest_full_ns: u64,
    /// Longest time it was found empty without a break.
    pub longest_empty_ns: u64,
    /// The longest turn: the shorter of a time full and the time empty that followed it. Empty
    /// before it was ever full is a start, and full to the end a slow reader; neither is a turn.
    pub longest_turn_ns: u64,
    /// The sum of the turns of [`Pipe::LONG_TURN_NS`] or longer.
    pub long_turns_ns: u64,
    /// Number of samples behind these figures.
    pub samples: u64,
}

impl Pipe {
    /// The fewest samples of a pipe that are evidence.
    pub const ENOUGH_SAMPLES: u64 = 20;
    /// Turns as long as this come from bursts too large for any pipe.
    pub const LONG_TURN_NS: u64 = 50_000_000;

    /// Returns the shares of the time found full and found empty; 0 where it was never sampled.
    pub fn shares(&self) -> (f64, f64) {
        (self.full_share.unwrap_or(0.0), self.empty_share.unwrap_or(0.0))
    }
}

impl Stage {
    /// Returns the CPU time of all its tasks, which may exceed the wall time.
    pub fn cpu_sum_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// Returns the quality of the bytes of its pipes: where both are known, the weaker one.
    pub fn pipe_evidence(&self) -> Evidence {
        let sides = [self.pipe_in_evidence, self.pipe_out_evidence];
        let known = [self.pipe_in_bytes, self.pipe_out_bytes].map(|bytes| bytes.is_some());
        match known {
            [true, true] => sides[0].weaker(sides[1]),
            [true, false] => sides[0],
            [false, _] => sides[1],
        }
    }

    /// Whether it ended because its reader had closed.
    pub fn closed_by_downstream(&self) -> bool {
        self.ending.is_some_and(Ending::is_broken_pipe)
    }
}

impl Io {
    /// Whether the number of calls is known: some sources tell only bytes.
    pub fn has_calls(&self) -> bool {
        self.read_calls + self.write_calls > 0 || self.read_bytes + self.write_bytes == 0
    }

    /// Returns what was added since these earlier counts.
    pub fn since(self, before: Io) -> Io {
        Io {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
            read_calls: self.read_calls.saturating_sub(before.read_calls),
            write_calls: self.write_calls.saturating_sub(before.write_calls),
        }
    }

    /// Returns the sums of both.
    pub fn plus(self, other: Io) -> Io {
        Io {
            read_bytes: self.read_bytes + other.read_bytes,
            write_bytes: self.write_bytes + other.write_bytes,
            read_calls: self.read_calls + other.read_calls,
            write_calls: self.write_calls + other.write_calls,
        }
    }
}

/// A stage that read more than this many times the bytes of its pipe, beyond the loading of some
/// programs, read other data.
const FAR_MORE: u64 = 4;
/// Bytes that programs read while they are loaded, and those of each further process.
const LOADING_BYTES: u64 = 1 << 20;
const EACH_BYTES: u64 = 1 << 15;

impl Run {
    /// Returns the row of a script to which a lane of the history belongs, before the lanes are named.
    pub fn row_of_lane(&self, lane: usize) -> Option<usize> {
        self.stages.iter().position(|row| row.lanes.contains(&lane))
    }

    /// Returns the CPUs it could use, by affinity and by quota.
    pub fn usable_cpus(&self) -> f64 {
        let quota = self.quota.map_or(f64::INFINITY, |quota| quota.cpus);
        self.cpus.min(quota).max(0.01)
    }

    /// Returns the CPU time of all stages.
    pub fn cpu_sum_ns(&self) -> u64 {
        self.stages.iter().map(Stage::cpu_sum_ns).sum()
    }

    /// Returns a time as a share of the wall time of the run.
    pub fn share(&self, time_ns: u64) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { time_ns as f64 / self.wall_ns as f64 }
    }

    /// Returns the bytes that passed through a stage, and their quality: the bytes of the pipe in
    /// front of it, else of the pipe behind it, else the larger of what it read and wrote. If it
    /// read far more than came through its pipe, the pipe carried names of files or patterns, and
    /// the bytes that it read count.
    pub fn passed(&self, position: usize) -> (Option<u64>, Evidence) {
        let Some(stage) = self.stages.get(position) else { return (None, Evidence::Unknown) };
        let larger = stage.io.map(|io| io.read_bytes.max(io.write_bytes));
        let read = stage.io.map_or(0, |io| io.read_bytes);
        let started = stage.started.as_ref().map_or(0, |started| started.processes);
        let loading = LOADING_BYTES + started * EACH_BYTES;
        let reads_other_data = |bytes| read > FAR_MORE * bytes + loading;
        match (stage.pipe_in_bytes, stage.pipe_out_bytes) {
            (Some(bytes), _) if reads_other_data(bytes) => (Some(read), stage.bytes_evidence),
            (Some(bytes), _) => (Some(bytes), stage.pipe_in_evidence),
            (None, Some(bytes)) => (Some(bytes), stage.pipe_out_evidence),
            (None, None) => (larger, stage.bytes_evidence),
        }
    }

    /// Returns those bytes per second of the stage's wall time.
    pub fn bytes_per_s(&self, position: usize) -> Option<f64> {
        let wall_ns = self.stages.get(position)?.wall_ns;
        let bytes = self.passed(position).0.filter(|_| wall_ns > 0)?;
        Some(bytes as f64 / (wall_ns as f64 / 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// A loop that started 300 programs had read their beginnings, and that was its exact rate.
    #[test]
    fn what_the_programs_that_a_stage_starts_are_loaded_from_did_not_pass_through_it() {
        let mut stage = Stage {
            io: Some(Io { read_bytes: 1_200_000, ..Io::default() }),
            pipe_in_bytes: Some(1_100),
            pipe_in_evidence: Evidence::UpperBound,
            bytes_evidence: Evidence::Exact,
            ..Stage::default()
        };
        let passed =
            |stage: &Stage| Run { stages: vec![stage.clone()], ..Run::default() }.passed(0);
        assert_eq!(passed(&stage), (Some(1_200_000), Evidence::Exact), "it reads files");
        stage.started = Some(Started { processes: 300, ..Started::default() });
        assert_eq!(passed(&stage), (Some(1_100), Evidence::UpperBound));
    }
}
