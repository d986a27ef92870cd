//! The conditions of a measurement: parameters under fixed names, placement, unit.

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

/// The unit of an estimate and of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
pub enum Unit {
    /// Nanoseconds: less is better.
    #[serde(rename = "ns")]
    #[strum(serialize = "ns")]
    Ns,
    /// Megabytes (10^6 bytes) a second: more is better.
    #[serde(rename = "MB/s")]
    #[strum(serialize = "MB/s")]
    MegabytesPerSecond,
    /// Operations a second: more is better.
    #[serde(rename = "1/s")]
    #[strum(serialize = "1/s")]
    PerSecond,
    /// Megabytes (10^6 bytes): less is better.
    #[serde(rename = "MB")]
    #[strum(serialize = "MB")]
    Megabytes,
    /// Hundredths of one CPU, or of all operations.
    #[serde(rename = "%")]
    #[strum(serialize = "%")]
    Percent,
}

impl Unit {
    /// Whether a larger figure is the better one.
    pub fn more_is_better(self) -> bool {
        matches!(self, Unit::MegabytesPerSecond | Unit::PerSecond)
    }

    /// Whether the figure depends on the CPU's speed, so that the reference loop can correct it.
    pub fn follows_the_cpu(self) -> bool {
        !matches!(self, Unit::Percent | Unit::Megabytes)
    }

    /// Whether the figure grows when the CPU is slower: the reference loop then corrects it.
    pub fn is_time(self) -> bool {
        self == Unit::Ns
    }
}

/// Where the two sides of a case run. Only figures of one placement are compared.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Placement {
    /// Both on one CPU.
    SameCpu,
    /// On two hardware threads of one core.
    Sibling,
    /// On two cores that share their last-level cache, as far as the machine shows it.
    SameCache,
    /// On two cores: with different caches if there are such, else any two.
    OtherCpu,
    /// As `OtherCpu`, with both CPUs kept from idling by `SCHED_IDLE` spinners.
    OtherCpuAwake,
    /// Wherever the kernel puts them.
    Free,
}

impl Placement {
    /// All placements, nearest first.
    pub const ALL: &[Placement] = Placement::VARIANTS;

    /// Returns its name, as `--placement` takes it and JSON has it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Describes it in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Placement::SameCpu => "Both sides on one CPU, taking turns.",
            Placement::Sibling => "On two hardware threads of one core.",
            Placement::SameCache => "On two cores that share their last cache.",
            Placement::OtherCpu => {
                "On two CPUs; a CPU with nothing to do goes idle and must be woken."
            }
            Placement::OtherCpuAwake => "On two CPUs that are kept from going idle.",
            Placement::Free => "Wherever the kernel puts them.",
        }
    }

    /// Whether the two sides are on two known CPUs.
    pub fn is_across(self) -> bool {
        !matches!(self, Placement::SameCpu | Placement::Free)
    }
}

/// A competing load beside every batch of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Load {
    /// None but the host's usual activity.
    #[default]
    None,
    /// One computing process per CPU.
    Cpu,
    /// A file of 64 MiB copied repeatedly.
    Copy,
    /// One process that walks through 256 MiB of memory.
    Memory,
}

impl Load {
    /// Returns its name, as `--load` takes it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The parameters of a case. JSON leaves out those that a case does not have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Params {
    /// The medium that moves the bytes or wakes the other side: "kernel-pipe", "futex", ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// "self", "one-way" or "two-way".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Bytes of one write, record or unit of file access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<u64>,
    /// Capacity of the pipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipe_bytes: Option<u64>,
    /// Bytes after which a sleeping reader is woken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_bytes: Option<u64>,
    /// Processes that write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writers: Option<u64>,
    /// Order of access: "sequential", "random", "walk-10", ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Memory allowed, as a share of the memory touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_share: Option<f64>,
    /// The logging that was on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<String>,
    /// How a file is reached: "cached", "direct", "mapped".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    /// The operation: "read" or "write", "copy", "fault", ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Processes that take turns or take part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parties: Option<u64>,
    /// Bytes each of them touches between two turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<u64>,
    /// Requests handed over in one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_call: Option<u64>,
    /// Computing per read, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<f64>,
    /// Requests started per second, whether or not earlier ones were answered (an open loop).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u64>,
    /// Packets in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The network device the packets cross.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}
