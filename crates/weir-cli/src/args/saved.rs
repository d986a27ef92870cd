//! Options of `weir history` and `weir compare`.

use super::JsonOption;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = HISTORY_EXAMPLES, disable_help_subcommand = true,
          args_conflicts_with_subcommands = true)]
pub struct HistoryCommand {
    /// What to do; without it, list
    #[command(subcommand)]
    pub verb: Option<HistoryVerb>,

    /// The option of list, where no verb is given
    #[command(flatten)]
    pub list: HistoryListOptions,

    /// How show was spelt
    #[arg(long, value_name = "NAME", hide = true, group = "old")]
    pub show: Option<String>,

    /// How remove was spelt
    #[arg(long, value_name = "NAME", hide = true, group = "old")]
    pub remove: Option<String>,

    /// How export was spelt
    #[arg(long, value_name = "NAME", hide = true, group = "old")]
    pub export: Option<String>,

    /// The format of --export
    #[arg(long, value_name = "FORMAT", default_value = "weir", requires = "export", hide = true)]
    pub format: Export,
}

#[derive(Debug, Subcommand)]
pub enum HistoryVerb {
    /// List the saved runs of weir bench, the newest first
    List(HistoryListOptions),
    /// Print a saved run as weir bench did, or write it as JSON or as a page
    Show(HistoryShowOptions),
    /// Print a saved run in the format of another tool
    Export(HistoryExportOptions),
    /// Forget a saved run
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

    /// Write it as one self-contained HTML page to FILE
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

const SHOW_JSON: &str = "Write the run as JSON (schema weir.bench/2) to FILE; - is standard output";

const HISTORY_EXAMPLES: &str = "\
Examples:
  weir bench --save before            keep a run under a name
  weir history                        what is kept
  weir history show before --html before.html
  weir history export before --format go > before.txt
  weir history remove before

The runs are in $XDG_STATE_HOME/weir/history.db, or ~/.local/state/weir/history.db; WEIR_HISTORY
names another file.";

/// Value of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Export {
    /// weir.bench/2
    Weir,
    /// hyperfine's JSON (the cases that are times)
    Hyperfine,
    /// Bencher Metric Format
    Bencher,
    /// Go benchmark text, a line a sample, for benchstat
    Go,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = COMPARE_MANUAL)]
#[command(mut_arg("json", |arg| arg.help(COMPARE_JSON)))]
pub struct CompareOptions {
    /// A saved run, or a file of `weir bench --json`
    pub a: String,

    /// Another; without it, what the host does now (the cases of A are measured again)
    pub b: Option<String>,

    /// The difference that does not matter
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    pub band: f64,

    #[command(flatten)]
    pub json: JsonOption,

    /// Exit with status 1 if a case has this verdict
    #[arg(long, value_name = "VERDICT")]
    pub fail_on: Option<FailOn>,

    /// List also what is equivalent or inconclusive, and what only one run has
    #[arg(short, long)]
    pub verbose: bool,
}

const COMPARE_JSON: &str =
    "Write the comparison as JSON (schema weir.compare/2) to FILE; - is standard output";

const COMPARE_MANUAL: &str = "\
The two runs were not interleaved, so three things keep an unchanged host from being called changed:
  drift       intervals are widened by how far hosts drift from run to run: 3 % on one CPU, 8 %
              across CPUs, once for each run
  Holm        p values are corrected for the number of cases: of twenty comparisons of a host with
              itself one has a case that is called faster or slower
  state       where others used the CPUs by a tenth more in one run than in the other, the
              hypervisor took 5 % more, or the CPUs ran a tenth faster, no case is called faster or
              slower; such cases are inconclusive, and what they would have been is told

--fail-on slower then does not fail, and says so on standard error; --fail-on changed does.

Exit status: 0; 1 when a case has the verdict of --fail-on, or a run cannot be read; 2 for wrong
usage; 130 when interrupted.";

/// Value of `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// B is slower
    Slower,
    /// B is not the same, or it is not known
    Changed,
}

const EXAMPLES: &str = "\
Examples:
  weir bench --save before; weir bench --save after; weir compare before after
  weir compare before
  weir compare old.json new.json --band 2% --fail-on slower";

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(String::from("not a share from 0% to 100%")),
    }
}
