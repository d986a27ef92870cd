//! Options of `weir bench`.

use super::JsonOption;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;
use std::time::Duration;
use weir_measure::bench::params::{Load, Placement};

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
    #[arg(short, long, value_name = "PLACEMENT", value_delimiter = ',',
          value_parser = one_of(PLACEMENTS, Placement::name))]
    pub placement: Vec<Placement>,

    /// A competing load beside every batch
    #[arg(long, value_name = "LOAD", default_value = "none",
          value_parser = one_of(LOADS, Load::name))]
    pub load: Load,

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

/// Values of `--placement`, and what they mean.
const PLACEMENTS: [(Placement, &str); 6] = [
    (Placement::SameCpu, "Both sides on one CPU"),
    (Placement::Sibling, "On two threads of one core"),
    (Placement::SameCache, "On two cores that share their last cache"),
    (Placement::OtherCpu, "On two cores"),
    (Placement::OtherCpuAwake, "On two cores that are kept from idling"),
    (Placement::Free, "Wherever the kernel puts them"),
];

/// Values of `--load`, and what they mean.
const LOADS: [(Load, &str); 4] = [
    (Load::None, "Nothing but what the host does anyway"),
    (Load::Cpu, "A process per CPU that computes"),
    (Load::Copy, "A file copied again and again"),
    (Load::Memory, "A process that walks through 256 MiB of memory"),
];

/// Reads one of these values by its name.
fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    values: [(T, &'static str); N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let known = values.map(|(value, help)| PossibleValue::new(name(value)).help(help));
    PossibleValuesParser::new(known).try_map(move |given| {
        let found = values.iter().find(|(value, _)| name(*value) == given);
        found.map(|(value, _)| *value).ok_or("no such value")
    })
}
