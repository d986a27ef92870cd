//! `weir buffer`: an elastic buffer as a stage of any pipeline.
//!
//! [`ends`] prepares standard input and output. [`flow`] carries the bytes from one to the other,
//! within the bounds of [`rate`], and sleeps in [`wait`]. [`display`] shows the progress in a row of
//! the terminal ([`rows`]), and [`stats`] prints the figures at the end, even if the buffer is
//! interrupted ([`mod@weir_command::signals`]).

mod display;
mod flow;
mod rate;
mod rows;
mod stats;
mod wait;

use crate::args::{BufferOptions, PoolFlags};
use display::{Display, StreamFacts};
use flow::{BufferEnd, Flow};
use rate::Rate;
use rustix::io::Errno;
use signal_hook::consts::{SIGPIPE, SIGUSR1};
use stats::Stats;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir::{ErrorKind, Pool, PoolOptions};
use weir_command::ends::{self, BufferInput, BufferOutput};
use weir_command::fault::{Fault, die, print_message};
use weir_command::output::{Output, print_err};
use weir_command::signals::{CaughtSignals, ENDS, survive_size_limit};
use weir_command::sys::sigpipe_was_ignored;
use weir_command::units::{binary, capacity};
use weir_measure::sys::usage::Usage;

/// How long an interrupted buffer may take to print its figures.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn buffer(options: &BufferOptions) -> Result<ExitCode, Fault> {
    if options.json.is_stdout() {
        return Err(Fault::usage("standard output carries the data: --json needs a file"));
    }
    // A limit of file sizes is then an error of the output, and the figures are written.
    survive_size_limit();
    let (pool, warning) = make_pool(&options.pool)?;
    let input_file = named(options.file.as_deref());
    let output_file = named(options.output.as_deref());
    ends::take_input(input_file)?;
    let json_file = options.json.file.as_deref();
    json_file.map_or(Ok(()), |json| ends::check_json(json, output_file))?;
    // Opened before anything is read, so that a bad name costs no bytes.
    let mut json = Output::open(&options.json)?;
    // Once more, where neither was there.
    json_file.map_or(Ok(()), |json| ends::check_json(json, output_file))?;
    ends::take_output(output_file)?;
    let (input, output) = (BufferInput::new(input_file)?, BufferOutput::new(output_file)?);
    // USR1 asks for a report.
    let heard = CaughtSignals::start(&ENDS, &[SIGUSR1], PATIENCE, Display::end_line)?;
    let begun = Instant::now();
    let facts = StreamFacts {
        memory_bytes: options.pool.memory,
        spills: warning.is_none() && !options.pool.no_spill,
        size_bytes: options.size.or(input.remaining_bytes),
    };
    let display = Display::new(options, facts, begun);
    let rate = options.rate.map(|bytes_per_s| Rate::new(bytes_per_s, begun));
    let start_bytes =
        options.start.map_or(0, |percent| options.pool.memory / 100 * u64::from(percent));
    let told = (display, &*heard);
    let mut flow = Flow::new(&pool, (input, output), (rate, start_bytes), told)?;
    let mut end = flow.run();
    if let Some(failure) = flow.failure.take().filter(|_| end.is_ok()) {
        end = Err(failure);
    }
    if matches!(end, Ok(BufferEnd::ReaderGone)) && sigpipe_was_ignored() {
        end = Err(flow.unwritable(Errno::PIPE));
    }
    flow.finish();
    let mut stats = sum_up(&flow, &end, begun, (&pool, options.pool.memory));
    stats.name.clone_from(&options.name);
    stats.warning = flow.trouble.clone().or(warning);
    if matches!(end, Ok(BufferEnd::Signal(_))) && stats.not_passed_on_bytes > 0 && !options.quiet {
        let lost = binary(stats.not_passed_on_bytes);
        flow.print(&format!("interrupted: {lost} were lost: read, but not passed on"));
    }
    if options.stats {
        print_err(&stats.table());
    }
    let written = match &mut json {
        Some(output) => stats.json().and_then(|text| output.write(text).map(drop)),
        None => Ok(()),
    };
    match end? {
        BufferEnd::Done => written.map(|()| ExitCode::SUCCESS),
        BufferEnd::ReaderGone => {
            written?;
            Ok(die(SIGPIPE))
        }
        BufferEnd::Signal(signal) => {
            // The status is the signal's, even if the figures could not be written.
            written.unwrap_or_else(|fault| fault.print_message());
            Ok(die(signal))
        }
    }
}

/// The file that replaces standard input or output; `-` stands for standard input or output.
fn named(file: Option<&Path>) -> Option<&Path> {
    file.filter(|path| *path != Path::new("-"))
}

/// Creates the pool. If the default directory cannot be used, a message says so and the pool has
/// memory only, which is enough for most streams; the reason is returned too.
pub fn make_pool(options: &PoolFlags) -> Result<(Pool, Option<String>), Fault> {
    let wanted = PoolOptions::new().memory_bytes(options.memory).limit_bytes(options.limit);
    let wanted = wanted.verify(options.verify);
    let in_memory = || Pool::new(&wanted.clone().no_spill());
    let too_large = |error: weir::Error| match error.kind() {
        ErrorKind::Invalid => Fault::usage(error.to_string()),
        _ => {
            let size = capacity(options.memory);
            Fault::failed(format!("{error}; ask for less than {size} with --memory"))
        }
    };
    if options.no_spill {
        return in_memory().map(|pool| (pool, None)).map_err(too_large);
    }
    let spilling = match &options.spill {
        Some(directory) => wanted.clone().spill_directory(directory),
        None => wanted.clone(),
    };
    let error = match Pool::new(&spilling) {
        Ok(pool) => return Ok((pool, None)),
        Err(error) if error.kind() == ErrorKind::Invalid => {
            return Err(Fault::usage(error.to_string()));
        }
        Err(error) => error,
    };
    // If this fails too, the file was not the reason.
    let pool = in_memory().map_err(too_large)?;
    if options.spill.is_some() {
        let how = "name another directory with --spill, or use --no-spill";
        return Err(Fault::failed(format!("{error}; {how}")));
    }
    print_message(&format!("{error}; using memory only"));
    Ok((pool, Some(error.to_string())))
}

fn sum_up(
    flow: &Flow<'_>,
    end: &Result<BufferEnd, Fault>,
    begun: Instant,
    (pool, memory_bytes): (&Pool, u64),
) -> Stats {
    let usage = Usage::of_self();
    let cpu_s = (usage.user_ns as f64 / 1e9, usage.system_ns as f64 / 1e9);
    let pool = (memory_bytes, pool.engine());
    let mut stats = Stats::new(&flow.shown(), begun.elapsed(), cpu_s, pool);
    match end {
        Ok(BufferEnd::Done) => {}
        Ok(BufferEnd::Signal(signal)) => {
            stats.ended = "interrupted";
            stats.signal = Some(*signal);
        }
        Ok(BufferEnd::ReaderGone) => stats.ended = "reader gone",
        Err(fault) => {
            stats.ended = "failed";
            stats.error = Some(fault.to_string());
        }
    }
    stats
}
