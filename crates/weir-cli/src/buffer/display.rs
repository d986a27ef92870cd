//! A line of progress on the terminal.

use crate::fault::tell;
use crate::report::units::{bytes, clock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stderr;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir::PoolAccount;

/// Rates are those of this time.
const RATE_TIME: Duration = Duration::from_secs(3);
/// A bar that is shorter says nothing.
const LEAST_BAR: usize = 10;
/// Of a terminal that does not say.
const WIDTH: usize = 80;

/// What has passed so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    pub in_bytes: u64,
    pub out_bytes: u64,
    /// Of these, moved within the kernel.
    pub moved_bytes: u64,
    /// When the input had been read to its end, since the beginning.
    pub input_ended: Option<Duration>,
    pub pool: PoolAccount,
}

/// What stays the same.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub memory_bytes: u64,
    pub spills: bool,
    /// Where it is known.
    pub size_bytes: Option<u64>,
}

/// A line of progress, or nothing.
pub struct Display {
    bar: Option<ProgressBar>,
    frame: Frame,
    begun: Instant,
    recent: VecDeque<(Instant, u64, u64)>,
    drawn: Arc<AtomicBool>,
}

impl Display {
    /// A line where somebody sees it: on a terminal that output does not go to.
    pub fn new(quiet: bool, frame: Frame, now: Instant) -> Display {
        let shown = !quiet && std::io::stderr().is_terminal() && !std::io::stdout().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::new(frame.size_bytes.unwrap_or(0));
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            bar
        });
        let bar = bar.filter(|bar| !bar.is_hidden());
        let (recent, drawn) = (VecDeque::from([(now, 0, 0)]), Arc::default());
        Display { bar, frame, begun: now, recent, drawn }
    }

    /// Ends the line of progress, where one stands, so that what comes next has a line of its own.
    pub fn end_line(drawn: &AtomicBool) {
        // Relaxed: a hint; a line that is just being drawn is one too many or too few.
        if drawn.load(Ordering::Relaxed) && is_ours() && takes_bytes() {
            let _ = rustix::io::write(stderr(), b"\n");
        }
    }

    /// Whether a line of progress stands.
    pub fn drawn(&self) -> Arc<AtomicBool> {
        self.drawn.clone()
    }

    pub fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Shows how it goes, unless the terminal is another job's at the moment, or takes nothing.
    pub fn show(&mut self, shown: &Shown, now: Instant) {
        let Some(bar) = &self.bar else { return };
        while self.recent.len() > 1 && now - self.recent[1].0 >= RATE_TIME {
            self.recent.pop_front();
        }
        let (then, in_bytes, out_bytes) = self.recent.front().copied().unwrap_or((now, 0, 0));
        self.recent.push_back((now, shown.in_bytes, shown.out_bytes));
        if !is_ours() || !takes_bytes() {
            return;
        }
        let line = Line {
            frame: self.frame,
            shown: *shown,
            elapsed: now - self.begun,
            in_rate: rate(shown.in_bytes - in_bytes, now - then),
            out_rate: rate(shown.out_bytes - out_bytes, now - then),
            ended: false,
        };
        line.draw(bar);
        // Relaxed: as in `end_line`.
        self.drawn.store(true, Ordering::Relaxed);
    }

    /// Leaves a last line.
    pub fn finish(&mut self, shown: &Shown) {
        let Some(bar) = self.bar.take() else { return };
        // Relaxed: as in `end_line`. From here on the line ends itself.
        if !self.drawn.swap(false, Ordering::Relaxed) && !is_ours() {
            return;
        }
        let elapsed = self.begun.elapsed();
        let line = Line {
            frame: self.frame,
            shown: *shown,
            elapsed,
            in_rate: rate(shown.in_bytes, shown.input_ended.unwrap_or(elapsed)),
            out_rate: rate(shown.out_bytes, elapsed),
            ended: true,
        };
        line.draw(&bar);
        bar.abandon();
    }

    /// Prints a message, above the line of progress if there is one.
    pub fn say(&self, text: &str) {
        match &self.bar {
            // Relaxed: this thread sets it.
            Some(bar) if self.drawn.load(Ordering::Relaxed) => bar.suspend(|| tell(text)),
            _ => tell(text),
        }
    }
}

/// What a line is made from.
struct Line {
    frame: Frame,
    shown: Shown,
    elapsed: Duration,
    in_rate: u64,
    out_rate: u64,
    ended: bool,
}

/// A line that fits.
#[derive(Debug, PartialEq, Eq)]
struct Laid {
    text: String,
    /// Whether there is room for a bar between the text and the share.
    bar: bool,
    share: String,
}

impl Line {
    fn draw(&self, bar: &ProgressBar) {
        let width = tcgetwinsize(stderr()).ok().map(|size| usize::from(size.ws_col));
        let laid = self.lay(width.filter(|width| *width > 0).unwrap_or(WIDTH));
        let template = match (laid.bar, laid.share.is_empty()) {
            (true, _) => "{prefix}  [{wide_bar}] {msg}",
            (false, false) => "{prefix}  {msg}",
            (false, true) => "{prefix}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(laid.text);
        bar.set_message(laid.share);
        let size_bytes = self.size_bytes().unwrap_or(0);
        bar.set_length(size_bytes);
        bar.set_position(self.shown.out_bytes.min(size_bytes));
        bar.force_draw();
    }

    /// The richest line that fits; what says least goes first.
    fn lay(&self, width: usize) -> Laid {
        let most = width.saturating_sub(1);
        let share = self.share();
        let beside = if share.is_empty() { 0 } else { share.len() + 2 };
        let with_bar = beside + LEAST_BAR + 3;
        let rich = [(5, true), (4, true), (5, false), (4, false)];
        let rich = rich.map(|(parts, bar)| (self.text(parts), bar));
        let poor = [self.close(true), self.close(false), self.text(3), self.text(2)];
        for (text, bar) in rich.into_iter().chain(poor.map(|text| (text, false))) {
            let needed = text.len() + if bar { with_bar } else { beside };
            if needed <= most && !(bar && share.is_empty()) {
                return Laid { text, bar, share };
            }
        }
        let mut text = self.text(1);
        text.truncate(most);
        Laid { text, bar: false, share: String::new() }
    }

    /// The first so many parts of the line.
    fn text(&self, parts: usize) -> String {
        let pool = &self.shown.pool;
        let mut text = format!("{:>6}", bytes(self.shown.out_bytes));
        if parts >= 2 {
            text += &format!("  {}", clock(self.elapsed));
        }
        if parts >= 3 {
            let (input, output) = (self.input(), bytes(self.out_rate));
            text += &format!("  in {input}  out {output:>6}/s");
        }
        if parts >= 4 {
            let word = if self.ended { "memory at most" } else { "memory" };
            text += &format!("  {word} {:>3}%", self.fill());
            if self.frame.spills {
                text += &format!("  spilled {:>6}", bytes(pool.spilled_bytes));
            }
        }
        if parts >= 5 && self.frame.spills && !self.ended {
            text += &format!(", {:>6} in file", bytes(pool.file_bytes));
        }
        text
    }

    /// The same closer together, with or without the time.
    fn close(&self, time: bool) -> String {
        let time = if time { format!(" {}", clock(self.elapsed)) } else { String::new() };
        let spilled = match self.frame.spills {
            true => format!(" spilled {:>6}", bytes(self.shown.pool.spilled_bytes)),
            false => String::new(),
        };
        let [out, output] = [self.shown.out_bytes, self.out_rate].map(bytes);
        let (input, fill) = (self.input(), self.fill());
        format!("{out:>6}{time} in {input} out {output:>6}/s mem {fill:>3}%{spilled}")
    }

    /// The rate of the input, as long as there is one.
    fn input(&self) -> String {
        match self.shown.input_ended {
            Some(_) if !self.ended => format!("{:>8}", "ended"),
            _ => format!("{:>6}/s", bytes(self.in_rate)),
        }
    }

    /// What passes in all: where it was known from the beginning, or once all has come in.
    fn size_bytes(&self) -> Option<u64> {
        let came = self.shown.input_ended.map(|_| self.shown.in_bytes);
        came.filter(|_| !self.ended).or(self.frame.size_bytes)
    }

    /// Memory in use, in the end the most that was, in percent.
    fn fill(&self) -> u128 {
        let pool = &self.shown.pool;
        let held = if self.ended { pool.most_memory_bytes } else { pool.memory_bytes };
        100 * u128::from(held) / u128::from(self.frame.memory_bytes.max(1))
    }

    /// How much is done, and how long the rest takes at the present rate.
    fn share(&self) -> String {
        let Some(size) = self.size_bytes().filter(|size| *size > 0) else {
            return String::new();
        };
        let done = self.shown.out_bytes.min(size);
        let share = format!("{:>3}%", 100 * u128::from(done) / u128::from(size));
        if self.ended {
            return share;
        }
        match (size - done).checked_div(self.out_rate) {
            Some(left_s) => format!("{share}  {} left", clock(Duration::from_secs(left_s))),
            None => format!("{share}  -:--:-- left"),
        }
    }
}

fn rate(bytes: u64, time: Duration) -> u64 {
    (bytes as f64 / time.as_secs_f64().max(1e-6)) as u64
}

/// Whether the terminal is this job's: a line in the midst of another's screen helps nobody.
fn is_ours() -> bool {
    tcgetpgrp(stderr()).map_or(true, |group| group == rustix::process::getpgrp())
}

/// Whether the terminal was not stopped (Ctrl-S): the bytes must not wait for the display.
fn takes_bytes() -> bool {
    let terminal = stderr();
    let mut asked = [PollFd::new(&terminal, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(size_bytes: Option<u64>, ended: bool) -> Line {
        let pool = PoolAccount {
            memory_bytes: 120 << 20,
            most_memory_bytes: 256 << 20,
            spilled_bytes: 1_300_000_000,
            file_bytes: 300_000_000,
            ..PoolAccount::default()
        };
        let shown = Shown {
            in_bytes: 3_000_000_000,
            out_bytes: 1_230_000_000,
            moved_bytes: 0,
            input_ended: None,
            pool,
        };
        Line {
            frame: Frame { memory_bytes: 256 << 20, spills: true, size_bytes },
            shown,
            elapsed: Duration::from_secs(3725),
            in_rate: 104_000_000,
            out_rate: 9_800_000,
            ended,
        }
    }

    #[test]
    fn what_says_least_goes_first() {
        let mut all = Vec::new();
        for (size, ended) in [(None, false), (Some(4_000_000_000), false), (None, true)] {
            for width in [120, 100, 80, 60, 40, 20, 5, 1] {
                let laid = line(size, ended).lay(width);
                let bar = if laid.bar { "  [===>      ] " } else { "  " };
                let text = format!("{}{bar}{}", laid.text, laid.share);
                assert!(text.trim_end().len() < width, "{width}: {text:?}");
                all.push(format!("{width:>3} {}", text.trim_end()));
            }
        }
        insta::assert_snapshot!(all.join("\n"));
    }

    #[test]
    fn once_all_has_come_in_the_rest_is_known() {
        let mut line = line(None, false);
        assert_eq!(line.share(), "");
        line.shown.input_ended = Some(Duration::from_secs(9));
        assert_eq!(line.share(), " 41%  0:03:00 left");
        let laid = [line.lay(120), line.lay(80)];
        insta::assert_snapshot!(
            laid.map(|laid| format!("{} {}", laid.text, laid.share)).join("\n")
        );
        line.ended = true;
        assert_eq!(line.share(), "");
        assert!(line.lay(120).text.contains("in 104 MB/s"));
    }

    #[test]
    fn nothing_known_yet_is_no_time_left() {
        let mut line = line(Some(4_000_000_000), false);
        line.out_rate = 0;
        assert_eq!(line.share(), " 30%  -:--:-- left");
        line.shown.out_bytes = 5_000_000_000;
        assert!(line.share().starts_with("100%"));
        line.frame.size_bytes = Some(0);
        assert_eq!(line.share(), "");
    }
}
