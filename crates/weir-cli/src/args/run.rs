//! The options of `weir run`, its help and its manual page.

use super::{Elastic, LiveView, LookInside, PipeSize, StallAfter, elastic, pipe_size};
use crate::report::Detail;
use clap::Args;
use clap::builder::TypedValueParser;
use std::ffi::OsString;
use std::path::PathBuf;
use weir_command::units::parse::{percent, whole};

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Texts for the shell: one, or several that are compared.
    Texts(Vec<OsString>),
    /// A pipeline as words, with no shell.
    Words(Vec<OsString>),
}

impl Default for Asked {
    fn default() -> Asked {
        Asked::Texts(Vec::new())
    }
}

#[derive(Debug, Args)]
#[command(
    override_usage = "weir run [OPTIONS] 'COMMAND | COMMAND ...'\n       \
                      weir run [OPTIONS] COMMAND ARGS ...\n       \
                      weir run [OPTIONS] --compare 'PIPELINE' 'PIPELINE' ...",
    after_help = RUN_EXAMPLES,
    after_long_help = RUN_MANUAL,
)]
pub struct RunOptions {
    /// The pipeline as one text for the shell; or a command and its arguments, run without a
    /// shell, where the word '|' separates stages
    #[arg(value_name = "PIPELINE", required = true, trailing_var_arg = true)]
    pub words: Vec<OsString>,

    /// What the words stand for.
    #[arg(skip)]
    pub asked: Asked,

    /// Capacity of the pipes, such as 64K or 1M; auto enlarges a pipe during the run if that helps
    /// [default: 256K, but the shell's size where the result may depend on it]
    #[arg(long, value_name = "SIZE|auto", value_parser = pipe_size)]
    pub pipe_size: Option<PipeSize>,

    /// Put an elastic buffer (weir buffer) into these pipes, such as 1,3; without PIPES, wherever
    /// an earlier run of the same pipeline showed that it would help
    #[arg(long, value_name = "PIPES", num_args = 0..=1, require_equals = true,
          default_missing_value = "auto", value_parser = elastic)]
    pub elastic: Option<Elastic>,

    /// Exit with the status of the rightmost stage that failed
    #[arg(long)]
    pub pipefail: bool,

    /// The shell to use where one is needed [default: bash if it is installed, else sh]
    #[arg(long, value_name = "SHELL")]
    pub shell: Option<PathBuf>,

    /// Write the report to FILE instead of standard error
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write the report as JSON (schema weir.run/1, of several pipelines weir.run.compare/1) to
    /// FILE; - is standard output. If the pipeline writes there too, use /dev/fd/3 with 3>FILE, or
    /// >(jq .verdict) in bash
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the run as spans of OpenTelemetry (OTLP/JSON) to FILE; send: to the collector that
    /// OTEL_EXPORTER_OTLP_ENDPOINT names, by HTTP
    #[arg(long, value_name = "FILE|send")]
    pub otlp: Option<PathBuf>,

    /// Print no report
    #[arg(short, long)]
    pub quiet: bool,

    /// Print only the first line, failures, the verdict and the advice
    #[arg(long, conflicts_with = "verbose")]
    pub brief: bool,

    /// Also print what "other" was, and how each figure was obtained
    #[arg(short, long)]
    pub verbose: bool,

    #[command(flatten)]
    pub inside: LookInside,

    /// Show what each stage does, and how much of the input is left; --live alone shows bars
    #[arg(long, value_name = "VIEW", num_args = 0..=1, require_equals = true,
          default_value = "auto", default_missing_value = "bars")]
    pub live: LiveView,

    /// Say why nothing moves, as weir why would, once nothing has been read, written or computed for
    /// TIME; 0 or never: do not [default: 10s, 30s where standard error is no terminal]
    #[arg(long, value_name = "TIME", value_parser = StallAfter::parse)]
    pub why_after: Option<StallAfter>,

    /// Milliseconds between two samples; samples are closer together at the start
    #[arg(long, value_name = "MS", default_value_t = super::SAMPLE_MS,
          value_parser = whole(1_u64..=1000))]
    pub sample_ms: u64,

    /// Run several pipelines repeatedly in random order, and say which is faster. With one
    /// pipeline, compare it with itself under the advice
    #[arg(long, conflicts_with_all = ["profile", "trace", "md", "html", "chrome_trace", "otlp"])]
    pub compare: bool,

    /// Number of rounds of --compare, 6 to 2048
    #[arg(long, value_name = "N", default_value = "10", requires = "compare",
          value_parser = runs)]
    pub runs: usize,

    /// With several pipelines, exit with status 1 if one is slower than the first by more than this,
    /// 0 if none is, 3 if the rounds cannot tell; without PERCENT, 5%
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true,
          default_missing_value = "5%", requires = "compare",
          value_parser = percent(0.0..=1000.0, NO_SHARE).map(|of: f64| of / 100.0))]
    pub fail_if_slower: Option<f64>,
}

const NO_SHARE: &str = "not a share from 0% to 1000%";

fn runs(text: &str) -> Result<usize, String> {
    use weir_measure::pairs::{PAIRS_COUNT_MAX, PAIRS_COUNT_MIN};
    let range = PAIRS_COUNT_MIN..=PAIRS_COUNT_MAX;
    match text.parse::<usize>() {
        Ok(runs) if range.contains(&runs) => Ok(runs),
        _ => Err(format!("not a number of rounds from {PAIRS_COUNT_MIN} to {PAIRS_COUNT_MAX}")),
    }
}

impl RunOptions {
    /// How detailed the report is.
    pub fn detail(&self) -> Detail {
        Detail::of(self.brief, self.verbose)
    }
}

/// Examples shown by `-h`.
const RUN_EXAMPLES: &str = "\
Examples:
  weir run 'zstd -dc big.zst | grep host7 | sort -k4 | uniq -c'
  weir run --brief make -j2
  weir run --compare 'gzip -c big.txt' 'pigz -c big.txt'
  weir run --json report.json 'tar c src | xz > src.tar.xz'";

/// What `--help` and the manual page add.
const RUN_MANUAL: &str = "\
Examples:
  weir run 'zstd -dc big.zst | grep host7 | sort -k4 | uniq -c'
  weir run --brief make -j2
  weir run --compare 'gzip -c big.txt' 'pigz -c big.txt'
  weir run --compare --fail-if-slower=10% './old < in' './new < in'
  weir run --json report.json 'tar c src | xz > src.tar.xz'
  weir run --json /dev/fd/3 'sort big.txt' 3>report.json | head

A single argument is a text for the shell. Several arguments are a command and its arguments, run
without a shell. Everything after the command's name belongs to the command, so options of weir come
before it. After --, every argument is a word of the command. If the first argument contains blanks
or special characters of the shell, it is a text for the shell, and options of weir may follow it.

What the report says:
  wall     time from the start of the stage to its end
  busy     share of the run in which it waited for neither neighbour
  cpu      time on a CPU
  user sys CPU time of the stage and of all processes it started (may exceed wall)
  runq     time ready to run, but waiting for a CPU
  in out   time blocked on its input, on its output
  other    time blocked elsewhere: disk, file, lock, child, sleep, socket, device
  MB/s     bytes that came through the pipe it reads, divided by its wall time (first stage: bytes
           it wrote into its pipe; stage without pipes: bytes it read or wrote, whichever is more;
           stage that read far more than came through its pipe, as xargs may: bytes it read)
  exit     its status, or the signal that killed it; reader left: killed by SIGPIPE, which is normal
  read     bytes that its processes read, from pipes and from files, its program's among them
  written  bytes that they wrote, to pipes and to files
  calls    their calls to read and to write
  memory   the most memory that one of them had
  pipe     passed: bytes; size: capacity; fill: mean share of the size in use; most: the largest
           share; full, empty: share of the time
  group    a pipeline or a command found in a script, a build or a stage. rows: its rows in the
           tables below, or the stage it is in; from: when it began; wall: time in which it ran;
           share: of the run or the stage, without the time in which it only waited for others;
           cpu: CPU time; times: how often it ran; median, shortest, longest: of one such time
A name with (x3) stands for a command that ran three times. ? is what weir does not know, and - less
than half a millisecond.

cpu, runq, in, out and other are parts of the stage's wall time. CPU time, runq, bytes and calls
are the kernel's own counts, unless marked: < at most, > at least, ~ sampled or estimated. What a
stage was blocked on is sampled; the last lines of --verbose give the number of samples.

The report is as wide as the terminal; without a terminal, as wide as COLUMNS says, else 100
columns. A table that does not fit loses columns in this order: exit (when all is well), runq,
other, out, in, MB/s, cpu; calls, sys, user, memory, written, read; most, passed, size, fill, empty.
Then names are cut.

Exit status: that of the last stage, or 128 + N if signal N killed it; 127 if its command was not
found, 126 if it could not be executed; 2 for a syntax error or wrong usage. If a stage died of an
interrupt that weir received too, weir dies of it as well. Of --compare with several pipelines: 0; 1
if not all runs ended with the same status; 130 if interrupted. With --fail-if-slower=PERCENT: 0 if no
pipeline is slower than the first by more than that, 1 if one is, 3 if the rounds cannot tell (more
--runs may), or if not all runs ended with the same status.

--elastic=1,3 puts a stage 'weir buffer' into pipes 1 and 3: pipe n is between stage n and stage
n+1 as they are typed. The buffer reads what the writer writes and keeps it, in memory and then in a
file, until the reader takes it. When a run advises to put a buffer into a pipe, weir remembers that
($XDG_STATE_HOME/weir/elastic.json, or ~/.local/state/weir/elastic.json; WEIR_ELASTIC names another
file). --elastic without pipes follows what weir remembers about the same text. If a later run
without buffers shows the opposite, weir follows the later run.

--compare 'A' 'B' ... runs the pipelines in N rounds (--runs, 6 to 2048), in random order within
each round. The first pipeline runs twice in each round, which shows how small a difference this
host can resolve. Of each pipeline, weir prints the median, the least and the most of its times; of
each but the first, also how many times as long as the first it took, with the 95 % interval. It
compares what the pipelines wrote. One round before these is not counted. With one pipeline, weir
runs it as usual first; then, in rounds, plain, with the advice applied, and plain again. Advice that
would change the text is named but not tried. Output goes to a file without a name, standard error
is discarded, and standard input must be a file or nothing.

--profile samples the functions in which the stages compute, 499 times in each second of CPU time, by
perf_event_open(2). Time that a stage waits is not sampled. Functions without symbols are one row for
each file. Where kernel.perf_event_paranoid is above 2, that needs root; at 2, functions of the
kernel need root. --html FILE writes one page, with what each stage did over time, the tables and the
functions. --chrome-trace FILE writes the same course for https://ui.perfetto.dev. Neither can be used with
--compare.

--md FILE writes the report as Markdown, which GitHub and GitLab render, with a bar in each row of its
first table; to the file that GITHUB_STEP_SUMMARY names it is appended.

--otlp FILE writes the run as spans: one for it, one for each stage, and of a script for each group and
the processes seen longest. Waits are attributes, and links to whom was waited for. --otlp send posts
them as JSON to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or to /v1/traces at OTEL_EXPORTER_OTLP_ENDPOINT
(without both, at http://localhost:4318), by HTTP without TLS, within 5 s; without the option nothing is
sent. A TRACEPARENT in the environment is the parent, and each stage gets one that names its span.

--trace has the kernel tell each switch of a CPU from and to the processes of the run, by programs at
its tracepoints (bpf(2), as root). The columns cpu to other are then exact. Where that cannot be,
weir samples and says why; with --verbose, also what the kernel's verifier said.

A text that is not one top-level pipeline (a && b, loops, here-documents) runs whole under the
shell, and weir finds its processes from outside. It does the same for a single command that is a
shell script or a build (make, ninja, just).";
