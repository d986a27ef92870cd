//! A line of progress on the terminal.

use super::rows::TerminalRow;
use crate::args::BufferOptions;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stderr;
use rustix::termios::tcgetpgrp;
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr;
use weir::PoolAccount;
use weir_command::fault::print_message;
use weir_command::terminal;
use weir_command::units::{binary as bytes, clock};
use weir_command::widths::clip;
use weir_measure::sys::signals::group_of;
use weir_policy::text::printable;

/// The time over which rates are averaged.
const RATE_TIME: Duration = Duration::from_secs(3);
/// The shortest bar that is worth showing.
const LEAST_BAR: usize = 10;

/// What has passed so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    pub in_bytes: u64,
    pub out_bytes: u64,
    /// The part of `out_bytes` that was moved within the kernel.
    pub moved_bytes: u64,
    /// The time from the beginning until the input was read to its end.
    pub input_ended: Option<Duration>,
    pub pool: PoolAccount,
}

/// The facts about a stream that do not change.
#[derive(Clone, Copy, Debug)]
pub struct StreamFacts {
    pub memory_bytes: u64,
    pub spills: bool,
    /// `None` if the size is unknown.
    pub size_bytes: Option<u64>,
}

/// Where progress goes.
#[derive(Debug)]
enum DisplayTarget {
    Nowhere,
    Row(TerminalRow),
    /// One line for each update.
    Lines,
}

/// Whether a line of progress is on the terminal. The thread that dies of a signal must know.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// Shows progress, if anybody can see it.
#[derive(Debug)]
pub struct Display<'a> {
    place: DisplayTarget,
    options: &'a BufferOptions,
    facts: StreamFacts,
    begun: Instant,
    recent: VecDeque<(Instant, u64, u64)>,
}

impl<'a> Display<'a> {
    /// Shows progress on standard error if that is a terminal and standard output is not, or if
    /// the user forces it.
    pub fn new(options: &'a BufferOptions, facts: StreamFacts, now: Instant) -> Display<'a> {
        let terminal = std::io::stderr().is_terminal() && !terminal::is_dumb();
        let place = match (options.quiet, terminal, options.force) {
            (true, ..) | (_, false, false) => DisplayTarget::Nowhere,
            (_, false, true) => DisplayTarget::Lines,
            (_, true, force) if force || !std::io::stdout().is_terminal() => {
                DisplayTarget::Row(TerminalRow::claim())
            }
            _ => DisplayTarget::Nowhere,
        };
        let recent = VecDeque::from([(now, 0, 0)]);
        Display { place, options, facts, begun: now, recent }
    }

    /// Ends the line of progress, if there is one, so that the next output starts on a new line.
    pub fn end_line() {
        // Relaxed: a hint. If a line is being drawn right now, one newline is missing or extra.
        if DRAWN.swap(false, Ordering::Relaxed) && is_ours() && takes_bytes() {
            put("\n");
        }
    }

    pub fn is_shown(&self) -> bool {
        !matches!(self.place, DisplayTarget::Nowhere)
    }

    /// Time between two updates.
    pub fn interval(&self) -> Duration {
        self.options.interval
    }

    /// Shows the progress, unless another job has the terminal or the terminal is stopped.
    pub fn show(&mut self, shown: &Shown, now: Instant) {
        if !self.is_shown() {
            return;
        }
        let line = self.line(shown, now);
        let name = self.prefix();
        match &mut self.place {
            DisplayTarget::Row(row) if is_ours() && takes_bytes() => {
                put(&row.draw(&line.render(&name, terminal::width(stderr()))));
                // Relaxed: as in `end_line`.
                DRAWN.store(true, Ordering::Relaxed);
            }
            // The bytes must not wait for a slow reader of standard error.
            DisplayTarget::Lines if takes_bytes() => put(&format!("{name}{}\n", line.whole())),
            _ => {}
        }
    }

    /// Prints the progress, whether it is shown or not.
    pub fn report(&mut self, shown: &Shown) {
        let line = self.line(shown, Instant::now());
        let text = format!("{}{}", self.prefix(), line.whole());
        if takes_bytes() {
            self.print(&text);
        }
    }

    /// Draws the last line, which stays.
    pub fn finish(&mut self, shown: &Shown) {
        let place = std::mem::replace(&mut self.place, DisplayTarget::Nowhere);
        // Relaxed: as in `end_line`. From here on this function ends the line.
        let drawn = DRAWN.swap(false, Ordering::Relaxed);
        let elapsed = self.begun.elapsed();
        let line = ProgressLine {
            facts: self.facts,
            shown: *shown,
            elapsed,
            in_rate: rate(shown.in_bytes, shown.input_ended.unwrap_or(elapsed)),
            out_rate: rate(shown.out_bytes, elapsed),
            ended: true,
        };
        let name = self.prefix();
        match place {
            DisplayTarget::Row(mut row) if (drawn || is_ours()) && takes_bytes() => {
                let last = row.draw(&line.render(&name, terminal::width(stderr())));
                let rest = row.leave();
                // Relaxed: as in `end_line`. Another buffer ends the line.
                DRAWN.store(rest.is_empty(), Ordering::Relaxed);
                put(&(last + &rest));
            }
            DisplayTarget::Lines if takes_bytes() => put(&format!("{name}{}\n", line.whole())),
            _ => {}
        }
    }

    /// Prints a message. It replaces the line of progress, which is drawn again below it.
    pub fn print(&self, text: &str) {
        // Relaxed: this thread sets it.
        if DRAWN.load(Ordering::Relaxed) && takes_bytes() {
            put("\r\x1b[K");
        }
        print_message(text);
    }

    fn prefix(&self) -> String {
        self.options.name.as_ref().map_or_else(String::new, |name| format!("{}: ", printable(name)))
    }

    /// The present line, with the rates of the last seconds.
    fn line(&mut self, shown: &Shown, now: Instant) -> ProgressLine {
        while self.recent.len() > 1 && now - self.recent[1].0 >= RATE_TIME {
            self.recent.pop_front();
        }
        let (then, in_bytes, out_bytes) = self.recent.front().copied().unwrap_or((now, 0, 0));
        self.recent.push_back((now, shown.in_bytes, shown.out_bytes));
        ProgressLine {
            facts: self.facts,
            shown: *shown,
            elapsed: now - self.begun,
            in_rate: rate(shown.in_bytes - in_bytes, now - then),
            out_rate: rate(shown.out_bytes - out_bytes, now - then),
            ended: false,
        }
    }
}

/// Writes to standard error and ignores errors.
fn put(text: &str) {
    let _ = rustix::io::write(stderr(), text.as_bytes());
}

/// The figures of a line of progress.
struct ProgressLine {
    facts: StreamFacts,
    shown: Shown,
    elapsed: Duration,
    in_rate: u64,
    out_rate: u64,
    ended: bool,
}

/// A line that fits into the width.
#[derive(Debug, PartialEq, Eq)]
struct Laid {
    text: String,
    /// Whether there is room for a bar between the text and the share.
    bar: bool,
    share: String,
}

impl ProgressLine {
    /// The line as it is drawn, after the name.
    fn render(&self, name: &str, width: usize) -> String {
        let name = clip(name, width / 2);
        let laid = self.lay(width.saturating_sub(name.width()));
        let Laid { text, bar, share } = &laid;
        let used = name.width() + text.len() + share.len() + "  [] ".len();
        match (*bar, share.is_empty()) {
            (true, _) => {
                let bar = self.bar(width.saturating_sub(1 + used));
                format!("{name}{text}  [{bar}] {share}")
            }
            (false, false) => format!("{name}{text}  {share}"),
            (false, true) => format!("{name}{text}"),
        }
    }

    /// The line with all its parts, of any length.
    fn whole(&self) -> String {
        format!("{}  {}", self.text(5), self.share()).trim().to_owned()
    }

    /// A bar of `room` characters that shows how much is done.
    fn bar(&self, room: usize) -> String {
        let size = self.size_bytes().unwrap_or(0).max(1);
        let done = self.shown.out_bytes.min(size);
        let filled = (u128::from(done) * room as u128 / u128::from(size)) as usize;
        let tip = if (1..room).contains(&filled) { ">" } else { "" };
        let line = "=".repeat(filled - tip.len());
        format!("{line}{tip}{}", " ".repeat(room - filled))
    }

    /// The longest line that fits. The least informative parts are dropped first.
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
        Laid { text: clip(&self.text(1), most), bar: false, share: String::new() }
    }

    /// The first `parts` parts of the line.
    fn text(&self, parts: usize) -> String {
        let pool = &self.shown.pool;
        let mut text = format!("{:>7}", bytes(self.shown.out_bytes));
        if parts >= 2 {
            text += &format!("  {}", clock(self.elapsed));
        }
        if parts >= 3 {
            let (input, output) = (self.input(), bytes(self.out_rate));
            text += &format!("  in {input}  out {output:>7}/s");
        }
        if parts >= 4 {
            let word = if self.ended { "memory at most" } else { "memory" };
            text += &format!("  {word} {:>3}%", self.fill());
            if self.facts.spills {
                text += &format!("  spilled {:>7}", bytes(pool.spilled_bytes));
            }
        }
        if parts >= 5 && self.facts.spills && !self.ended {
            text += &format!(", {:>7} in file", bytes(pool.file_bytes));
        }
        text
    }

    /// A denser form of the line, with or without the time.
    fn close(&self, time: bool) -> String {
        let time = if time { format!(" {}", clock(self.elapsed)) } else { String::new() };
        let spilled = match self.facts.spills {
            true => format!(" spilled {:>7}", bytes(self.shown.pool.spilled_bytes)),
            false => String::new(),
        };
        let [out, output] = [self.shown.out_bytes, self.out_rate].map(bytes);
        let (input, fill) = (self.input(), self.fill());
        format!("{out:>7}{time} in {input} out {output:>7}/s mem {fill:>3}%{spilled}")
    }

    /// The rate of the input, or that it has ended.
    fn input(&self) -> String {
        match self.shown.input_ended {
            Some(_) if !self.ended => format!("{:>9}", "ended"),
            _ => format!("{:>7}/s", bytes(self.in_rate)),
        }
    }

    /// The size of the whole stream, if it was given or once all input was read.
    fn size_bytes(&self) -> Option<u64> {
        let came_bytes = self.shown.in_bytes;
        if self.shown.input_ended.is_some() && (!self.ended || self.facts.size_bytes.is_some()) {
            return Some(came_bytes);
        }
        // Where more has come than was to be expected, nothing is known of the rest.
        self.facts.size_bytes.filter(|size| came_bytes <= *size)
    }

    /// Memory in use, in percent; at the end, the most that was in use.
    fn fill(&self) -> u128 {
        let pool = &self.shown.pool;
        let held = if self.ended { pool.most_memory_bytes } else { pool.memory_bytes };
        100 * u128::from(held) / u128::from(self.facts.memory_bytes.max(1))
    }

    /// The share done, and the time that the rest takes at the present rate.
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

/// Whether this job has the terminal: a line must not appear on another job's screen.
fn is_ours() -> bool {
    tcgetpgrp(stderr())
        .map_or(true, |group| group_of(0).is_ok_and(|own| own == group.as_raw_nonzero().get()))
}

/// Whether standard error takes bytes. A terminal that was stopped (Ctrl-S) does not, and the
/// stream must not wait for the display.
fn takes_bytes() -> bool {
    let terminal = stderr();
    let mut asked = [PollFd::new(&terminal, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(size_bytes: Option<u64>, ended: bool) -> ProgressLine {
        let mut pool = PoolAccount::default();
        pool.memory_bytes = 120 << 20;
        pool.most_memory_bytes = 256 << 20;
        pool.spilled_bytes = 1_300_000_000;
        pool.file_bytes = 300_000_000;
        let shown = Shown {
            in_bytes: 3_000_000_000,
            out_bytes: 1_230_000_000,
            moved_bytes: 0,
            input_ended: None,
            pool,
        };
        ProgressLine {
            facts: StreamFacts { memory_bytes: 256 << 20, spills: true, size_bytes },
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
        assert!(line.lay(120).text.contains("in  99 MiB/s"));
    }

    #[test]
    fn nothing_known_yet_is_no_time_left() {
        let mut line = line(Some(4_000_000_000), false);
        line.out_rate = 0;
        assert_eq!(line.share(), " 30%  -:--:-- left");
        line.facts.size_bytes = Some(0);
        assert_eq!(line.share(), "");
    }

    /// A line with a long name, or one of Chinese characters, was wider than the terminal: each update
    /// left a line behind.
    #[test]
    fn a_line_with_any_name_fits_into_the_terminal() {
        let long = "a name ".repeat(20) + ": ";
        for name in ["", "in: ", "\u{6f22}\u{5b57}\u{6f22}\u{5b57}\u{6f22}\u{5b57}: ", &long] {
            for (size, ended) in [(None, false), (Some(4_000_000_000), false), (None, true)] {
                for width in [200, 120, 80, 60, 40, 20, 5, 1] {
                    let text = line(size, ended).render(name, width);
                    assert!(text.width() <= width, "{width}: {text:?}");
                }
            }
        }
    }

    #[test]
    fn a_size_that_was_wrong_is_no_size() {
        let mut line = line(Some(4_000_000_000), false);
        (line.shown.in_bytes, line.shown.out_bytes) = (4_000_000_001, 3_999_999_999);
        assert_eq!((line.share().as_str(), line.lay(120).bar), ("", false), "more came");
        // Less came than was expected, and all of it was passed on.
        (line.shown.in_bytes, line.shown.out_bytes) = (1_000_000_000, 1_000_000_000);
        assert_eq!(line.share(), " 25%  0:05:06 left");
        line.shown.input_ended = Some(Duration::from_secs(9));
        line.ended = true;
        assert_eq!(line.share(), "100%");
    }
}
