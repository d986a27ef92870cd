//! Options of `weir history` and `weir compare`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of `weir history`.
#[derive(Debug, Args)]
pub struct HistoryOptions {
    /// Print the report of a saved run as JSON
    #[arg(long, value_name = "NAME", group = "what")]
    pub show: Option<String>,

    /// Forget a saved run
    #[arg(long, value_name = "NAME", group = "what")]
    pub remove: Option<String>,

    /// Print a saved run in the format of another tool
    #[arg(long, value_name = "NAME", group = "what")]
    pub export: Option<String>,

    /// The format of --export
    #[arg(long, value_name = "FORMAT", default_value = "weir", requires = "export")]
    pub format: Export,

    /// List as JSON
    #[arg(long)]
    pub json: bool,
}

/// Value of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Export {
    /// weir.bench/1
    Weir,
    /// hyperfine's JSON (the cases that are times)
    Hyperfine,
    /// Bencher Metric Format
    Bencher,
    /// Go benchmark text, a line a sample, for benchstat
    Go,
}

/// Options of `weir compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareOptions {
    /// A saved run, or a file of `weir bench --json`
    pub a: String,

    /// Another; without it, what the host does now (the cases of A are measured again)
    pub b: Option<String>,

    /// The difference that does not matter
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    pub band: f64,

    /// Write the comparison as JSON (schema weir.compare/1) to FILE; - or nothing is standard
    /// output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-",
          require_equals = true)]
    pub json: Option<PathBuf>,

    /// Exit with status 1 if a case has this verdict
    #[arg(long, value_name = "VERDICT")]
    pub fail_on: Option<FailOn>,

    /// List also what is equivalent, and what only one run has
    #[arg(short, long)]
    pub verbose: bool,
}

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
