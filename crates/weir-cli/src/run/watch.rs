//! Looks on while a job runs: signals, stages that cannot be started, and a line of progress.

use crate::args::When;
use crate::fault::tell;
use rustix::termios::tcgetwinsize;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_measure::attribution::{Group, Sampler};
use weir_measure::runner::Watcher;
use weir_policy::state::State;
use weir_sys::signals::is_ignored;

/// Signals that weir takes itself while stages run. Handlers, not SIG_IGN: what is ignored would
/// be ignored by the stages too, what is handled is reset to the default by exec.
const TAKEN: [i32; 5] = [1, 2, 3, 15, 18];
/// Nothing is shown of runs shorter than this.
const SHOW_AFTER_NS: u64 = 1_000_000_000;
/// How often it is looked whether a stage uses the terminal.
const TERMINAL_LOOKS: u64 = 10;

/// The onlooker.
pub struct Watch {
    came: Vec<(i32, Arc<AtomicUsize>)>,
    live: bool,
    forced: bool,
    shown: bool,
    calls: u64,
    terminal_in_use: bool,
}

impl Watch {
    /// Takes the signals from now on, except those ignored when weir was started: those stay
    /// ignored, as a shell leaves them.
    pub fn new(live: When) -> Watch {
        let mut came = Vec::new();
        for signal in TAKEN.into_iter().filter(|signal| !is_ignored(*signal)) {
            let count = Arc::new(AtomicUsize::new(0));
            if signal_hook::flag::register_usize(signal, Arc::clone(&count), 1).is_ok() {
                came.push((signal, count));
            }
        }
        let auto = io::stderr().is_terminal() && !io::stdout().is_terminal();
        let live_now = live == When::Always || (live == When::Auto && auto);
        Watch {
            came,
            live: live_now,
            forced: live == When::Always,
            shown: false,
            calls: 0,
            terminal_in_use: false,
        }
    }

    /// Wipes the line of progress.
    pub fn finish(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = io::stderr().lock().write_all(b"\r\x1b[K");
        }
    }

    fn line(&self, now_ns: u64, sampler: &Sampler) -> String {
        let mut line = format!("weir {:.1} s", now_ns as f64 / 1e9);
        for (position, group) in sampler.groups.iter().enumerate().filter(|(_, g)| !g.ended) {
            let alive_ns = group.last_ns.saturating_sub(group.first_ns).max(1);
            let times = group.samples.divide_wall(alive_ns);
            let busy = 100 * times.busy_ns() / alive_ns;
            let now = group.now.map_or("", describe);
            let name = &group.program;
            line.push_str(&format!("   {} {name} busy {busy} %{now}", position + 1));
        }
        line
    }
}

impl Watcher for Watch {
    fn signals(&mut self) -> Vec<i32> {
        // Relaxed: the flag itself is all that is passed on.
        let taken = self.came.iter().filter(|(_, count)| count.swap(0, Ordering::Relaxed) != 0);
        taken.map(|(signal, _)| *signal).collect()
    }

    fn failed(&mut self, position: usize, label: &str, reason: &str) {
        tell(&format!("cannot start stage {} '{label}': {reason}", position + 1));
    }

    fn progress(&mut self, now_ns: u64, sampler: &Sampler) {
        if !self.live || now_ns < SHOW_AFTER_NS {
            return;
        }
        if self.calls.is_multiple_of(TERMINAL_LOOKS) {
            self.terminal_in_use = !self.forced && sampler.groups.iter().any(uses_terminal);
        }
        self.calls += 1;
        let reads_terminal = |group: &Group| group.now == Some(State::Device);
        if self.terminal_in_use || sampler.groups.iter().any(reads_terminal) {
            return self.finish();
        }
        let width = tcgetwinsize(io::stderr()).map_or(80, |size| size.ws_col.max(20)) as usize;
        let line: String = self.line(now_ns, sampler).chars().take(width - 1).collect();
        let _ = io::stderr().lock().write_all(format!("\r\x1b[K{line}").as_bytes());
        self.shown = true;
    }
}

/// Whether a stage has a terminal open besides its standard descriptors, as programs do that
/// draw on it (less, fzf): a line of progress would spoil their screen.
fn uses_terminal(group: &Group) -> bool {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{}/fd", group.root)) else { return false };
    entries.flatten().any(|entry| {
        let number = entry.file_name().to_string_lossy().parse::<u32>().unwrap_or(0);
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let terminal = target.starts_with("/dev/pts") || target == std::path::Path::new("/dev/tty");
        terminal && (number > 2 || number == 0 && group.now == Some(State::BlockedIn))
    })
}

fn describe(state: State) -> &'static str {
    match state {
        State::BlockedIn => " (waits for input)",
        State::BlockedOut => " (waits for output)",
        State::Disk => " (waits for the disk)",
        State::Sleep => " (sleeps)",
        State::Stopped => " (stopped)",
        _ => "",
    }
}
