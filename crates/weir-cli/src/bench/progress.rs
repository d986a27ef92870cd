//! How a run goes: a bar on a terminal, nothing elsewhere; and whether to stop.

use crate::fault::Fault;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_measure::bench::drive::Observer;
use weir_measure::bench::plan::Plan;

/// Shows progress on standard error.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// A bar, unless nothing is to be shown or nobody looks.
    pub fn new(quiet: bool) -> Progress {
        let bar = ProgressBar::new(0);
        let shown = !quiet && std::io::stderr().is_terminal();
        bar.set_draw_target(if shown {
            ProgressDrawTarget::stderr_with_hz(4)
        } else {
            ProgressDrawTarget::hidden()
        });
        let style = ProgressStyle::with_template("{bar:24} {percent:>3} %  {eta:>4} left  {msg}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress { bar, stop: Arc::default() }
    }

    /// Says what will be done, and listens for interrupts from here on.
    pub fn begin(&mut self, plan: &Plan) -> Result<(), Fault> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, self.stop.clone())
                .map_err(|error| Fault::failed(format!("cannot listen for signals: {error}")))?;
        }
        self.bar.set_length(plan.cells());
        if !self.bar.is_hidden() {
            let budget = Duration::from_secs(plan.budget.as_secs());
            self.bar.println(format!(
                "{} cases, {} fresh processes, about {budget:?}; leave the machine alone meanwhile",
                plan.cases(),
                plan.cells()
            ));
        }
        Ok(())
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress {
    fn cell(&mut self, done: u64, _total: u64, what: &str) {
        self.bar.set_position(done);
        self.bar.set_message(what.to_owned());
    }

    fn stop(&mut self) -> bool {
        let stop = self.stop.load(Ordering::Relaxed);
        if stop {
            self.bar.finish_and_clear();
        }
        stop
    }
}
