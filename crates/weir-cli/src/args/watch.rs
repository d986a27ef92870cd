//! Options of `weir watch`.

use super::{JsonOption, LookInside, StallAfter};
use clap::{ArgGroup, Args, ValueHint};
use std::path::PathBuf;
use std::time::Duration;
use weir_command::units::parse::{budget, process_id, size};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("target").required(true), after_help = WATCH_EXAMPLES)]
#[command(mut_arg("json", |arg| arg.help(JSON)))]
pub struct WatchOptions {
    /// The processes; what they started and what shares their pipes is watched too
    #[arg(value_name = "PID", group = "target", value_parser = process_id)]
    pub pids: Vec<i32>,

    /// The same, as other tools have it
    #[arg(short, long, value_name = "PID", group = "target", value_parser = process_id)]
    pub pid: Vec<i32>,

    /// Watch all processes of this name
    #[arg(long, value_name = "NAME", group = "target")]
    pub comm: Option<String>,

    /// Watch the processes of this control group and of those below it
    #[arg(long, value_name = "PATH", group = "target")]
    pub cgroup: Option<PathBuf>,

    /// Watch the processes of this container: its name, its number, or six digits of it at least
    #[arg(long, value_name = "NAME", group = "target")]
    pub container: Option<String>,

    /// Stop after this time; otherwise when the processes have ended, on Ctrl-C, or once nobody
    /// reads the output
    #[arg(long = "for", value_name = "TIME", value_parser = budget)]
    pub time: Option<Duration>,

    /// Report again after each such time; JSON is then one line a report
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub interval: Option<Duration>,

    /// Say why nothing moves, as weir why would, once nothing has been read, written or computed for
    /// TIME; 0 or never: do not [default: 10s, 30s where standard error is no terminal]
    #[arg(long, value_name = "TIME", value_parser = StallAfter::parse)]
    pub why_after: Option<StallAfter>,

    /// Raise the pipes of the processes to at least SIZE
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true,
          default_missing_value = "1M", value_parser = size)]
    pub grow: Option<u64>,

    /// Print only the first line, the verdict and the advice
    #[arg(long, conflicts_with = "verbose")]
    pub brief: bool,

    /// Also print how each figure was obtained
    #[arg(short, long)]
    pub verbose: bool,

    #[command(flatten)]
    pub inside: LookInside,

    /// Write the metrics in the text format of Prometheus to FILE, which is replaced at once with each
    /// report; with --interval its counters go on
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prometheus: Option<PathBuf>,

    #[command(flatten)]
    pub json: JsonOption,
}

const JSON: &str = "\
Write the report as JSON (schema weir.run/1) to FILE, with --interval one line each time; - is \
standard output";

const WATCH_EXAMPLES: &str = "\
The report is that of weir run, on processes that run already. weir watch stops nobody and keeps no
pipe open: a process still sees the end of its input, and that its reader has left.

Examples:
  weir watch 4711 --for 10s          where did process 4711 and its pipeline spend ten seconds?
  weir watch --comm zstd --for 5s    the same for all zstd
  weir watch --container web --for 5s    the processes of a container
  weir watch 4711 --interval 5s      a report every five seconds
  weir watch --comm postgres --interval 15s --prometheus /var/lib/node_exporter/weir.prom
  weir watch 4711 --for 10s --html page.html    the course of these seconds, and the hot functions
  weir watch 4711 --for 5s --json - | jq .watched

Exit status: 0 with a report, 1 if there is no such process.";
