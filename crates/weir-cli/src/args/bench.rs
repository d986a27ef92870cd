//! Options of `weir bench`.

use super::JsonOption;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use weir_measure::bench::params::{Load, Placement};

/// Options of `weir bench`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = manual())]
#[command(mut_arg("json", |arg| arg.help(JSON)))]
pub struct BenchOptions {
    /// Suites to run whole, or SUITE/REGEX for those cases of one whose names match; without any,
    /// the default set (a part of most suites, under 60 s)
    #[arg(value_name = "SUITE[/REGEX]")]
    pub suites: Vec<String>,

    /// Run only cases whose names, as SUITE/CASE, match this regular expression
    #[arg(short, long, value_name = "REGEX")]
    pub filter: Option<String>,

    /// List the suites and what they take, or the cases of those asked for
    #[arg(short, long)]
    pub list: bool,

    /// Only at these placements
    #[arg(short, long, value_name = "PLACEMENT", value_delimiter = ',')]
    pub placement: Vec<PlacementArg>,

    /// A competing load beside every batch
    #[arg(long, value_name = "LOAD", default_value = "none")]
    pub load: LoadArg,

    /// Time for all of it, such as 20s or 5m [default: 48s, or what the suites need]
    #[arg(short, long, value_name = "TIME", value_parser = crate::units::parse::budget)]
    pub budget: Option<Duration>,

    #[command(flatten)]
    pub json: JsonOption,

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

const JSON: &str = "\
Write the report as JSON (schema weir.bench/2; with --list weir.bench.list/1) to FILE; - is \
standard output, and the table then goes to standard error";

const EXAMPLES: &str = "\
Examples:
  weir bench                                  the default set, less than a minute
  weir bench --list                           what there is
  weir bench joy-ipc --html ipc.html          one suite, as a page
  weir bench 'joy-ipc/one-way kernel-pipe'    some of its cases
  weir bench --filter 'futex|eventfd' --placement same-cpu
  weir bench --save before; reboot; weir bench --save after; weir compare before after";

const MANUAL: &str = "\
Examples:
  weir bench                                  the default set, less than a minute
  weir bench --list                           what there is
  weir bench joy-ipc --html ipc.html          one suite, as a page
  weir bench 'joy-ipc/one-way kernel-pipe'    some of its cases
  weir bench --filter 'futex|eventfd' --placement same-cpu
  weir bench --save before; reboot; weir bench --save after; weir compare before after

What the table says:
  estimate   the middle of some thirty fresh processes, each the better quarter of its batches,
             normalised to the CPU's speed in the first run on this host
  interval   95 %, widened by how far hosts drift: the intervals of two runs overlap
  as timed   the same before normalising
  place      where the two sides ran; figures are compared only within a placement
  n          batches x processes

Before it starts and while it runs, weir bench watches what others do with the CPUs: the third
line of the table says it (others used 1.1 of 2 CPUs while it ran), and a busy host is told before
the run begins. --load is another thing: a load that weir bench itself puts on the host.

--budget is kept: rounds are made fewer, then processes, down to six of each group. What takes
longer even so is told before it starts (at least N s).

Ctrl-C ends the run and keeps what was measured so far, marked as interrupted; a second Ctrl-C
gives up.

The cases of a group run round after round in random order, so every two of them are compared
in pairs. A/A is the same case twice: what it resolves is what this host can tell apart.

Exit status: 0; 1 when nothing could be measured or a file not written; 2 for wrong usage; 130
when interrupted, also where a part of the report was kept.";

/// The manual, with a sentence for each suite.
fn manual() -> String {
    let suites = weir_bench::catalogue();
    let suites: String =
        suites.iter().map(|suite| format!("\n  {}\n      {}", suite.name, suite.about)).collect();
    format!("{MANUAL}\n\nSuites (named after the reports whose experiments they repeat):{suites}")
}

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
