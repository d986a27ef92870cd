//! What a run gives: one record a stage, one a pipe.
//!
//! Each figure is exact or sampled and says which: see [`Stage::single_task`] and
//! [`Stage::samples`]. Exact figures come from the kernel's own counters at the end of a stage.

use weir_doctor::ending::{MemoryKills, SIGPIPE};
use weir_doctor::facts;
pub use weir_doctor::facts::{Evidence, Host, Peer, PeerKind, Program, Quota, Started};
use weir_doctor::partition::Times;
pub use weir_measure_sys::wait::Ending;

/// A run of a pipeline, or of a script.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// From the start of the first stage to the end of the last, stops of the job left out.
    pub wall_ns: u64,
    /// Time the whole job was stopped.
    pub stopped_ns: u64,
    /// CPUs it could use.
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
    /// Whether the stages were found from outside rather than given.
    pub discovered: bool,
    /// Processes that the kernel killed meanwhile because memory had run out.
    pub memory_kills: MemoryKills,
    /// What else the CPUs did meanwhile.
    pub host: Host,
    /// The CPU quota that bound it most, if there is one.
    pub quota: Option<Quota>,
    /// The processes it started, all stages together.
    pub started: Option<Started>,
    /// Whether `/proc` could not be read.
    pub blind: bool,
}

/// One stage.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// What a person typed for it; of a found process, its arguments.
    pub label: String,
    /// Name of the program that used most CPU.
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
    /// Samples of its state.
    pub samples: u64,
    /// Bytes and calls of its read and write calls, if they could be read.
    pub io: Option<crate::proc::Io>,
    /// How the bytes and calls of `io` are known.
    pub bytes_evidence: Evidence,
    /// Bytes that came through the pipe in front of it.
    pub pipe_in_bytes: Option<u64>,
    /// Bytes that went through the pipe behind it.
    pub pipe_out_bytes: Option<u64>,
    /// How these are known: the weaker of both.
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
    /// The locale its program compares text in, unless C.
    pub locale: Option<String>,
    /// It only passes on what it reads, at the pace of its reader.
    pub relay: bool,
    /// It is a buffer that nobody typed.
    pub inserted: bool,
    /// How often it was found asleep after it had been found doing something else.
    pub times_asleep: u64,
    /// The processes that it started.
    pub started: Option<Started>,
    /// Whom it waited for on a socket for the longest time.
    pub peer: Option<Peer>,
}

/// One pipe.
#[derive(Clone, Debug, Default)]
pub struct Pipe {
    /// Position of its writer in [`Run::stages`].
    pub from: usize,
    /// Position of its reader.
    pub to: usize,
    /// Capacity at the end.
    pub capacity_bytes: u64,
    /// The largest capacity it could be given.
    pub limit_bytes: u64,
    /// Mean fill as a share of the capacity, if it was ever seen.
    pub mean_fill: Option<f64>,
    /// Largest fill seen.
    pub max_bytes: u64,
    /// Share of the time found full.
    pub full_share: Option<f64>,
    /// Share of the time found empty.
    pub empty_share: Option<f64>,
    /// Times it was found full after it was not.
    pub times_full: u64,
    /// Times it was found empty after it was not.
    pub times_empty: u64,
    /// Longest time found full without a break.
    pub longest_full_ns: u64,
    /// Longest time found empty without a break.
    pub longest_empty_ns: u64,
    /// Of a time full and the time empty that followed it the shorter, where that was longest.
    pub longest_turn_ns: u64,
    /// Looks these rest on.
    pub samples: u64,
}

/// A stage that read so many times what came through its pipe, and the loading of some programs
/// besides, read other things.
const FAR_MORE: u64 = 4;
/// What programs read while they are loaded.
const LOADING_BYTES: u64 = 1 << 20;

impl Run {
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

    /// The facts that verdict and advice are drawn from.
    pub fn facts(&self, input_from_outside: bool, output_to_outside: bool) -> facts::Run {
        facts::Run {
            wall_ns: self.wall_ns,
            cpus: self.cpus,
            stages: self.stages.iter().map(Stage::facts).collect(),
            pipes: self.pipes.iter().map(Pipe::facts).collect(),
            input_from_outside,
            output_to_outside,
            script: self.discovered,
            host: self.host,
            quota: self.quota,
            started: self.started.clone(),
            blind: self.blind,
        }
    }
}

impl Stage {
    /// Whether it ended because its reader had closed.
    pub fn closed_by_downstream(&self) -> bool {
        matches!(self.ending, Some(Ending::Signal(SIGPIPE)) | Some(Ending::Code(141)))
    }

    fn facts(&self) -> facts::Stage {
        let io = self.io.unwrap_or_default();
        facts::Stage {
            label: self.label.clone(),
            program: self.program.clone(),
            wall_ns: self.wall_ns,
            times: self.times,
            cpu_sum_ns: self.user_ns + self.system_ns,
            system_ns: self.system_ns,
            single_task: self.single_task,
            samples: self.samples,
            cpu_evidence: self.cpu_evidence,
            read_bytes: io.read_bytes,
            write_bytes: io.write_bytes,
            bytes_evidence: self.bytes_evidence,
            pipe_in_bytes: self.pipe_in_bytes,
            pipe_out_bytes: self.pipe_out_bytes,
            pipe_evidence: self.pipe_evidence,
            read_calls: io.read_calls,
            write_calls: io.write_calls,
            locale: self.locale.clone(),
            relay: self.relay,
            times_asleep: self.times_asleep,
            started: self.started.clone(),
            peer: self.peer.clone(),
        }
    }
}

impl Pipe {
    fn facts(&self) -> facts::Pipe {
        facts::Pipe {
            from: self.from,
            to: self.to,
            capacity_bytes: self.capacity_bytes,
            limit_bytes: self.limit_bytes,
            full_share: self.full_share.unwrap_or(0.0),
            empty_share: self.empty_share.unwrap_or(0.0),
            longest_full_ns: self.longest_full_ns,
            longest_empty_ns: self.longest_empty_ns,
            longest_turn_ns: self.longest_turn_ns,
            samples: self.samples,
        }
    }
}
