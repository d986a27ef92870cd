//! Options of `weir bench`.

use clap::Parser;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;
use std::time::Duration;
use weir_bench::engine::params::{Load, Placement};
use weir_command::json_option::JsonOption;
use weir_command::units::parse::whole;

/// Measure how fast bytes and messages pass between processes on this host, repeatably
#[derive(Debug, Parser)]
#[command(name = "weir-bench", bin_name = "weir bench", version, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = manual())]
#[command(mut_arg("json", |arg| arg.help(JSON)))]
pub struct BenchOptions {
    /// Suites to run in full, or SUITE/REGEX for the cases of a suite whose names match; without
    /// any, the default set (part of most suites, under 60 s)
    #[arg(value_name = "SUITE[/REGEX]")]
    pub suites: Vec<String>,

    /// Run only cases whose names, as SUITE/CASE, match this regular expression
    #[arg(short, long, value_name = "REGEX")]
    pub filter: Option<String>,

    /// List the suites and how long they take, or the cases of the suites given
    #[arg(short, long)]
    pub list: bool,

    /// Measure only at these placements
    #[arg(short, long, value_name = "PLACEMENT", value_delimiter = ',',
          value_parser = one_of(PLACEMENTS, Placement::name))]
    pub placement: Vec<Placement>,

    /// Run a competing load beside every batch
    #[arg(long, value_name = "LOAD", default_value = "none",
          value_parser = one_of(LOADS, Load::name))]
    pub load: Load,

    /// Time for the whole run, such as 20s or 5m [default: 48s, or what the suites need]
    #[arg(short, long, value_name = "TIME", value_parser = weir_command::units::parse::budget)]
    pub budget: Option<Duration>,

    #[command(flatten)]
    pub json: JsonOption,

    /// Write the report as one self-contained HTML page to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Save the run in the history under NAME
    #[arg(long, value_name = "NAME")]
    pub save: Option<String>,

    /// With --save: overwrite a run of that name
    #[arg(long, requires = "save")]
    pub replace: bool,

    /// Directory for the files whose reading and writing is measured
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Seed of the random order
    #[arg(long, value_name = "NUMBER", value_parser = whole(0..=u64::MAX))]
    pub seed: Option<u64>,

    /// Print no progress and no table
    #[arg(short, long)]
    pub quiet: bool,
}

const JSON: &str = "\
Write the report as JSON (schema weir.bench/1; with --list weir.bench.list/1) to FILE; - is \
standard output, and the table then goes to standard error";

const EXAMPLES: &str = "\
Examples:
  weir bench                                  the default set, less than a minute
  weir bench --list                           list the suites
  weir bench joy-ipc --html ipc.html          one suite, as an HTML page
  weir bench 'joy-ipc/one-way kernel-pipe'    some of its cases
  weir bench --filter 'futex|eventfd' --placement same-cpu
  weir bench --save before; reboot; weir bench --save after; weir compare before after";

const MANUAL: &str = "\
What the table says:
  estimate   centre of about thirty fresh processes, each represented by the better quartile of
             its batches, normalised to the CPU's speed in the first run on this host
  interval   95 % interval, widened by how far hosts drift, so that those of two runs overlap
  as timed   the estimate before normalising
  place      where the two sides ran; figures are compared only within a placement
  n          batches x processes

Before and during the run, weir bench watches how much of the CPUs others use. The third line of the
table reports it (others used 1.1 of 2 CPUs while it ran). If the host is busy, weir bench warns
before the run begins. --load is different: it is a load that weir bench itself puts on the host.

To keep to --budget, weir bench runs fewer rounds, then fewer processes, down to six for each group.
If that still takes longer, it says so before it starts (at least N s).

Ctrl-C ends the run and keeps what was measured so far, marked as interrupted; a second Ctrl-C ends
the command.

The cases of a group run round after round in random order, so any two of them are compared in
pairs. A/A is the same case measured as if it were two; it shows how small a difference this host
can resolve.

Exit status: 0; 1 if nothing could be measured or a file could not be written; 2 for wrong usage;
130 if interrupted, even if part of the report was kept.";

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
    (Load::None, "No load beside what the host does anyway"),
    (Load::Cpu, "One computing process per CPU"),
    (Load::Copy, "A process that copies a file repeatedly"),
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
