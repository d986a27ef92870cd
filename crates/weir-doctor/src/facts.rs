//! What was measured of one run: the input of verdict, advice and report.
//!
//! Each figure is exact or sampled and says which: see [`Stage::single_task`] and
//! [`Stage::samples`]. Exact figures come from the kernel's own counters at the end of a stage.

use crate::ending::{Ending, MemoryKills, SIGPIPE};
use crate::partition::Times;
use alloc::string::String;
use alloc::vec::Vec;

mod around;

pub use around::{Host, Peer, PeerKind, Program, Quota, Started};

/// How a figure is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum Evidence {
    /// It is the kernel's own count, complete.
    Exact,
    /// It is made of samples.
    Sampled,
    /// It follows from other figures; it may be more or less.
    Estimated,
    /// It may be less, not more.
    #[strum(serialize = "upper bound")]
    UpperBound,
    /// It may be more, not less.
    #[strum(serialize = "lower bound")]
    LowerBound,
    /// It is not known.
    #[default]
    Unknown,
}

/// A run of a pipeline, or of a script.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// From the start of the first stage to the end of the last, stops of the job left out.
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
    /// What could not be measured, in sentences.
    pub notes: Vec<String>,
    /// Whether the first stage reads from a pipe, a terminal or a socket that is not ours.
    pub input_from_outside: bool,
    /// Whether the last stage writes to a pipe, a terminal or a socket that is not ours.
    pub output_to_outside: bool,
    /// Whether it was a script run whole, whose stages were found from outside.
    pub script: bool,
    /// Processes that the kernel killed meanwhile because memory had run out.
    pub memory_kills: MemoryKills,
    /// What else the CPUs did meanwhile.
    pub host: Host,
    /// The CPU quota that bound the run most, if there is one.
    pub quota: Option<Quota>,
    /// The processes that the run started, all its stages together, if it started any that could
    /// be seen. Of a pipeline the first process of each stage does not count.
    pub started: Option<Started>,
    /// Whether `/proc` could not be read: then the CPU time and the memory of stages are all that
    /// is known, and their times by state say nothing.
    pub blind: bool,
}

/// One stage of a run.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// What a person typed for it; of a found process, its arguments.
    pub label: String,
    /// Name of the program that used most CPU in it.
    pub program: String,
    /// Processes this stands for: more than one where a script started the same several times.
    pub processes: u64,
    /// From its start to its end.
    pub wall_ns: u64,
    /// Its wall time by state.
    pub times: Times,
    /// Whether it was one task all its life: then CPU and queue time in `times` are exact.
    pub single_task: bool,
    /// Most tasks seen at once.
    pub most_tasks: usize,
    /// User CPU time of all its tasks.
    pub user_ns: u64,
    /// System CPU time of all its tasks.
    pub system_ns: u64,
    /// How user and system time are known: exact, a lower bound where descendants that nobody
    /// waited for used more, or sampled.
    pub cpu_evidence: Evidence,
    /// Time its tasks waited for a CPU, added up.
    pub queue_sum_ns: u64,
    /// Samples its partition rests on.
    pub samples: u64,
    /// Bytes and calls of its read and write calls, if they could be read.
    pub io: Option<Io>,
    /// How the bytes and calls of `io` are known.
    pub bytes_evidence: Evidence,
    /// Bytes that came through the pipe in front of it.
    pub pipe_in_bytes: Option<u64>,
    /// Bytes that went through the pipe behind it.
    pub pipe_out_bytes: Option<u64>,
    /// How `pipe_in_bytes` and `pipe_out_bytes` are known: the weaker of both.
    pub pipe_evidence: Evidence,
    /// It was seen moving bytes by calls the kernel does not count (`splice`).
    pub uncounted: bool,
    /// Peak memory of its largest process.
    pub max_rss_bytes: Option<u64>,
    /// How that is known: the kernel's figure, an upper bound, or sampled.
    pub max_rss_evidence: Evidence,
    /// How it ended, where that can be known.
    pub ending: Option<Ending>,
    /// Why it could not be started.
    pub failure: Option<String>,
    /// The reasons for its waits could not be read for want of permission.
    pub hidden: bool,
    /// The locale its program compares and classifies text in, unless that is C or POSIX. Only
    /// one that is installed: where it is not, programs fall back to C.
    pub locale: Option<String>,
    /// Whether it only passes on what it reads, at the pace of its reader (`weir buffer`).
    pub relay: bool,
    /// It is a buffer that nobody typed.
    pub inserted: bool,
    /// How often it was found asleep after it had been found doing something else. A rate limiter
    /// sleeps hundreds of times; a stage that starts with one long sleep, once.
    pub times_asleep: u64,
    /// The processes that it started, if any could be seen. In a script: by this command's
    /// processes themselves, not by what they started.
    pub started: Option<Started>,
    /// Whom it waited for on a socket for the longest time.
    pub peer: Option<Peer>,
}

/// What the read and write calls of processes moved, whatever they read: their pipe, files, their
/// own program, what they passed among themselves. The kernel does not count bytes moved by
/// `splice` and the like.
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
    /// The largest capacity it can be given here.
    pub limit_bytes: u64,
    /// Mean fill as a share of the capacity, if it was ever seen.
    pub mean_fill: Option<f64>,
    /// Largest fill seen.
    pub max_bytes: u64,
    /// Share of the time in which no more could be written.
    pub full_share: Option<f64>,
    /// Share of the time in which nothing could be read.
    pub empty_share: Option<f64>,
    /// Times it was found full after it was not.
    pub times_full: u64,
    /// Times it was found empty after it was not.
    pub times_empty: u64,
    /// Longest time found full without a break.
    pub longest_full_ns: u64,
    /// Longest time found empty without a break.
    pub longest_empty_ns: u64,
    /// The longest turn: of a time full and the time empty that followed it, the shorter. Empty
    /// before it was ever full is a start, and full to the end a slow reader; neither is a turn.
    pub longest_turn_ns: u64,
    /// Samples these rest on.
    pub samples: u64,
}

impl Pipe {
    /// Fewer looks at a pipe than this say nothing of it.
    pub const ENOUGH_SAMPLES: u64 = 20;

    /// The shares of the time found full and found empty; 0 where it was never looked at.
    pub fn shares(&self) -> (f64, f64) {
        (self.full_share.unwrap_or(0.0), self.empty_share.unwrap_or(0.0))
    }
}

impl Stage {
    /// CPU time of all its tasks; may exceed the wall time.
    pub fn cpu_sum_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// Whether it ended because its reader had closed.
    pub fn closed_by_downstream(&self) -> bool {
        matches!(self.ending, Some(Ending::Signal(SIGPIPE)) | Some(Ending::Code(141)))
    }
}

impl Io {
    /// Both together.
    pub fn plus(self, other: Io) -> Io {
        Io {
            read_bytes: self.read_bytes + other.read_bytes,
            write_bytes: self.write_bytes + other.write_bytes,
            read_calls: self.read_calls + other.read_calls,
            write_calls: self.write_calls + other.write_calls,
        }
    }
}

/// A stage that read so many times what came through its pipe, and the loading of some programs
/// besides, read other things.
const FAR_MORE: u64 = 4;
/// What programs read while they are loaded.
const LOADING_BYTES: u64 = 1 << 20;

impl Run {
    /// CPUs it could use: by affinity and by quota.
    pub fn usable_cpus(&self) -> f64 {
        let quota = self.quota.map_or(f64::INFINITY, |quota| quota.cpus);
        self.cpus.min(quota).max(0.01)
    }

    /// CPU time of all stages.
    pub fn cpu_sum_ns(&self) -> u64 {
        self.stages.iter().map(Stage::cpu_sum_ns).sum()
    }

    /// A time as a share of the wall time of the run.
    pub fn share(&self, time_ns: u64) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { time_ns as f64 / self.wall_ns as f64 }
    }

    /// Bytes that passed through a stage, and how they are known: what came through the pipe in
    /// front of it, else what went through the pipe behind it, else the larger of what it read and
    /// wrote. Where it read far more than came through its pipe, the pipe carried names of files or
    /// patterns, and what it read is what passed.
    pub fn passed(&self, position: usize) -> (Option<u64>, Evidence) {
        let Some(stage) = self.stages.get(position) else { return (None, Evidence::Unknown) };
        let larger = stage.io.map(|io| io.read_bytes.max(io.write_bytes));
        let read = stage.io.map_or(0, |io| io.read_bytes);
        match stage.pipe_in_bytes.or(stage.pipe_out_bytes) {
            _ if stage
                .pipe_in_bytes
                .is_some_and(|bytes| read > FAR_MORE * bytes + LOADING_BYTES) =>
            {
                (Some(read), stage.bytes_evidence)
            }
            Some(bytes) => (Some(bytes), stage.pipe_evidence),
            None => (larger, stage.bytes_evidence),
        }
    }

    /// Those bytes by the stage's wall time.
    pub fn bytes_per_s(&self, position: usize) -> Option<f64> {
        let wall_ns = self.stages.get(position)?.wall_ns;
        let bytes = self.passed(position).0.filter(|_| wall_ns > 0)?;
        Some(bytes as f64 / (wall_ns as f64 / 1e9))
    }
}
