//! Watches a job while it runs: takes signals, names stages that cannot be started, and shows a line of
//! progress.

use super::bars::drawing;
use super::live::{Live, is_terminal, prints_elsewhere};
use super::stall;
use crate::args::LiveView;
use crate::report::style::stderr_columns;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weir_command::fault::print_message;
use weir_command::signals::heeded;
use weir_command::terminal::{is_dumb, rows};
use weir_doctor::stall::Stall;
use weir_doctor::state::TaskState;
use weir_measure::attribution::{Group, Sampler};
use weir_measure::runner::{Job, StallNews, Watcher};
use weir_measure::sys::signals::restore_default;
use weir_sys::proc::{descriptors, link};

/// Signals that weir handles itself while stages run. The stages would inherit an ignored signal;
/// exec resets a handled one to its default action.
pub const TAKEN: [i32; 5] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCONT];
/// Signals that end weir once the run is over. To make and write the report may take a while.
pub const ENDS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// For how long after the run a signal that came during it does nothing. `timeout` sends its signal
/// to its command, and then to the group in which the command is: the second one may come after the
/// run.
const ECHO: Duration = Duration::from_secs(1);
/// Runs shorter than this show no line of progress.
const SHOW_AFTER_NS: u64 = 1_000_000_000;
/// The least number of rows for bars.
const LEAST_ROWS: usize = 4;
/// Once in this number of updates, weir checks whether a stage uses the terminal.
const TERMINAL_LOOKS: u64 = 10;

/// When the line of progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Always,
    Never,
    /// Unless a stage uses the terminal.
    Unless,
    /// Only while the last stage prints to something else than the terminal.
    IfElsewhere,
}

/// The watcher of one job.
pub struct Watch {
    came: Vec<(i32, Arc<AtomicUsize>)>,
    /// Those that came at any time.
    heard: Vec<i32>,
    live: Live,
    shows: Shows,
    /// Rows rather than a line, where there is room.
    bars: bool,
    shown: bool,
    looks: u64,
    wanted: bool,
    last: bool,
    /// After which time a stall is told of.
    stall_after: Option<Duration>,
    /// Whether nothing is printed of stalls.
    is_quiet: bool,
    /// Whether the beginning of the present one was shown.
    stall_shown: bool,
    /// The longest one.
    pub stall: Option<Stall>,
}

impl Watch {
    /// Handles the signals from now on. Those that were ignored when weir was started stay ignored, as
    /// under a shell.
    pub fn new(view: LiveView, job: &Job, signals: &[i32]) -> Watch {
        let mut came = Vec::new();
        for signal in heeded(signals) {
            let count = Arc::new(AtomicUsize::new(0));
            if signal_hook::flag::register_usize(signal, Arc::clone(&count), 1).is_ok() {
                came.push((signal, count));
            }
        }
        let shows = match view {
            LiveView::Line => Shows::Always,
            // In a file, or where nothing can be drawn anew, these would be many lines.
            LiveView::Bars | LiveView::Auto if !io::stderr().is_terminal() || is_dumb() => {
                Shows::Never
            }
            LiveView::Bars => Shows::Always,
            LiveView::Auto if !io::stdout().is_terminal() => Shows::Unless,
            // Anything that a script starts may print.
            LiveView::Auto if !job.script => Shows::IfElsewhere,
            LiveView::Auto | LiveView::Never => Shows::Never,
        };
        // The processes of a script go by their own names.
        let labels = job.stages.iter().map(|stage| stage.label.clone());
        let labels = if job.script { Vec::new() } else { labels.collect() };
        let live = Live::new(labels);
        let bars = view == LiveView::Bars;
        let (shown, looks, wanted, last) = (false, 0, false, false);
        let (stall_after, is_quiet, stall_shown, stall) = (None, false, false, None);
        Watch {
            came,
            heard: Vec::new(),
            live,
            shows,
            bars,
            shown,
            looks,
            wanted,
            last,
            stall_after,
            is_quiet,
            stall_shown,
            stall,
        }
    }

    /// Says that no other job follows: signals end weir once this one is over.
    pub fn without_another(mut self) -> Watch {
        self.last = true;
        self
    }

    /// Tells of stalls that last this long, unless it is to be quiet.
    pub fn telling_stalls(mut self, after: Option<Duration>, is_quiet: bool) -> Watch {
        (self.stall_after, self.is_quiet) = (after, is_quiet);
        self
    }

    /// Wipes the line of progress, or the bars below the cursor.
    pub fn finish(&mut self) {
        if std::mem::take(&mut self.shown) {
            let wipe: &[u8] = if self.bars { b"\r\x1b[J" } else { b"\r\x1b[K" };
            let _ = io::stderr().lock().write_all(wipe);
        }
    }

    /// Whether to show the line now. It is not shown while a stage uses the terminal.
    fn is_wanted(&mut self, sampler: &Sampler) -> bool {
        if self.looks.is_multiple_of(TERMINAL_LOOKS) {
            let in_use = || sampler.population.groups.iter().any(uses_terminal);
            self.wanted = match self.shows {
                Shows::Always => true,
                Shows::Never => false,
                Shows::Unless => !in_use(),
                Shows::IfElsewhere => {
                    let last = sampler.population.groups.len().checked_sub(1);
                    last.is_some_and(|last| prints_elsewhere(sampler, last)) && !in_use()
                }
            };
        }
        self.looks += 1;
        let reads_terminal = |group: &Group| group.now == Some(TaskState::Device);
        self.wanted && !sampler.population.groups.iter().any(reads_terminal)
    }
}

impl Watcher for Watch {
    fn signals(&mut self) -> Vec<i32> {
        // Relaxed: no other memory depends on the count.
        let taken = self.came.iter().filter(|(_, count)| count.swap(0, Ordering::Relaxed) != 0);
        let taken: Vec<i32> = taken.map(|(signal, _)| *signal).collect();
        self.heard.extend(&taken);
        taken
    }

    fn over(&mut self) {
        if !self.last {
            return;
        }
        let ends = self.came.iter().map(|(signal, _)| *signal);
        let ends = ends.filter(|signal| ENDS.contains(signal));
        let (heard, others): (Vec<i32>, Vec<i32>) =
            ends.partition(|signal| self.heard.contains(signal));
        others.into_iter().for_each(end_by);
        if !heard.is_empty() {
            let waiting = heard.clone();
            let later = move || {
                // sleep: until no second signal of the same sender is under way.
                std::thread::sleep(ECHO);
                waiting.into_iter().for_each(end_by);
            };
            if std::thread::Builder::new().spawn(later).is_err() {
                heard.into_iter().for_each(end_by);
            }
        }
    }

    fn failed(&mut self, position: usize, label: &str, reason: &str) {
        self.live.failed(position);
        print_message(&format!("cannot start stage {} '{label}': {reason}", position + 1));
    }

    fn stall_after(&self) -> Option<Duration> {
        self.stall_after
    }

    fn stall(&mut self, news: StallNews) {
        if !self.is_quiet {
            self.finish();
            stall::tell(&news, &mut self.stall_shown);
        }
        stall::keep(&mut self.stall, news);
    }

    fn progress(&mut self, now_ns: u64, sampler: &Sampler) {
        if self.shows == Shows::Never || now_ns < SHOW_AFTER_NS {
            return;
        }
        if !self.is_wanted(sampler) {
            return self.finish();
        }
        let columns = stderr_columns() - 1;
        // The cursor has a row of its own above the bars.
        let rows = rows(io::stderr()).unwrap_or(0).saturating_sub(1);
        let text = if self.bars && rows >= LEAST_ROWS {
            drawing(&self.live.bars(now_ns, sampler, columns, rows))
        } else {
            format!("\r\x1b[K{}", self.live.line(now_ns, sampler, columns))
        };
        let _ = io::stderr().lock().write_all(text.as_bytes());
        self.shown = true;
    }
}

/// Lets a signal end this process from now on.
fn end_by(signal: i32) {
    restore_default(signal);
}

/// Whether a stage has a terminal open besides its standard descriptors. Programs that draw on the
/// screen do (less, fzf), and a line of progress would spoil it.
fn uses_terminal(group: &Group) -> bool {
    let on_terminal = |fd: i32| {
        link(group.root.pid, fd).is_some_and(|target| is_terminal(&target))
            && (fd > 2 || fd == 0 && group.now == Some(TaskState::BlockedIn))
    };
    descriptors(group.root.pid).is_some_and(|mut all| all.any(on_terminal))
}
