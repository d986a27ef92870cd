//! The profile of this process, taken by itself: on, off, and a report.

use super::layout::WORDS;
use super::names;
use super::observe::{Observation, wrong};
use super::publish::{is_published, write_header};
use super::report::ProfileReport;
use super::snapshot::TableSnapshot;
use super::table::{self, TABLE};
use super::thread;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// The interval of this process's own report: its start, and its end once it is over.
static INTERVAL: Mutex<Option<(Observation, Option<Observation>)>> = Mutex::new(None);

/// Switches the profile of this process on or off. A profile that an observer has switched on stays
/// on until the observer is done.
///
/// The first call calibrates the clock, which takes 200 ms at most.
///
/// # Errors
/// `ENOMEM`: the handler that keeps forked children from the table could not be installed.
pub fn switch(on: bool) -> io::Result<()> {
    table::ready()?;
    let mut interval = lock();
    if on {
        if !is_published() {
            write_header(&own_name())?;
        }
        names::write_names();
        *interval = Some((snapshot()?, None));
        table::want(true, is_published());
    } else {
        // Counts made for observers are not part of the interval.
        if let Some((_, end @ None)) = &mut *interval {
            *end = Some(snapshot()?);
        }
        table::want(false, is_published());
    }
    Ok(())
}

/// Reports the counts since this process switched its profile on, until now or until it switched it
/// off. `None` if it never has.
pub fn report() -> Option<ProfileReport> {
    let interval = lock();
    let (begin, end) = interval.as_ref()?;
    match end {
        Some(end) => ProfileReport::between(begin, end).ok(),
        None => ProfileReport::between(begin, &snapshot().ok()?).ok(),
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<(Observation, Option<Observation>)>> {
    // The content is replaced as a whole: a thread that panicked left it unchanged.
    let mut interval = INTERVAL.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // A forked child has not switched its own on.
    interval.take_if(|(begin, _)| begin.pid().cast_unsigned() != std::process::id());
    interval
}

fn snapshot() -> io::Result<Observation> {
    thread::settle();
    let words: Vec<u64> = (0..WORDS).map(|at| TABLE.word(at).load(Ordering::Relaxed)).collect();
    Ok(Observation::now(TableSnapshot::parse(&words).map_err(wrong)?))
}

fn own_name() -> String {
    let name = weir_sys::proc::name(weir_sys::proc::ProcDir::This).unwrap_or_default();
    let name = name.trim();
    String::from(if name.is_empty() { "this process" } else { name })
}
