//! The command line.

mod buffer;
mod look_inside;
mod pipes;
mod port;
mod run;
mod sh;
mod stall;
mod top;
mod watch;
mod why;
mod words;

pub use buffer::{BufferOptions, PoolFlags};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
pub use look_inside::LookInside;
pub use pipes::{StatOptions, TuneOptions};
#[cfg(feature = "mount")]
pub use port::PortMountOptions;
pub use port::{
    PortCommand, PortListOptions, PortReadOptions, PortStatOptions, PortVerb, PortWriteOptions,
};
pub use run::{Asked, RunOptions};
pub use sh::{ShOptions, shell_words};
pub use stall::StallAfter;
use std::path::PathBuf;
pub use top::{TopOptions, TopSort};
pub use watch::WatchOptions;
pub use weir_command::command_line::{all_quoted, quoted};
pub use weir_command::json_option::JsonOption;
use weir_command::manual;
pub use why::WhyOptions;
pub use words::parse;

/// Find out where the time goes between your processes, and take it back.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    before_help = concat!("weir ", env!("CARGO_PKG_VERSION")),
    after_help = FIRST_STEPS,
)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Verb,
}

/// What `weir` and `weir --help` show at the end.
const FIRST_STEPS: &str = "\
First steps:
  weir run 'gzip -dc big.log.gz | grep host7 | sort | uniq -c'   where does its time go?
  weir run make -j2                                              the same for a command
  weir run --compare 'gzip -c f' 'pigz -c f'                     which of them is faster?
  weir help run                                                  everything about a verb

Manual: https://github.com/weir-project/weir (README.md, docs/contracts/), or weir man --out DIR";

/// Returns the whole command line, with texts for any width and the verbs of other binaries.
pub fn command() -> clap::Command {
    manual::reflowed(crate::products::listed(CommandLine::command()))
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a pipeline and say which stage holds it up, and why
    Run(RunOptions),
    /// Run a script as bash does, and append a report: for use in place of a shell
    Sh(ShOptions),
    /// Say why a process does not go on: what it waits for, and what that waits for
    Why(WhyOptions),
    /// Say where processes that run already spend their time
    Watch(WatchOptions),
    /// Show all pipes between processes on this host, live: who writes, who reads, who waits
    Top(TopOptions),
    /// Show the counters of weir's own shared-memory pipes: bytes, waits, sleeps, wake-ups
    Stat(StatOptions),
    /// Show or set the sizes of weir's own shared-memory pipes: new ones, or one in use
    Tune(TuneOptions),
    /// Read, write, list and manage ports: a name, one reader, any number of writers
    Port(PortCommand),
    /// Buffer a pipeline in memory, then on disk, so that the writer need not wait
    Buffer(BufferOptions),
    /// Print a completion script for a shell
    Completions(CompletionsOptions),
    /// Write the manual pages
    Man(ManOptions),
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(weir completions bash)                                 in ~/.bashrc
  weir completions zsh > ~/.zfunc/_weir                           in a directory of $fpath
  weir completions fish > ~/.config/fish/completions/weir.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  weir man --out ~/.local/share/man/man1    then: man weir-run
  weir man | man -l -                       the page of weir itself";

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsOptions {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManOptions {
    /// Write all pages into DIR; without it, print the page of weir itself on standard output
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// What shows that a run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LiveView {
    /// A line, if standard error is a terminal to which the last stage does not write
    Auto,
    /// A row for each stage: what it does, the fill of its pipe, its rate
    Bars,
    /// A line that names the busiest stage
    Line,
    /// Nothing
    Never,
}

/// Value of `--pipe-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeSize {
    /// From the default, enlarged during the run.
    Auto,
    /// As given.
    Bytes(u64),
}

/// Value of `--elastic`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elastic {
    /// Into the pipes for which an earlier run has shown that it would help.
    Evidence,
    /// Into these pipes, counted from 1.
    Pipes(Vec<usize>),
}

fn elastic(text: &str) -> Result<Elastic, String> {
    if text == "auto" {
        return Ok(Elastic::Evidence);
    }
    let numbers = text.split(',').map(|number| number.trim().parse());
    let pipes: Result<Vec<usize>, _> = numbers.collect();
    pipes
        .map(Elastic::Pipes)
        .map_err(|_| String::from("not a list of pipe numbers; write 1 or 1,3"))
}

/// Milliseconds between two samples unless others are asked for.
pub const SAMPLE_MS: u64 = 10;

fn pipe_size(text: &str) -> Result<PipeSize, String> {
    if text == "auto" {
        return Ok(PipeSize::Auto);
    }
    let (least, most) =
        (weir_measure::machine::page_bytes(), weir_measure::machine::pipe_limit_bytes());
    match weir_command::units::parse::size(text).map_err(|why| format!("{why}, or auto"))? {
        bytes if (least..=most).contains(&bytes) => Ok(PipeSize::Bytes(bytes)),
        _ => Err(format!(
            "out of range: a pipe on this host holds {least} to {most} bytes (sysctl fs.pipe-max-size)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        manual::assert_sound(&command());
    }

    #[test]
    fn elastic_pipes() {
        assert_eq!(elastic("auto"), Ok(Elastic::Evidence));
        assert_eq!(elastic("1,3"), Ok(Elastic::Pipes(vec![1, 3])));
        for wrong in ["", "1,", "a", "-1", "1-3"] {
            assert!(elastic(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pipe_sizes() {
        assert_eq!(pipe_size("auto"), Ok(PipeSize::Auto));
        assert_eq!(pipe_size("64K"), Ok(PipeSize::Bytes(65_536)));
        assert_eq!(pipe_size("64KiB"), Ok(PipeSize::Bytes(65_536)));
        assert_eq!(pipe_size("65536"), Ok(PipeSize::Bytes(65_536)));
        assert!(pipe_size("12").expect_err("too small").contains("out of range"));
        assert!(pipe_size("99999G").expect_err("too large").contains("out of range"));
        assert!(pipe_size("many").expect_err("no size").contains("not a size"));
        assert!(pipe_size("").is_err());
        assert!(pipe_size("18446744073709551615G").is_err());
    }
}
