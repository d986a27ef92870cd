//! What was measured of one run: the input of verdict and advice.

use crate::partition::Times;
use alloc::string::String;
use alloc::vec::Vec;

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
    /// Bytes that its read calls returned.
    pub read_bytes: u64,
    /// Bytes that its write calls took.
    pub write_bytes: u64,
    /// Number of its read calls.
    pub read_calls: u64,
    /// Number of its write calls.
    pub write_calls: u64,
    /// The locale its program compares and classifies text in, unless that is C or POSIX.
    pub locale: Option<String>,
    /// Whether it only passes on what it reads, at the pace of its reader (`weir buffer`).
    pub relay: bool,
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

impl Run {
    /// CPU time of all stages.
    pub fn cpu_sum_ns(&self) -> u64 {
        self.stages.iter().map(|stage| stage.cpu_sum_ns).sum()
    }

    /// CPU time the run could have used.
    pub fn cpu_capacity_ns(&self) -> f64 {
        self.cpus.max(0.01) * self.wall_ns as f64
    }

    /// Whether the CPUs were all but full for the whole run.
    pub fn cpus_full(&self) -> bool {
        self.cpu_sum_ns() as f64 >= 0.85 * self.cpu_capacity_ns()
    }

    /// A time as a share of the wall time of the run.
    pub fn share(&self, time_ns: u64) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { time_ns as f64 / self.wall_ns as f64 }
    }
}
