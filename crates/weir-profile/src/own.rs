//! The profile of this process by itself: on, off, a report.

use super::layout::WORDS;
use super::names;
use super::observe::Sight;
use super::publish::{is_published, write_header};
use super::report::Report;
use super::snapshot::Snapshot;
use super::table::{self, TABLE};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// The interval of this process's own report: its begin, and its end once it is over.
static INTERVAL: Mutex<Option<(Sight, Option<Sight>)>> = Mutex::new(None);

/// Switches the profile of this process on or off, for itself. What an observer has switched on
/// stays on until it is done.
///
/// The first call calibrates the clock, which takes 200 ms at most.
///
/// # Errors
/// `ENOMEM`: what keeps forked children from the table could not be installed.
pub fn switch(on: bool) -> io::Result<()> {
    table::ready()?;
    let mut interval = lock();
    if on {
        if !is_published() {
            write_header(&own_name())?;
        }
        names::write_names();
        *interval = Some((look()?, None));
        table::want(true, is_published());
    } else {
        // Those that observers still count are not of the interval.
        if let Some((_, end @ None)) = &mut *interval {
            *end = Some(look()?);
        }
        table::want(false, is_published());
    }
    Ok(())
}

/// What was counted since this process switched its profile on, until now or until it switched it
/// off. `None` if it never has.
pub fn report() -> Option<Report> {
    let interval = lock();
    let (begin, end) = interval.as_ref()?;
    match end {
        Some(end) => Report::between(begin, end).ok(),
        None => Report::between(begin, &look().ok()?).ok(),
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<(Sight, Option<Sight>)>> {
    // What is in it is replaced whole: a thread that panicked has left it as it was.
    INTERVAL.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn look() -> io::Result<Sight> {
    table::settle();
    let words: Vec<u64> = (0..WORDS).map(|at| TABLE.word(at).load(Ordering::Relaxed)).collect();
    let snapshot = Snapshot::parse(&words);
    let snapshot = snapshot.map_err(|wrong| io::Error::new(io::ErrorKind::InvalidData, wrong))?;
    Ok(Sight::now(snapshot))
}

/// The name of this process's program.
fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let name = name.trim();
    String::from(if name.is_empty() { "this process" } else { name })
}
