//! `weir buffer`: an elastic buffer as a stage of any pipeline.
//!
//! In the order of flow: [`ends`] are standard input and output, [`flow`] carries the bytes from
//! one to the other, within the bounds of [`rate`], and sleeps in [`wait`]; [`display`] shows how
//! it goes, and [`stats`] says how it went.

mod display;
mod ends;
mod flow;
mod rate;
mod stats;
mod wait;

use crate::args::BufferOptions;
use crate::fault::{Fault, tell};
use display::{Display, Frame};
use ends::{Input, Output};
use flow::{End, Flow};
use rate::Rate;
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::iterator::Signals;
use stats::Stats;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use weir::{ErrorKind, Pool, PoolOptions};
use weir_sys::signals::{die_of, is_ignored};
use weir_sys::startup::sigpipe_was_ignored;
use weir_sys::usage::Usage;

/// Carries out the verb.
pub fn buffer(options: &BufferOptions) -> Result<ExitCode, Fault> {
    if options.json.as_deref() == Some(Path::new("-")) {
        return Err(Fault::usage("standard output is for the data: --json needs a file"));
    }
    let pool = match make_pool(options, options.no_spill) {
        Err(fault) if options.put_in && !options.no_spill => {
            tell(&format!("{fault}; going on with memory alone"));
            make_pool(options, true)?
        }
        pool => pool?,
    };
    // Before anything is read: a bad name is told at once, and costs nobody any bytes.
    let mut json = options.json.as_deref().map(create).transpose()?;
    let (input, output) = (Input::new()?, Output::new()?);
    let begun = Instant::now();
    let frame = Frame {
        memory_bytes: options.memory,
        spills: !options.no_spill,
        size_bytes: options.size.or(input.remaining_bytes),
    };
    let display = Display::new(options.quiet, frame, begun);
    if display.is_shown() {
        hear_signals(display.drawn());
    }
    let rate = options.rate.map(|bytes_per_s| Rate::new(bytes_per_s, begun));
    let mut flow = Flow::new(&pool, (input, output), rate, display)?;
    let mut end = flow.run();
    if let Some(failure) = flow.failure.take().filter(|_| end.is_ok()) {
        end = Err(failure);
    }
    if matches!(end, Ok(End::ReaderGone)) && sigpipe_was_ignored() {
        end = Err(ends::unwritable(Errno::PIPE));
    }
    flow.finish();
    let stats = sum_up(&flow, &end, begun, (&pool, options.memory));
    if options.stats {
        let _ = std::io::stderr().lock().write_all(stats.table().as_bytes());
    }
    if let Some((file, path)) = &mut json {
        let text = stats.json().map_err(|error| unwritten(path, error))?;
        file.write_all(&text).map_err(|error| unwritten(path, error))?;
    }
    match end? {
        End::Done => Ok(ExitCode::from(u8::from(flow.had_trouble() && !options.put_in))),
        End::ReaderGone => {
            // If it does not kill (it is blocked), the status says the same.
            let _ = die_of(SIGPIPE);
            Ok(ExitCode::from(128 + SIGPIPE as u8))
        }
    }
}

fn make_pool(options: &BufferOptions, no_spill: bool) -> Result<Pool, Fault> {
    let wanted = PoolOptions::new().memory_bytes(options.memory).limit_bytes(options.limit);
    let wanted = wanted.verify(options.verify);
    let wanted = match no_spill {
        true => wanted.no_spill(),
        false => wanted.spill_directory(options.spill.clone().unwrap_or_else(usual_directory)),
    };
    Pool::new(&wanted).map_err(|error| match error.kind() {
        ErrorKind::Invalid => Fault::usage(error.to_string()),
        _ if no_spill || options.put_in => Fault::failed(error.to_string()),
        _ => Fault::failed(format!("{error}; name another directory by --spill, or --no-spill")),
    })
}

/// Dies of what interrupts it as ever, but leaves the terminal's next line to the shell.
fn hear_signals(drawn: Arc<AtomicBool>) {
    let hear = move || {
        let taken = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
        let Ok(mut signals) = Signals::new(taken) else { return };
        if let Some(signal) = signals.forever().next() {
            Display::end_line(&drawn);
            let _ = die_of(signal);
        }
    };
    // Without it signals kill at once.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(hear);
}

/// /tmp is memory on many machines, which is what runs short.
fn usual_directory() -> PathBuf {
    let set = std::env::var_os("TMPDIR").filter(|path| !path.is_empty());
    set.map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

fn create(path: &Path) -> Result<(File, &Path), Fault> {
    let file = File::create(path).map_err(|error| unwritten(path, error))?;
    Ok((file, path))
}

fn unwritten(path: &Path, error: impl std::fmt::Display) -> Fault {
    Fault::failed(format!("cannot write '{}': {error}", path.display()))
}

fn sum_up(
    flow: &Flow<'_>,
    end: &Result<End, Fault>,
    begun: Instant,
    (pool, memory_bytes): (&Pool, u64),
) -> Stats {
    let usage = Usage::of_self();
    let cpu_s = (usage.user_ns as f64 / 1e9, usage.system_ns as f64 / 1e9);
    let pool = (memory_bytes, pool.engine());
    let mut stats = Stats::new(&flow.shown(), begun.elapsed(), cpu_s, pool);
    match end {
        Ok(End::Done) if flow.had_trouble() => stats.ended = "failed",
        Ok(End::Done) => {}
        Ok(End::ReaderGone) => stats.ended = "reader gone",
        Err(fault) => {
            stats.ended = "failed";
            stats.error = Some(fault.to_string());
        }
    }
    stats
}
