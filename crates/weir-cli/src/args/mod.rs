//! The command line.

mod bench;
mod buffer;
mod json;
mod net;
mod net_profile;
mod pipes;
mod port;
mod relay;
mod saved;
mod values;

pub use bench::BenchOptions;
pub use buffer::BufferOptions;
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use json::JsonOption;
pub use net::{
    NetCommand, NetIcmpdOptions, NetLogOptions, NetPingOptions, NetStatOptions, NetUpOptions,
    NetVerb,
};
pub use net_profile::NetProfileOptions;
pub use pipes::{StatOptions, TuneOptions};
pub use port::{
    PortCommand, PortListOptions, PortReadOptions, PortStatOptions, PortVerb, PortWriteOptions,
};
pub use relay::RelayOptions;
pub use saved::{CompareOptions, Export, FailOn, HistoryOptions};
use std::ffi::OsString;
use std::path::PathBuf;

/// Find out where the time goes between your processes, and take it back.
#[derive(Debug, Parser)]
#[command(name = "weir", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a pipeline and say which stage holds it up, and why
    Run(RunOptions),
    /// Measure what passes between processes on this host, so that the figures repeat
    Bench(BenchOptions),
    /// Compare two saved runs of weir bench, or a saved one with now
    Compare(CompareOptions),
    /// List, show, export or forget saved runs of weir bench
    History(HistoryOptions),
    /// Show the accounts of weir's pipes in use: bytes, waits, sleeps, wake-ups
    Stat(StatOptions),
    /// Show or set the sizes of weir's pipes: those made from now on, or one in use
    Tune(TuneOptions),
    /// Many writers, one reader, a name: read, write, list and look after ports
    Port(PortCommand),
    /// An elastic buffer in a pipeline: keeps what is not taken yet, in memory, then on disk
    Buffer(BufferOptions),
    /// A user-level network host: a switch that owns a TUN device, daemons, a log, profiles
    Net(NetCommand),
    /// Print a completion script for a shell
    Completions(CompletionsOptions),
    /// Write the manual pages
    Man(ManOptions),
}

/// Options of `weir run`.
#[derive(Debug, Args)]
#[command(
    override_usage = "weir run [OPTIONS] 'COMMAND | COMMAND ...'\n       \
                      weir run [OPTIONS] -- COMMAND ARGS '|' COMMAND ARGS ...",
    after_help = RUN_EXAMPLES,
    after_long_help = RUN_MANUAL,
)]
pub struct RunOptions {
    /// The pipeline, as one text for the shell
    #[arg(value_name = "PIPELINE", required_unless_present = "words")]
    pub text: Option<OsString>,

    /// The pipeline as words, with no shell: stages are separated by the word '|'
    #[arg(last = true, value_name = "WORDS", conflicts_with = "text")]
    pub words: Vec<OsString>,

    /// Capacity of the pipes, such as 64K or 1M; auto enlarges a pipe in use when that helps
    #[arg(long, value_name = "SIZE|auto", default_value = "256K", value_parser = pipe_size)]
    pub pipe_size: PipeSize,

    /// Put an elastic buffer (weir buffer) into these pipes, such as 1,3; without PIPES, where an
    /// earlier run of the same pipeline has shown that it would help
    #[arg(long, value_name = "PIPES", num_args = 0..=1, require_equals = true,
          default_missing_value = "auto", value_parser = elastic)]
    pub elastic: Option<Elastic>,

    /// Exit with the status of the rightmost stage that failed
    #[arg(long)]
    pub pipefail: bool,

    /// The shell for what needs one [default: bash where there is one, else sh]
    #[arg(long, value_name = "SHELL")]
    pub shell: Option<PathBuf>,

    /// Write the report to FILE instead of standard error
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the report as JSON (schema weir.run/1) to FILE; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Print no report
    #[arg(short, long)]
    pub quiet: bool,

    /// Show how it goes while it runs; auto: when standard error is a terminal and output is not
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub live: When,

    /// Time between two samples, after a closer look at the first 200 ms
    #[arg(long, value_name = "MS", default_value = "10",
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub sample_ms: u64,

    /// Then run it again and again, in random order: plain, under the advice, and plain once more
    #[arg(long)]
    pub compare: bool,

    /// Rounds of --compare
    #[arg(long, value_name = "N", default_value = "10", requires = "compare",
          value_parser = runs)]
    pub runs: usize,
}

fn runs(text: &str) -> Result<usize, String> {
    use weir_measure::pairs::{PAIRS_COUNT_MAX, PAIRS_COUNT_MIN};
    let range = PAIRS_COUNT_MIN..=PAIRS_COUNT_MAX;
    match text.parse::<usize>() {
        Ok(runs) if range.contains(&runs) => Ok(runs),
        _ => Err(format!("{PAIRS_COUNT_MIN} to {PAIRS_COUNT_MAX} rounds allow a conclusion")),
    }
}

/// Examples shown by `-h`.
const RUN_EXAMPLES: &str = "\
Examples:
  weir run 'zstd -dc big.zst | grep host7 | sort -k4 | uniq -c'
  weir run --json report.json 'tar c src | xz > src.tar.xz'
  weir run -- cat big.txt '|' sort '|' uniq -c";

/// What `--help` and the manual page add.
const RUN_MANUAL: &str = "\
Examples:
  weir run 'zstd -dc big.zst | grep host7 | sort -k4 | uniq -c'
  weir run --json report.json 'tar c src | xz > src.tar.xz'
  weir run -- cat big.txt '|' sort '|' uniq -c

What the report says:
  wall     from the start of the stage to its end
  busy     share of that in which it waited for neither neighbour
  cpu      on a CPU
  user sys CPU time of the stage and all it started (exact; may exceed wall)
  runq     ready to run, waiting for a CPU
  in out   blocked on its input, on its output
  other    blocked elsewhere: disk, file, lock, child, sleep, network, device
cpu, runq, in, out and other are parts of the stage's wall time. CPU time, runq, bytes and calls
are the kernel's own counts (< marks a bound, ~ a sampled figure); what a stage was blocked on
is sampled, and the last lines say from how many samples.

Exit status: that of the last stage, or 128 + N when signal N killed it; 127 when its command
was not found, 126 when it could not be executed; 2 for a syntax error or wrong usage. If a
stage died of an interrupt that weir received too, weir dies of it as well.

--elastic=1,3 puts a stage 'weir buffer' into pipes 1 and 3: pipe n is between stage n and stage
n+1 as they are typed. It takes what the writer has and keeps it, in memory and then in a file,
until the reader wants it. A run that ends with the advice to put a buffer into a pipe remembers
that ($XDG_STATE_HOME/weir/elastic.json, or ~/.local/state/weir/elastic.json; WEIR_ELASTIC names
another file); --elastic alone goes by what is remembered of the same text. A later run without
buffers that shows the opposite is believed instead.

--compare runs the pipeline N times three more, with its output into a file without a name (it
must be the same each time) and what it says on standard error left out; standard input must be
a file or nothing. Advice that would change the pipeline's text is named and not tried.

What is not one top-level pipeline (a && b, loops, here-documents) is run whole under the
shell, and its processes are found from outside.";

/// Options of `weir completions`.
#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Options of `weir man`.
#[derive(Debug, Args)]
pub struct ManOptions {
    /// Directory for the pages; without it, the page of weir itself goes to standard output
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// When something optional is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// When it makes sense
    Auto,
    /// In any case
    Always,
    /// Not at all
    Never,
}

/// Value of `--pipe-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeSize {
    /// From the default, enlarged in use.
    Auto,
    /// As given.
    Bytes(u64),
}

/// Value of `--elastic`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elastic {
    /// Where an earlier run has shown that it would help.
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
    pipes.map(Elastic::Pipes).map_err(|_| String::from("not numbers of pipes; write 1 or 1,3"))
}

/// Capacity of the pipes unless another is asked for. Measured on cat|wc: half the time of
/// Linux's own 64 KiB; 1 MiB gains little more.
pub const PIPE_BYTES: u64 = 256 * 1024;

fn pipe_size(text: &str) -> Result<PipeSize, String> {
    if text == "auto" {
        return Ok(PipeSize::Auto);
    }
    let (least, most) =
        (weir_measure::machine::page_bytes(), weir_measure::machine::pipe_limit_bytes());
    match values::size(text).map_err(|why| format!("{why}, or auto"))? {
        bytes if (least..=most).contains(&bytes) => Ok(PipeSize::Bytes(bytes)),
        _ => Err(format!(
            "out of range: a pipe here holds {least} to {most} bytes (fs.pipe-max-size in sysctl)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn elastic_pipes() {
        assert_eq!(elastic("auto"), Ok(Elastic::Evidence));
        assert_eq!(elastic("1,3"), Ok(Elastic::Pipes(vec![1, 3])));
        for wrong in ["", "1,", "a", "-1", "1-3"] {
            assert!(elastic(wrong).is_err(), "{wrong}");
        }
        let options = ["weir", "run", "--elastic", "a | b"];
        let Command::Run(run) = Options::parse_from(options).command else { return };
        assert_eq!((run.elastic, run.text), (Some(Elastic::Evidence), Some("a | b".into())));
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
