//! The options of `weir model`.

use clap::{Parser, ValueHint};
use std::path::PathBuf;
use weir_command::json_option::JsonOption;
use weir_command::units::parse::whole;

/// Repeat published experiments in virtual time, and say what other pipes or CPUs would do to a run
#[derive(Debug, Parser)]
#[command(name = "weir-model", bin_name = "weir model", version, max_term_width = 100)]
#[command(mut_arg("json", |arg| arg.help("Write the outcome as JSON (schema weir.model/1; of whatif weir.model.whatif/1) to FILE; - is standard output")))]
#[command(after_help = EXAMPLES)]
pub struct ModelOptions {
    /// An experiment, or one of the words that are listed below
    #[arg(value_name = "WHAT")]
    pub what: String,
    /// For whatif: a report that weir run --json has written; - is standard input
    #[arg(value_name = "REPORT", value_hint = ValueHint::FilePath, required_if_eq("what", "whatif"))]
    pub report: Option<PathBuf>,
    /// Run the experiment on this machine (weir model machines); for whatif, the host
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Write the predictions into DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, required_if_eq("what", "predictions"))]
    pub out: Option<PathBuf>,
    /// Run the storms of so many seeds; 1000 without --seed
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX))]
    pub seeds: Option<u64>,
    /// Begin with this seed; alone, run only its storm
    #[arg(long, value_name = "SEED", value_parser = whole(0..=u64::MAX))]
    pub seed: Option<u64>,
    /// What if all pipes had this capacity?
    #[arg(long, value_name = "SIZE", value_parser = weir_command::units::parse::rate(4096, NO_PIPE), help_heading = "What if")]
    pub pipe_size: Option<u64>,
    /// What if there were so many CPUs?
    #[arg(long, value_name = "N", value_parser = whole(1_u16..=1024), help_heading = "What if")]
    pub cpus: Option<u16>,
    /// What if a stage computed so many times as fast? 2=3x: the second stage, three times
    #[arg(long, value_name = "STAGE=FACTOR", value_parser = faster, help_heading = "What if")]
    pub faster: Vec<(usize, f64)>,
    #[command(flatten)]
    pub json: JsonOption,
    /// Write the experiment, or all, as one self-contained HTML page to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

/// The error of a pipe that no kernel makes; the model has none either.
const NO_PIPE: &str = "too small: a pipe has a page, at least 4K";

/// Parses a stage and how many times as fast it is: `2=3x`, `2=1.5`.
fn faster(text: &str) -> Result<(usize, f64), String> {
    let (stage, factor) = text.split_once('=').ok_or("expected a stage and a factor, as 2=3x")?;
    let stage = stage.parse().map_err(|_| format!("'{stage}' is not a number of a stage"))?;
    let factor = factor.strip_suffix('x').unwrap_or(factor);
    match factor.parse() {
        Ok(factor) if (0.001..=1e6).contains(&factor) => Ok((stage, factor)),
        _ => Err(format!("'{factor}' is not a factor from 0.001 to 1000000")),
    }
}

const EXAMPLES: &str = "\
WHAT, if it is no experiment:
  list           name the experiments, with the machine of each and what it repeats
  all            run every experiment, and print how far the model is from what was published
  machines       print each constant of each machine, and where it is from
  predictions    write the model's figures for published tables into the folder of --out
  speed          measure how many events of the model this host computes in a second
  storm          run random loads and faults over weir's own decisions: no promise may break
  whatif         say what the pipeline of REPORT would take with other pipes, CPUs or stages

Examples:
  weir model all                               the score of every experiment
  weir model bbn-pipe --html bbn.html          published and modelled figures, as a page
  weir model storm --seeds 10000               faults over weir's own decisions
  weir run --json r.json 'cat big | gzip -9 | sha256sum'
  weir model whatif r.json --faster 2=4x --cpus 8 --pipe-size 1M";

#[cfg(test)]
mod tests {
    use super::{ModelOptions, faster};
    use clap::CommandFactory;

    /// The model once took a page, and said that it had taken what was asked for.
    #[test]
    fn a_pipe_that_no_kernel_makes_is_no_question() {
        for (size, is_one) in [("0", false), ("4095", false), ("4K", true), ("1M", true)] {
            let words = ["model", "whatif", "r.json", "--pipe-size", size];
            let command = ModelOptions::command();
            assert_eq!(command.try_get_matches_from(words).is_ok(), is_one, "{size}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        weir_command::manual::assert_sound(
            &weir_command::manual::reflowed(ModelOptions::command()),
        );
        let refused = ModelOptions::command().try_get_matches_from(["", "storm", "--seeds", "0"]);
        let said = refused.expect_err("refused").to_string();
        assert!(said.contains("invalid value") && said.contains("of at least 1"), "{said}");
    }

    #[test]
    fn a_factor_is_a_number_with_or_without_its_x() {
        assert_eq!(faster("2=3x"), Ok((2, 3.0)));
        assert_eq!(faster("10=1.5"), Ok((10, 1.5)));
        for wrong in ["", "2", "2=", "=2x", "2=0", "2=-1x", "2=nan", "2=inf", "x=2"] {
            assert!(faster(wrong).is_err(), "{wrong}");
        }
    }
}
