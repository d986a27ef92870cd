//! What was measured of one run: the input of verdict and advice.

use crate::named::named;
use crate::partition::Times;
use alloc::string::String;
use alloc::vec::Vec;

mod around;

pub use around::{Host, Peer, PeerKind, Program, Quota, Started};

named!(
    /// How a figure is known.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Evidence {
        /// It is the kernel's own count, complete.
        Exact = "exact",
        /// It is made of samples.
        Sampled = "sampled",
        /// It follows from other figures; it may be more or less.
        Estimated = "estimated",
        /// It may be less, not more.
        UpperBound = "upper bound",
        /// It may be more, not less.
        LowerBound = "lower bound",
        /// It is not known.
        #[default]
        Unknown = "unknown",
    }
);

/// One run of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// From the start of the first stage to the end of the last.
    pub wall_ns: u64,
    /// CPUs the run could use (affinity and quota), possibly a fraction.
    pub cpus: f64,
    /// The stages, in order along the pipeline.
    pub stages: Vec<Stage>,
    /// The pipes between them.
    pub pipes: Vec<Pipe>,
    /// Whether the first stage reads from a pipe, a terminal or a socket that is not ours.
    pub input_from_outside: bool,
    /// Whether the last stage writes to a pipe, a terminal or a socket that is not ours.
    pub output_to_outside: bool,
    /// Whether it was a script run whole, whose stages were found from outside.
    pub script: bool,
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
    /// What a person typed for it.
    pub label: String,
    /// Name of the program that used most CPU in it.
    pub program: String,
    /// From its start to its end.
    pub wall_ns: u64,
    /// Its wall time by state.
    pub times: Times,
    /// CPU time of all its tasks; may exceed the wall time.
    pub cpu_sum_ns: u64,
    /// System part of `cpu_sum_ns`.
    pub system_ns: u64,
    /// Whether it was one task all its life.
    pub single_task: bool,
    /// Samples its partition rests on.
    pub samples: u64,
    /// How `cpu_sum_ns` is known: exact, or a lower bound where descendants that nobody waited
    /// for used more.
    pub cpu_evidence: Evidence,
    /// Bytes that the read calls of its processes returned, whatever they read: its pipe, files,
    /// its own program, what its processes passed among themselves.
    pub read_bytes: u64,
    /// Bytes that the write calls of its processes took.
    pub write_bytes: u64,
    /// How `read_bytes` and `write_bytes` are known.
    pub bytes_evidence: Evidence,
    /// Bytes that came through the pipe in front of it.
    pub pipe_in_bytes: Option<u64>,
    /// Bytes that went through the pipe behind it.
    pub pipe_out_bytes: Option<u64>,
    /// How `pipe_in_bytes` and `pipe_out_bytes` are known: the weaker of both.
    pub pipe_evidence: Evidence,
    /// Number of its read calls.
    pub read_calls: u64,
    /// Number of its write calls.
    pub write_calls: u64,
    /// The locale its program compares and classifies text in, unless that is C or POSIX. Only
    /// one that is installed: where it is not, programs fall back to C.
    pub locale: Option<String>,
    /// Whether it only passes on what it reads, at the pace of its reader (`weir buffer`).
    pub relay: bool,
    /// How often it was found asleep after it had been found doing something else. A rate limiter
    /// sleeps hundreds of times; a stage that starts with one long sleep, once.
    pub times_asleep: u64,
    /// The processes that it started, if any could be seen. In a script: by this command's
    /// processes themselves, not by what they started.
    pub started: Option<Started>,
    /// Whom it waited for on a socket for the longest time.
    pub peer: Option<Peer>,
}

/// One pipe between two stages.
#[derive(Clone, Debug, Default)]
pub struct Pipe {
    /// Position in [`Run::stages`] of its writer.
    pub from: usize,
    /// Position in [`Run::stages`] of its reader.
    pub to: usize,
    /// Its capacity at the end.
    pub capacity_bytes: u64,
    /// The largest capacity it can be given here.
    pub limit_bytes: u64,
    /// Share of the time in which no more could be written.
    pub full_share: f64,
    /// Share of the time in which nothing could be read.
    pub empty_share: f64,
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
}

impl Run {
    /// CPUs it could use: by affinity and by quota.
    pub fn usable_cpus(&self) -> f64 {
        let quota = self.quota.map_or(f64::INFINITY, |quota| quota.cpus);
        self.cpus.min(quota).max(0.01)
    }

    /// CPU time of all stages.
    pub fn cpu_sum_ns(&self) -> u64 {
        self.stages.iter().map(|stage| stage.cpu_sum_ns).sum()
    }

    /// A time as a share of the wall time of the run.
    pub fn share(&self, time_ns: u64) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { time_ns as f64 / self.wall_ns as f64 }
    }
}
