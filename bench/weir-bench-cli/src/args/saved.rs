//! Options of `weir history` and `weir compare`.

use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use weir_command::json_option::JsonOption;
use weir_command::units::parse::percent;

/// List, show, export or remove saved runs of weir bench
#[derive(Debug, Parser)]
#[command(name = "weir-history", bin_name = "weir history", version, max_term_width = 100)]
#[command(after_help = HISTORY_EXAMPLES, disable_help_subcommand = true,
          args_conflicts_with_subcommands = true)]
pub struct HistoryCommand {
    /// What to do; without a verb, list
    #[command(subcommand)]
    pub verb: Option<HistoryVerb>,

    /// The option of list, where no verb is given
    #[command(flatten)]
    pub list: HistoryListOptions,
}

#[derive(Debug, Subcommand)]
pub enum HistoryVerb {
    /// List the saved runs of weir bench, the newest first
    List(HistoryListOptions),
    /// Print a saved run as weir bench printed it, or write it as JSON or HTML
    Show(HistoryShowOptions),
    /// Print a saved run in a format for another tool
    Export(HistoryExportOptions),
    /// Remove a saved run
    Remove(HistoryRemoveOptions),
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help(LIST_JSON)))]
pub struct HistoryListOptions {
    #[command(flatten)]
    pub json: JsonOption,
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help(SHOW_JSON)))]
pub struct HistoryShowOptions {
    /// The run
    pub name: String,

    #[command(flatten)]
    pub json: JsonOption,

    /// Write the run as one self-contained HTML page to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct HistoryExportOptions {
    /// The run
    pub name: String,

    /// The format
    #[arg(long, value_name = "FORMAT", default_value = "weir")]
    pub format: Export,
}

#[derive(Debug, Args)]
pub struct HistoryRemoveOptions {
    /// The run
    pub name: String,
}

const LIST_JSON: &str =
    "Write the list as JSON (schema weir.history/1) to FILE; - is standard output";

const SHOW_JSON: &str = "Write the run as JSON (schema weir.bench/1) to FILE; - is standard output";

const HISTORY_EXAMPLES: &str = "\
Examples:
  weir bench --save before            save a run under a name
  weir history                        list the saved runs
  weir history show before --html before.html
  weir history export before --format go > before.txt
  weir history remove before

Saved runs are files in $XDG_STATE_HOME/weir/history, or ~/.local/state/weir/history; WEIR_HISTORY
names another directory.";

/// Value of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Export {
    /// weir.bench/1
    Weir,
    /// hyperfine's JSON (only cases that measure a time)
    Hyperfine,
    /// Bencher Metric Format
    Bencher,
    /// Go benchmark text, one line per sample, for benchstat
    Go,
}

/// Compare two saved runs of weir bench, or one with a new run
#[derive(Debug, Parser)]
#[command(name = "weir-compare", bin_name = "weir compare", version, max_term_width = 100)]
#[command(after_help = EXAMPLES, after_long_help = COMPARE_MANUAL)]
#[command(mut_arg("json", |arg| arg.help(COMPARE_JSON)))]
pub struct CompareOptions {
    /// A saved run, or a file written by weir bench --json
    pub a: String,

    /// Another one; without it, weir measures the cases of A again now
    pub b: Option<String>,

    /// Largest difference that does not matter
    #[arg(long, value_name = "PERCENT", default_value = "5%",
          value_parser = percent(0.0..=100.0, NO_SHARE).map(|of: f64| of / 100.0))]
    pub band: f64,

    #[command(flatten)]
    pub json: JsonOption,

    /// Exit with status 1 if a case has this verdict
    #[arg(long, value_name = "VERDICT")]
    pub fail_on: Option<FailOn>,

    /// Also list cases that are equivalent or inconclusive, and cases that only one run has
    #[arg(short, long)]
    pub verbose: bool,
}

const NO_SHARE: &str = "not a share from 0% to 100%";

const COMPARE_JSON: &str =
    "Write the comparison as JSON (schema weir.compare/1) to FILE; - is standard output";

const COMPARE_MANUAL: &str = "\
The two runs were not interleaved. Three rules keep weir from calling an unchanged host changed:
  drift       intervals are widened by how far hosts drift from run to run: 3 % on one CPU, 8 %
              across CPUs, once for each run
  Holm        p values are corrected for the number of cases: in one of twenty comparisons of a host
              with itself, a case is called faster or slower
  state       if others used the CPUs a tenth more in one run than in the other, the hypervisor took
              5 % more, or the CPUs ran a tenth faster, no case is called faster or slower; such
              cases are inconclusive, and the report says what they would have been

If the states differ, --fail-on slower does not fail and says so on standard error; --fail-on
changed does fail.

Exit status: 0; 1 if a case has the verdict of --fail-on, or a run cannot be read; 2 for wrong
usage; 130 if interrupted.";

/// Value of `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// B is slower
    Slower,
    /// B is not equivalent to A, or nothing can be concluded
    Changed,
}

const EXAMPLES: &str = "\
Examples:
  weir bench --save before; weir bench --save after; weir compare before after
  weir compare before
  weir compare old.json new.json --band 2% --fail-on slower";
