//! The progress of a run: a bar on a terminal, nothing elsewhere; and whether to stop.

use super::list;
use indicatif::ProgressBar;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_bench::engine::drive::RunObserver;
use weir_bench::engine::plan::Plan;
use weir_command::fault::{Fault, INTERRUPTED, print_message};
use weir_command::output::progress_bar;
use weir_command::signals::{Again, stop_flag};

/// Shows progress on standard error.
#[derive(Debug)]
pub struct BenchProgress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    begun: Instant,
    /// Whether it was said before the run that it takes longer than its budget.
    is_told: bool,
}

impl BenchProgress {
    /// Creates the bar. It is hidden if `quiet` or without a terminal.
    pub fn new(quiet: bool) -> BenchProgress {
        let bar = progress_bar(!quiet, 0, "{bar:24} {percent:>3} %  {msg}");
        BenchProgress { bar, stop: Arc::default(), begun: Instant::now(), is_told: false }
    }

    /// Prints what will be done, and listens for interrupts from here on. The first interrupt ends the
    /// run and keeps what it has measured. A second one ends the command.
    pub fn begin(&mut self, plan: &Plan) -> Result<(), Fault> {
        self.stop = stop_flag(Again::Exits(INTERRUPTED))?;
        self.begun = Instant::now();
        self.is_told = plan.expected() > plan.budget;
        if !self.bar.is_hidden() {
            self.bar.println(format!(
                "{}; leave the machine idle meanwhile; Ctrl-C ends the run and keeps what was measured",
                list::promise(plan)
            ));
        } else if self.is_told {
            print_message(&list::promise(plan));
        }
        Ok(())
    }

    /// Prints a line above the bar, or just a line if the bar is hidden.
    pub fn warn(&self, text: &str) {
        self.bar.suspend(|| print_message(text));
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl RunObserver for BenchProgress {
    fn cell(&mut self, what: &str, left: Duration) {
        let spent = self.begun.elapsed();
        self.bar.set_length((spent + left).as_millis() as u64);
        self.bar.set_position(spent.as_millis() as u64);
        self.bar.set_message(format!("{:.0}s left  {what}", left.as_secs_f64().ceil()));
    }

    fn overrun(&mut self, whole: Duration) {
        if self.is_told {
            let whole = list::round(whole);
            self.warn(&format!("this takes at least {whole}, longer than was said above"));
            return;
        }
        self.warn(&format!(
            "this takes at least {}, longer than its budget: setting the cases up takes that long in \
             the six processes of each group that an interval needs",
            list::round(whole)
        ));
    }

    fn stop(&mut self) -> bool {
        let stop = self.stop.load(Ordering::Relaxed);
        if stop {
            self.bar.finish_and_clear();
        }
        stop
    }
}
