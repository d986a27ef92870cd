//! Storms of many seeds, on all CPUs.

use crate::args::ModelOptions;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weir_command::fault::Fault;
use weir_command::output::{print, progress_bar};
use weir_model::storm::{BrokenRun, storm};

/// Storms that are run where it is not said how many.
const STORMS: u64 = 1000;

/// Runs the storms that are asked for.
pub(super) fn storms(options: &ModelOptions) -> Result<ExitCode, Fault> {
    let alone = if options.seed.is_some() { 1 } else { STORMS };
    let (first, count) = (options.seed.unwrap_or(0), options.seeds.unwrap_or(alone));
    let bar = progress_bar(count > 1, count, "{pos} of {len} storms [{bar:30}] {eta} left");
    let run = Run { first, count, next: AtomicU64::new(0), stopped: AtomicBool::new(false) };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let found: Vec<Result<u64, BrokenRun>> = std::thread::scope(|scope| {
        let work = || run.work(|| bar.inc(1));
        let workers: Vec<_> = (0..cpus).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    bar.finish_and_clear();
    let mut events = 0;
    let mut broken: Option<BrokenRun> = None;
    for result in found {
        match result {
            Ok(more) => events += more,
            // Of several the first: which it is does not hang on the threads.
            Err(run) if broken.as_ref().is_none_or(|known| run.seed < known.seed) => {
                broken = Some(run);
            }
            Err(_) => {}
        }
    }
    if let Some(wreck) = broken {
        return Err(Fault::failed(told(&wreck)));
    }
    let storms = if count == 1 { "storm" } else { "storms" };
    print(&format!("{count} {storms}, {events} events: no promise was broken\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The seeds that several threads take in turn.
struct Run {
    first: u64,
    count: u64,
    next: AtomicU64,
    stopped: AtomicBool,
}

impl Run {
    /// Runs storms until none is left, or until one has broken a promise. Seeds are begun in their
    /// order, so those before a broken one all come to their end.
    fn work(&self, done: impl Fn()) -> Result<u64, BrokenRun> {
        let mut events = 0;
        loop {
            let step = self.next.fetch_add(1, Ordering::Relaxed);
            if step >= self.count || self.stopped.load(Ordering::Relaxed) {
                return Ok(events);
            }
            let found = storm(self.first.wrapping_add(step));
            self.stopped.fetch_or(found.is_err(), Ordering::Relaxed);
            events += found?;
            done();
        }
    }
}

fn told(wreck: &BrokenRun) -> String {
    format!(
        "storm {seed} broke a promise of {}: {}\n{}\nAgain: weir model storm --seed {seed}",
        wreck.of,
        wreck.why,
        wreck.trace.join("\n"),
        seed = wreck.seed
    )
}
