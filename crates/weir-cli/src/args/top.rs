//! Options of `weir top`.

use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;
use weir_command::json_option::JsonOption;
use weir_command::units::parse::period;

#[derive(Debug, Args)]
#[command(after_help = TOP_EXAMPLES)]
#[command(mut_arg("json", |arg| arg.help(TOP_JSON)))]
pub struct TopOptions {
    /// Look for one interval, print the table and end; so does weir top without a terminal
    #[arg(long, conflicts_with_all = ["batch", "count"])]
    pub once: bool,

    /// Print a table after each interval, without end
    #[arg(short, long)]
    pub batch: bool,

    /// Print so many tables and end
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Time between two looks, over which rates are counted
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = period)]
    pub interval: Duration,

    /// What to sort by
    #[arg(short, long, value_name = "KEY", default_value = "rate")]
    pub sort: TopSort,

    /// Sort the other way round
    #[arg(short, long)]
    pub reverse: bool,

    /// Show only rows in which a process, a name or the kind contains TEXT
    #[arg(short, long, value_name = "TEXT")]
    pub filter: Option<String>,

    /// Also show idle pipes, and those that join only the threads of one process
    #[arg(short, long)]
    pub all: bool,

    /// Write the metrics in the text format of Prometheus to FILE, which is replaced at once after
    /// each interval; with --batch without end
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prometheus: Option<PathBuf>,

    #[command(flatten)]
    pub json: JsonOption,
}

/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopSort {
    /// The kind of the channel
    Kind,
    /// The process that writes
    Writer,
    /// The process that reads
    Reader,
    /// Bytes a second, most first
    Rate,
    /// How full it is, fullest first
    Fill,
    /// Who waits, those that wait first
    Waits,
}

const TOP_JSON: &str = "\
Look for one interval and write JSON (schema weir.top/1) to FILE; - is standard output, which then \
gets nothing else";

const TOP_EXAMPLES: &str = "\
weir top shows the pipes and FIFOs between processes of this host, and the channels, flags and regions
of the library weir: all for root, those of your own processes for you. It stops nobody and keeps no
pipe open.

Examples:
  weir top                          live; h shows the keys
  weir top --filter zstd            only what zstd writes or reads
  weir top --once --sort waits      one table, those that wait first
  weir top -b -i 15s --prometheus /var/lib/node_exporter/weir.prom > /dev/null
  weir top --json - | jq '.channels[] | select(.full)'

12 kB/s   counted    <12 kB/s  at most, some of it may have gone elsewhere
>12 kB/s  at least, for programs that can also move bytes uncounted (splice)
waits     writer: it waits for room, for the reader; reader: it waits for data, for the writer

Exit status: 0; 1 if the output cannot be written; 2 for wrong usage.";
