//! Options of `weir tune` and `weir stat`.

use clap::{ArgGroup, Args};
use std::time::Duration;
use weir_command::json_option::JsonOption;
use weir_command::units::parse::whole;

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help(TUNE_JSON)))]
#[command(after_help = TUNE_EXAMPLES, group = ArgGroup::new("sizes").multiple(true))]
pub struct TuneOptions {
    /// Bytes a pipe holds, such as 65536, 64K or 1M; rounded up to a power of two
    #[arg(long, value_name = "SIZE", value_parser = weir_command::units::parse::size, group = "sizes")]
    pub size: Option<u64>,

    /// Size as a power of two of pages: size = page << N
    #[arg(long, value_name = "N", value_parser = whole(0_u32..=18),
          conflicts_with = "size", group = "sizes")]
    pub order: Option<u32>,

    /// Bytes after which the reader sees a part of a longer write
    #[arg(long, value_name = "SIZE", value_parser = weir_command::units::parse::size, group = "sizes")]
    pub segment: Option<u64>,

    /// Segment as a part of each pipe's size: segment = size >> N
    #[arg(long, value_name = "N", value_parser = whole(0_u32..=8),
          conflicts_with = "segment", group = "sizes")]
    pub shift: Option<u32>,

    /// Longest write that appears whole
    #[arg(long, value_name = "BYTES", value_parser = weir_command::units::parse::size, group = "sizes")]
    pub atomic: Option<u64>,

    /// Set the sizes of this pipe in use instead of the defaults; weir stat shows its PID/FD
    #[arg(long, value_name = "PID/FD", requires = "sizes", value_parser = place)]
    pub pipe: Option<(i32, i32)>,

    /// Ask the pipes in use for these sizes too (with =PID those of which this process holds an end),
    /// as far as each can have them
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true, requires = "sizes",
          conflicts_with = "pipe", value_parser = weir_command::units::parse::process_id)]
    pub live: Option<Option<i32>>,

    /// Set them for all users of this host, in /etc/weir/tune.toml; what a user has set ranks over it
    #[arg(long, conflicts_with_all = ["pipe", "live"])]
    pub host: bool,

    /// Remove everything that was set
    #[arg(long, conflicts_with = "sizes")]
    pub reset: bool,

    #[command(flatten)]
    pub json: JsonOption,
}

#[derive(Debug, Args)]
#[command(after_help = STAT_EXAMPLES)]
#[command(mut_arg("json", |arg| arg.help(STAT_JSON)))]
pub struct StatOptions {
    /// Show only pipes of which this process holds an end
    #[arg(value_name = "PID", value_parser = weir_command::units::parse::process_id)]
    pub pid: Option<i32>,

    /// Repeat at this interval, such as 2s or 500ms, and show rates
    #[arg(short, long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1",
          require_equals = true, value_parser = weir_command::units::parse::period)]
    pub watch: Option<Duration>,

    #[command(flatten)]
    pub json: JsonOption,
}

const TUNE_EXAMPLES: &str = "\
weir tune concerns the shared-memory pipes of programs that use the library weir, not the pipes of
weir run. For those see weir run --pipe-size, for a buffer in a pipeline weir buffer --memory.

Examples:
  weir tune                         which sizes new pipes get, and why
  weir tune --size 1M --shift 3     for all new pipes
  weir tune --shift 4 --live        for all new pipes, and those in use
  weir tune --host --size 1M        for all users of this host, as root
  weir tune --pipe 4711/5 --size 4M a pipe in use (its writer moves to new memory)

For one program: WEIR_PIPE_SIZE and WEIR_PIPE_SEGMENT in its environment override these settings.";

const TUNE_JSON: &str = "\
Write JSON (schema weir.tune/1, with --pipe weir.tune.pipe/1) to FILE; - is standard output";

const STAT_JSON: &str = "\
Write JSON (schema weir.stat/1) to FILE, with --watch a line each time; - is standard output";

const STAT_EXAMPLES: &str = "\
weir stat concerns the shared-memory pipes of programs that use the library weir, not the pipes of
weir run. Below them it lists the weir run and weir buffer commands that are running, which report
their own progress (weir run --live; kill -USR1 to a buffer).

Examples:
  weir stat                every pipe of weir that this user may inspect
  weir stat 4711 --json -  the pipes of one process, as JSON
  weir stat --watch=2s     with rates, every two seconds, in place on a terminal

waits   times the end found nothing to do; spun: waits that ended while it looked again and again
slept   times it slept, and for how long; woke, woken: wake-ups given and taken";

fn place(text: &str) -> Result<(i32, i32), String> {
    let parts = text
        .split_once('/')
        .and_then(|(pid, descriptor)| Some((pid.parse().ok()?, descriptor.parse().ok()?)));
    parts.ok_or_else(|| String::from("not a pipe; write PID/FD as weir stat shows it"))
}
