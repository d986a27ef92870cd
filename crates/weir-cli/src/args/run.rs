//! The options of `weir run`, its help and its manual page.

use super::{Elastic, PipeSize, When, elastic, pipe_size};
use crate::report::Detail;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// What is to be run.
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
    /// The pipeline, as one text for the shell; or a command and its arguments, with no shell,
    /// where the word '|' separates stages
    #[arg(value_name = "PIPELINE", required = true, trailing_var_arg = true)]
    pub words: Vec<OsString>,

    /// What the words stand for.
    #[arg(skip)]
    pub asked: Asked,

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

    /// Write the report as JSON (schema weir.run/1) to FILE; - is standard output. Where the
    /// pipeline writes there too: /dev/fd/3 with 3>FILE, or >(jq .verdict) in bash
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Print no report
    #[arg(short, long)]
    pub quiet: bool,

    /// Print only the first line, what failed, the verdict and advice
    #[arg(long, conflicts_with = "verbose")]
    pub brief: bool,

    /// Print the fine print too: what "other" was, and how each figure is known
    #[arg(short, long)]
    pub verbose: bool,

    /// Show how it goes while it runs; auto: when standard error is a terminal and what the last
    /// stage writes to is not
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub live: When,

    /// Time between two samples, after a closer look at the first 200 ms
    #[arg(long, value_name = "MS", default_value = "10",
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub sample_ms: u64,

    /// Of several pipelines: run them again and again in random order, and say which is faster.
    /// Of one: the same, plain, under the advice, and plain once more
    #[arg(long)]
    pub compare: bool,

    /// Rounds of --compare, 6 to 2048
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

impl RunOptions {
    /// How much the report is to say.
    pub fn detail(&self) -> Detail {
        match (self.brief, self.verbose) {
            (true, _) => Detail::Brief,
            (_, true) => Detail::Verbose,
            _ => Detail::Usual,
        }
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
  weir run --json report.json 'tar c src | xz > src.tar.xz'
  weir run --json /dev/fd/3 'sort big.txt' 3>report.json | head

One argument is a text for the shell. Several are a command and its arguments, run without a
shell; from the first on, all of them are the command's, so options of weir stand before it. Behind
-- every argument is such a word. An argument with blanks or signs of the shell in it is a text
wherever it stands first, and options of weir may stand behind it.

What the report says:
  wall     from the start of the stage to its end
  busy     share of that in which it waited for neither neighbour
  cpu      on a CPU
  user sys CPU time of the stage and all it started (may exceed wall)
  runq     ready to run, waiting for a CPU
  in out   blocked on its input, on its output
  other    blocked elsewhere: disk, file, lock, child, sleep, socket, device
  MB/s     what came through the pipe it reads (of the first stage, what it wrote into its pipe;
           of one without pipes, the larger of what it read and wrote; of one that read far more
           than came through its pipe, as xargs may, what it read), by its wall time
  exit     its status, or the signal that killed it; reader left: by SIGPIPE, which is normal
  pipe     passed, size; fill: mean share of the size, most: the largest; full, empty: share of
           the time
cpu, runq, in, out and other are parts of the stage's wall time. CPU time, runq, bytes and calls
are the kernel's own counts, unless marked: < at most, > at least, ~ sampled or estimated. What a
stage was blocked on is sampled; the last lines of --verbose say from how many samples.

The report is as wide as the terminal; elsewhere as COLUMNS says, else 100 columns. Where a table
does not fit, columns go in this order: exit (when all is well), runq, other, out, in, MB/s, cpu;
calls, sys, user, memory, written, read; most, passed, size, fill, empty. Then names are cut.

Exit status: that of the last stage, or 128 + N when signal N killed it; 127 when its command
was not found, 126 when it could not be executed; 2 for a syntax error or wrong usage. If a
stage died of an interrupt that weir received too, weir dies of it as well.

--elastic=1,3 puts a stage 'weir buffer' into pipes 1 and 3: pipe n is between stage n and stage
n+1 as they are typed. It takes what the writer has and keeps it, in memory and then in a file,
until the reader wants it. A run that ends with the advice to put a buffer into a pipe remembers
that ($XDG_STATE_HOME/weir/elastic.json, or ~/.local/state/weir/elastic.json; WEIR_ELASTIC names
another file); --elastic alone goes by what is remembered of the same text. A later run without
buffers that shows the opposite is believed instead.

--compare 'A' 'B' ... runs the pipelines in N rounds (--runs, 6 to 2048), in random order within
each round, the first of them twice: so it also says what this host can tell apart. Of each other
pipeline it gives the ratio to the first with its 95 % interval, and it compares what they wrote.
One round before these is not counted. With one pipeline: it is run as usual first; then plain,
under the advice, and plain once more. Advice that would change the text is named and not tried.
Output goes to a file without a name, what is said on standard error is left out, and standard
input must be a file or nothing.

What is not one top-level pipeline (a && b, loops, here-documents) is run whole under the
shell, and its processes are found from outside; so are those of a single command that is a
shell script or a build (make, ninja, just).";
