//! Options of `weir bench`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use weir_measure::bench::params::{Load, Placement};

/// Options of `weir bench`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = MANUAL)]
pub struct BenchOptions {
    /// Suites to run whole; without any, the default set (a part of most suites, under 60 s)
    #[arg(value_name = "SUITE")]
    pub suites: Vec<String>,

    /// List the suites, or the cases of the suites named
    #[arg(short, long)]
    pub list: bool,

    /// Only at these placements
    #[arg(short, long, value_name = "PLACEMENT", value_delimiter = ',')]
    pub placement: Vec<PlacementArg>,

    /// A competing load beside every batch
    #[arg(long, value_name = "LOAD", default_value = "none")]
    pub load: LoadArg,

    /// Time for all of it, such as 20s or 5m [default: 48s, or what the suites need]
    #[arg(short, long, value_name = "TIME", value_parser = super::values::budget)]
    pub budget: Option<Duration>,

    /// Write the report as JSON (schema weir.bench/1) to FILE; - or nothing is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-",
          require_equals = true)]
    pub json: Option<PathBuf>,

    /// Write the report as one self-contained HTML page to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Keep the run in the history under NAME
    #[arg(long, value_name = "NAME")]
    pub save: Option<String>,

    /// With --save: overwrite a run of that name
    #[arg(long, requires = "save")]
    pub replace: bool,

    /// Directory of the files that are measured
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Seed of all orders
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Show no progress and no table
    #[arg(short, long)]
    pub quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  weir bench
  weir bench joy-ipc --placement same-cpu,other-cpu --html ipc.html
  weir bench --save before; reboot; weir bench --save after; weir compare before after";

const MANUAL: &str = "\
Examples:
  weir bench
  weir bench joy-ipc --placement same-cpu,other-cpu --html ipc.html
  weir bench --save before; reboot; weir bench --save after; weir compare before after

What the table says:
  estimate   the middle of some thirty fresh processes, each the better quarter of its batches,
             normalised to the CPU's speed in the first run on this host
  interval   95 %, widened by how far hosts drift: the intervals of two runs overlap
  as timed   the same before normalising
  place      where the two sides ran; figures are compared only within a placement
  n          batches x processes

The cases of a group run round after round in random order, so every two of them are compared
in pairs. A/A is the same case twice: what it resolves is what this host can tell apart.

Exit status: 0; 1 when nothing could be measured or a file not written; 2 for wrong usage; 130
when interrupted.";

/// Value of `--placement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlacementArg {
    /// Both sides on one CPU
    SameCpu,
    /// On two threads of one core
    Sibling,
    /// On two cores that share their last cache
    SameCache,
    /// On two cores
    OtherCpu,
    /// On two cores that are kept from idling
    OtherCpuAwake,
    /// Wherever the kernel puts them
    Free,
}

impl From<PlacementArg> for Placement {
    fn from(arg: PlacementArg) -> Placement {
        match arg {
            PlacementArg::SameCpu => Placement::SameCpu,
            PlacementArg::Sibling => Placement::Sibling,
            PlacementArg::SameCache => Placement::SameCache,
            PlacementArg::OtherCpu => Placement::OtherCpu,
            PlacementArg::OtherCpuAwake => Placement::OtherCpuAwake,
            PlacementArg::Free => Placement::Free,
        }
    }
}

/// Value of `--load`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadArg {
    /// Nothing but what the host does anyway
    None,
    /// A process per CPU that computes
    Cpu,
    /// A file copied again and again
    Copy,
    /// A process that walks through 256 MiB of memory
    Memory,
}

impl From<LoadArg> for Load {
    fn from(arg: LoadArg) -> Load {
        match arg {
            LoadArg::None => Load::None,
            LoadArg::Cpu => Load::Cpu,
            LoadArg::Copy => Load::Copy,
            LoadArg::Memory => Load::Memory,
        }
    }
}
