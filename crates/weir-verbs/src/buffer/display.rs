//! A line of progress on the terminal.

use super::rows::TerminalRow;
use crate::fault::tell;
use crate::units::columns;
use crate::units::{binary as bytes, clock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stderr;
use rustix::termios::tcgetpgrp;
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir::PoolAccount;
use weir_policy::text::printable;

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

/// What the user wants to see.
#[derive(Clone, Debug)]
pub struct Wishes {
    pub quiet: bool,
    /// Also where standard error is no terminal.
    pub force: bool,
    pub interval: Duration,
    pub name: Option<String>,
}

/// Where progress goes.
#[derive(Debug)]
enum Target {
    Nowhere,
    /// A row of a terminal.
    Row(TerminalRow),
    /// A line each time.
    Lines,
}

/// Whether a line of progress stands on the terminal: for who dies in the midst of it.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// A line of progress, or nothing.
#[derive(Debug)]
pub struct Display {
    place: Target,
    wishes: Wishes,
    frame: Frame,
    begun: Instant,
    recent: VecDeque<(Instant, u64, u64)>,
}

impl Display {
    /// A line where somebody sees it: on a terminal that output does not go to.
    pub fn new(wishes: Wishes, frame: Frame, now: Instant) -> Display {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let terminal = std::io::stderr().is_terminal() && !dumb;
        let place = match (wishes.quiet, terminal, wishes.force) {
            (true, ..) | (_, false, false) => Target::Nowhere,
            (_, false, true) => Target::Lines,
            (_, true, force) if force || !std::io::stdout().is_terminal() => {
                Target::Row(TerminalRow::claim())
            }
            _ => Target::Nowhere,
        };
        let recent = VecDeque::from([(now, 0, 0)]);
        Display { place, wishes, frame, begun: now, recent }
    }

    /// Ends the line of progress, where one stands, so that what comes next has a line of its own.
    pub fn end_line() {
        // Relaxed: a hint; a line that is just being drawn is one too many or too few.
        if DRAWN.swap(false, Ordering::Relaxed) && is_ours() && takes_bytes() {
            put("\n");
        }
    }

    pub fn is_shown(&self) -> bool {
        !matches!(self.place, Target::Nowhere)
    }

    /// Time between two lines.
    pub fn interval(&self) -> Duration {
        self.wishes.interval
    }

    /// Shows how it goes, unless the terminal is another job's at the moment, or takes nothing.
    pub fn show(&mut self, shown: &Shown, now: Instant) {
        if !self.is_shown() {
            return;
        }
        let line = self.line(shown, now);
        let name = self.prefix();
        match &mut self.place {
            Target::Row(row) if is_ours() && takes_bytes() => {
                put(&row.draw(&line.render(&name, width())));
                // Relaxed: as in `end_line`.
                DRAWN.store(true, Ordering::Relaxed);
            }
            // A reader of standard error that takes nothing must not hold up the bytes.
            Target::Lines if takes_bytes() => put(&format!("{name}{}\n", line.whole())),
            _ => {}
        }
    }

    /// Says how it goes, whether progress is shown or not.
    pub fn report(&mut self, shown: &Shown) {
        let line = self.line(shown, Instant::now());
        let text = format!("{}{}", self.prefix(), line.whole());
        if takes_bytes() {
            self.say(&text);
        }
    }

    /// Leaves a last line.
    pub fn finish(&mut self, shown: &Shown) {
        let place = std::mem::replace(&mut self.place, Target::Nowhere);
        // Relaxed: as in `end_line`. From here on the line ends itself.
        let drawn = DRAWN.swap(false, Ordering::Relaxed);
        let elapsed = self.begun.elapsed();
        let line = ProgressLine {
            frame: self.frame,
            shown: *shown,
            elapsed,
            in_rate: rate(shown.in_bytes, shown.input_ended.unwrap_or(elapsed)),
            out_rate: rate(shown.out_bytes, elapsed),
            ended: true,
        };
        let name = self.prefix();
        match place {
            Target::Row(mut row) if (drawn || is_ours()) && takes_bytes() => {
                let last = row.draw(&line.render(&name, width()));
                let rest = row.leave();
                // Relaxed: as in `end_line`. The line is another's now.
                DRAWN.store(rest.is_empty(), Ordering::Relaxed);
                put(&(last + &rest));
            }
            Target::Lines if takes_bytes() => put(&format!("{name}{}\n", line.whole())),
            _ => {}
        }
    }

    /// Prints a message, in place of the line of progress if there is one, which then moves down.
    pub fn say(&self, text: &str) {
        // Relaxed: this thread sets it.
        if DRAWN.load(Ordering::Relaxed) && takes_bytes() {
            put("\r\x1b[K");
        }
        tell(text);
    }

    fn prefix(&self) -> String {
        self.wishes.name.as_ref().map_or_else(String::new, |name| format!("{}: ", printable(name)))
    }

    /// How it goes now, with the rates of the last seconds.
    fn line(&mut self, shown: &Shown, now: Instant) -> ProgressLine {
        while self.recent.len() > 1 && now - self.recent[1].0 >= RATE_TIME {
            self.recent.pop_front();
        }
        let (then, in_bytes, out_bytes) = self.recent.front().copied().unwrap_or((now, 0, 0));
        self.recent.push_back((now, shown.in_bytes, shown.out_bytes));
        ProgressLine {
            frame: self.frame,
            shown: *shown,
            elapsed: now - self.begun,
            in_rate: rate(shown.in_bytes - in_bytes, now - then),
            out_rate: rate(shown.out_bytes - out_bytes, now - then),
            ended: false,
        }
    }
}

/// Writes to standard error. Nobody to read it is no error.
fn put(text: &str) {
    let _ = rustix::io::write(stderr(), text.as_bytes());
}

fn width() -> usize {
    columns(stderr()).unwrap_or(WIDTH)
}

/// What a line is made from.
struct ProgressLine {
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

impl ProgressLine {
    /// The line as it is drawn, behind a name.
    fn render(&self, name: &str, width: usize) -> String {
        let laid = self.lay(width.saturating_sub(name.chars().count()));
        let Laid { text, bar, share } = &laid;
        let used = name.chars().count() + text.len() + share.len() + "  [] ".len();
        match (*bar, share.is_empty()) {
            (true, _) => {
                let bar = self.bar(width.saturating_sub(1 + used));
                format!("{name}{text}  [{bar}] {share}")
            }
            (false, false) => format!("{name}{text}  {share}"),
            (false, true) => format!("{name}{text}"),
        }
    }

    /// All there is to say, of any length.
    fn whole(&self) -> String {
        format!("{}  {}", self.text(5), self.share()).trim().to_owned()
    }

    /// How much is done, in so many characters.
    fn bar(&self, room: usize) -> String {
        let size = self.size_bytes().unwrap_or(0).max(1);
        let done = self.shown.out_bytes.min(size);
        let filled = (u128::from(done) * room as u128 / u128::from(size)) as usize;
        let tip = if (1..room).contains(&filled) { ">" } else { "" };
        let line = "=".repeat(filled - tip.len());
        format!("{line}{tip}{}", " ".repeat(room - filled))
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
            if self.frame.spills {
                text += &format!("  spilled {:>7}", bytes(pool.spilled_bytes));
            }
        }
        if parts >= 5 && self.frame.spills && !self.ended {
            text += &format!(", {:>7} in file", bytes(pool.file_bytes));
        }
        text
    }

    /// The same closer together, with or without the time.
    fn close(&self, time: bool) -> String {
        let time = if time { format!(" {}", clock(self.elapsed)) } else { String::new() };
        let spilled = match self.frame.spills {
            true => format!(" spilled {:>7}", bytes(self.shown.pool.spilled_bytes)),
            false => String::new(),
        };
        let [out, output] = [self.shown.out_bytes, self.out_rate].map(bytes);
        let (input, fill) = (self.input(), self.fill());
        format!("{out:>7}{time} in {input} out {output:>7}/s mem {fill:>3}%{spilled}")
    }

    /// The rate of the input, as long as there is one.
    fn input(&self) -> String {
        match self.shown.input_ended {
            Some(_) if !self.ended => format!("{:>9}", "ended"),
            _ => format!("{:>7}/s", bytes(self.in_rate)),
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
        assert!(line.lay(120).text.contains("in  99 MiB/s"));
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
