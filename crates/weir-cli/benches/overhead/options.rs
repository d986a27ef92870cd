//! The command line of the bench.

use crate::workloads;
use std::path::PathBuf;
use weir_measure::pairs::{PAIRS_COUNT_MAX, PAIRS_COUNT_MIN};

/// The options.
pub struct Options {
    pub pairs: usize,
    /// The least time that a pipeline takes under bash.
    pub seconds: f64,
    /// The seed of the random orders.
    pub seed: u64,
    pub only: Option<String>,
    pub json: Option<PathBuf>,
    pub markdown: Option<PathBuf>,
}

const USAGE: &str = "usage: cargo bench -p weir-cli --bench overhead -- [--pairs N] \
                     [--seconds S] [--only NAME] [--seed N] [--json FILE] [--markdown FILE]";

/// Reads the arguments. Returns `None` if no measuring was asked for.
pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut asked = false;
    let mut options =
        Options { pairs: 25, seconds: 1.5, seed: 1, only: None, json: None, markdown: None };
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value\n{USAGE}"));
        match flag.as_str() {
            // The argument that `cargo bench` adds.
            "--bench" => asked = true,
            "--pairs" => options.pairs = number(&flag, &value()?)?,
            "--seconds" => options.seconds = number(&flag, &value()?)?,
            "--seed" => options.seed = number(&flag, &value()?)?,
            "--only" => options.only = Some(value()?),
            "--json" => options.json = Some(PathBuf::from(value()?)),
            "--markdown" => options.markdown = Some(PathBuf::from(value()?)),
            _ => return Err(format!("unknown argument {flag}\n{USAGE}")),
        }
    }
    if !(PAIRS_COUNT_MIN..=PAIRS_COUNT_MAX).contains(&options.pairs) {
        return Err(format!("--pairs must be {PAIRS_COUNT_MIN} to {PAIRS_COUNT_MAX}"));
    }
    if !(0.01..=600.0).contains(&options.seconds) {
        return Err(String::from("--seconds must be 0.01 to 600"));
    }
    let names = workloads::ALL.map(|workload| workload.name);
    if options.only.as_ref().is_some_and(|only| !names.contains(&only.as_str())) {
        return Err(format!("--only must be one of {}", names.join(", ")));
    }
    Ok(asked.then_some(options))
}

fn number<T: std::str::FromStr>(flag: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{flag}: {value} is not a number that fits"))
}
