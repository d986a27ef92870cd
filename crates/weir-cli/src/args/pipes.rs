//! Options of `weir tune` and `weir stat`.

use super::JsonOption;
use clap::{ArgGroup, Args};
use std::time::Duration;

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help(TUNE_JSON)))]
#[command(after_help = TUNE_EXAMPLES, group = ArgGroup::new("sizes").multiple(true))]
pub struct TuneOptions {
    /// Bytes a pipe holds, such as 65536, 64K or 1M; rounded up to a power of two
    #[arg(long, value_name = "SIZE", value_parser = crate::units::parse::size, group = "sizes")]
    pub size: Option<u64>,

    /// The same as pages: size = page << N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=18),
          conflicts_with = "size", group = "sizes")]
    pub order: Option<u32>,

    /// Bytes after which a longer write is published
    #[arg(long, value_name = "SIZE", value_parser = crate::units::parse::size, group = "sizes")]
    pub segment: Option<u64>,

    /// The same as a part of the size: segment = size >> N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=8),
          conflicts_with = "segment", group = "sizes")]
    pub shift: Option<u32>,

    /// Longest write that appears whole
    #[arg(long, value_name = "BYTES", value_parser = crate::units::parse::size, group = "sizes")]
    pub atomic: Option<u64>,

    /// Set the sizes of a pipe in use, as weir stat names it, instead of the defaults
    #[arg(long, value_name = "PID/FD", requires = "sizes", value_parser = place)]
    pub pipe: Option<(i32, i32)>,

    /// Measure which size and habits are fast on this machine (about a second), and keep them
    #[arg(long, conflicts_with_all = ["sizes", "reset"])]
    pub calibrate: bool,

    /// Forget all that was set and measured
    #[arg(long, conflicts_with = "sizes")]
    pub reset: bool,

    #[command(flatten)]
    pub json: JsonOption,
}

#[derive(Debug, Args)]
#[command(after_help = STAT_EXAMPLES)]
#[command(mut_arg("json", |arg| arg.help(STAT_JSON)))]
pub struct StatOptions {
    /// Only pipes that this process holds an end of
    #[arg(value_name = "PID")]
    pub pid: Option<i32>,

    /// Look again every so often, such as 2s or 500ms, and show rates
    #[arg(short, long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1",
          require_equals = true, value_parser = crate::units::parse::period)]
    pub watch: Option<Duration>,

    #[command(flatten)]
    pub json: JsonOption,
}

const TUNE_EXAMPLES: &str = "\
These are pipes that programs make with the library weir. For the pipes of a pipeline see
weir run --pipe-size, for a buffer in one weir buffer --memory.

Examples:
  weir tune                         what pipes made now get, and why
  weir tune --size 1M --shift 3     for all pipes made from now on
  weir tune --calibrate             what is fast on this machine
  weir tune --pipe 4711/5 --size 4M a pipe in use (its writer goes over to a new memory)

For one program: WEIR_PIPE_SIZE and WEIR_PIPE_SEGMENT in its environment rank over these.";

const TUNE_JSON: &str = "\
Write JSON (schema weir.tune/2, with --pipe weir.tune.pipe/1) to FILE; - is standard output";

const STAT_JSON: &str = "\
Write JSON (schema weir.stat/2) to FILE, with --watch a line each time; - is standard output";

const STAT_EXAMPLES: &str = "\
Pipes are those that programs make with the library weir. Runs and buffers at work (weir run, weir
buffer) are listed by name below them: of what passes through them they say themselves (--live;
kill -USR1 to a buffer).

Examples:
  weir stat                every pipe of weir that this user may look at
  weir stat 4711 --json -  those of a process, for a program
  weir stat --watch=2s     with rates, every two seconds, in place on a terminal

waits   times the end found nothing to do; spun: of these, ended by looking again and again
slept   times it slept, and for how long; woke, woken: wake-ups given and taken";

fn place(text: &str) -> Result<(i32, i32), String> {
    let parts = text
        .split_once('/')
        .and_then(|(pid, descriptor)| Some((pid.parse().ok()?, descriptor.parse().ok()?)));
    parts.ok_or_else(|| String::from("not a pipe; write PID/FD as weir stat shows it"))
}
