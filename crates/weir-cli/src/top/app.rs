//! What is on the screen, and what keys do: no terminal and no clock, so that it can be tested.

use super::keys::Event;
use super::rows::{Row, Snapshot, Waits};
use super::table::{Column, LEAST_COLUMNS, View, columns, header, rate, row};
use crate::args::TopSort;
use weir_command::units::words::things;
use weir_command::widths::{clip, fill, wrap};
use weir_policy::text::printable_lines;

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    /// Light on dark turned round.
    Reverse,
    /// In the colour of something that is stuck.
    Stuck,
}

/// A line on the screen.
pub type Line = (String, Style);

/// What a key asks of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    None,
    Quit,
    /// To stop as Ctrl-Z does.
    Stop,
    /// To find out why this process does not continue.
    Why(i32),
    /// To look at once.
    Look,
}

/// What is below the rows, or in place of them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    Table,
    /// The filter is being typed; what it was before.
    Filter(String),
    /// A text in place of the rows, from this line on.
    Text(String, usize),
}

/// The state of the live view.
#[derive(Debug)]
pub struct App {
    pub view: View,
    mode: Mode,
    seen: Snapshot,
    shown: Vec<Row>,
    /// The row that is selected, which stays so wherever it moves.
    selected: Option<(&'static str, u64)>,
    top: usize,
    is_paused: bool,
    size: (usize, usize),
}

/// The keys at the bottom, which can be clicked.
const FOOTER: [(char, &str); 7] = [
    ('q', "Quit"),
    ('h', "Help"),
    ('/', "Filter"),
    ('s', "Sort"),
    ('r', "Reverse"),
    ('w', "Why"),
    ('p', "Pause"),
];

const HELP: &str = "\
q F10 Ctrl-C  quit
Up Down PgUp PgDn Home End, wheel, click  select
s > F6  sort by the next column; <  by the one before; click on a heading  by that
r I  sort the other way round
/ F4  filter by process, name or kind; Enter keeps it, Escape removes it
w Enter  why does the process that waits not go on?
a  also idle pipes, and those that join only the threads of one process
p Space  pause
h F1 ?  this help
Ctrl-Z  stop, fg continues

RATE  <: at most, some of it may have gone elsewhere; >: at least, for programs that can also move bytes uncounted (splice); ?: unknown
WAITS  writer: it waits for room, for the reader; reader: it waits for data, for the writer; ?: may not be seen";

impl App {
    pub fn new(view: View) -> App {
        App {
            view,
            mode: Mode::Table,
            seen: Snapshot::default(),
            shown: Vec::new(),
            selected: None,
            top: 0,
            is_paused: false,
            size: (80, 24),
        }
    }

    /// Takes the result of a look.
    pub fn update(&mut self, seen: Snapshot) {
        self.seen = seen;
        self.arrange();
    }

    /// Whether to continue looking.
    pub fn is_sampling(&self) -> bool {
        !self.is_paused
    }

    /// Shows a text in place of the rows, until a key is pressed.
    pub fn show_message(&mut self, text: String) {
        self.mode = Mode::Text(printable_lines(&text), 0);
    }

    fn arrange(&mut self) {
        self.shown = self.view.of(&self.seen.rows);
    }

    /// The position of the selected row; that of the first if it is gone.
    fn at(&self) -> usize {
        let is = |row: &Row| Some((row.kind, row.inode)) == self.selected;
        self.shown.iter().position(is).unwrap_or(0)
    }

    fn select(&mut self, at: usize) {
        let at = at.min(self.shown.len().saturating_sub(1));
        self.selected = self.shown.get(at).map(|row| (row.kind, row.inode));
    }

    /// Lines for rows: all without title, headings, sentence and keys.
    fn room(&self) -> usize {
        self.size
            .1
            .saturating_sub(2 + usize::from(self.has_keys()) + usize::from(self.shows_message()))
    }

    fn has_keys(&self) -> bool {
        self.size.1 >= 5
    }

    fn shows_message(&self) -> bool {
        self.size.1 >= 8
    }

    /// The lines of the screen, of this size.
    pub fn frame(&mut self, size: (usize, usize)) -> Vec<Line> {
        self.size = size;
        let (width, height) = size;
        let columns = columns(width);
        let mut lines = vec![(self.title(), Style::Bold)];
        let room = self.room();
        match &mut self.mode {
            Mode::Text(text, from) => {
                let wrapped = text.lines().flat_map(|line| match line {
                    "" => vec![String::new()],
                    line => wrap(line, width.max(LEAST_COLUMNS)),
                });
                let wrapped: Vec<String> = wrapped.collect();
                *from = (*from).min(wrapped.len().saturating_sub(room + 1));
                let shown = wrapped.into_iter().skip(*from).take(room + 1);
                lines.extend(shown.map(|line| (line, Style::Plain)));
            }
            _ => {
                lines.push((header(&columns, self.view.sort), Style::Reverse));
                self.rows(&columns, room, &mut lines);
            }
        }
        lines.resize(2 + room, (String::new(), Style::Plain));
        if self.shows_message() {
            lines.push((self.sentence(), Style::Plain));
        }
        if self.has_keys() {
            lines.push((self.footer(), Style::Reverse));
        }
        lines.truncate(height);
        lines.into_iter().map(|(text, style)| (fit_line(&text, width), style)).collect()
    }

    fn rows(&mut self, columns: &[Column], room: usize, lines: &mut Vec<Line>) {
        let at = self.at();
        self.top = self.top.min(at).max((at + 1).saturating_sub(room.max(1)));
        self.top = self.top.min(self.shown.len().saturating_sub(room));
        for (place, it) in self.shown.iter().enumerate().skip(self.top).take(room) {
            let style = match it.waits() {
                _ if place == at => Style::Reverse,
                Waits::Writer | Waits::Both => Style::Stuck,
                _ => Style::Plain,
            };
            lines.push((row(columns, it, &self.view.filter), style));
        }
        if self.shown.is_empty() {
            let none = if self.view.filter.is_empty() { super::NONE } else { "nothing matches" };
            lines.push((none.to_owned(), Style::Plain));
        }
    }

    fn title(&self) -> String {
        let waits = |row: &&Row| matches!(row.waits(), Waits::Writer | Waits::Reader | Waits::Both);
        let mut title = format!(
            "weir top  {}, {} waiting",
            things(self.shown.len() as u64, "channel"),
            self.shown.iter().filter(waits).count()
        );
        if self.is_paused {
            title += "  paused";
        }
        if !self.view.filter.is_empty() {
            title += &format!("  filter: {}", self.view.filter);
        }
        let hidden = self.view.hidden(&self.seen.rows);
        if hidden > 0 {
            title += &format!("  {hidden} idle not shown");
        }
        if self.seen.left_out > 0 {
            let others = things(self.seen.left_out as u64, "process");
            title += &format!("  {others} left out: too many for a look");
        }
        if self.seen.unseen > 0 {
            title +=
                &format!("  {} of others not seen", things(self.seen.unseen as u64, "process"));
        }
        title
    }

    /// The selected row in words: who waits for whom.
    fn sentence(&self) -> String {
        match self.shown.get(self.at()) {
            Some(row) => sentence(row),
            None => String::new(),
        }
    }

    fn footer(&self) -> String {
        if let Mode::Filter(_) = self.mode {
            return format!("Filter: {}_", self.view.filter);
        }
        FOOTER.map(|(key, text)| format!("{key} {text}")).join("  ")
    }

    /// Does what a key or the mouse asks for.
    pub fn event(&mut self, event: Event) -> Action {
        match (&mut self.mode, event) {
            (_, Event::Char('\u{3}') | Event::Function(10)) => Action::Quit,
            (_, Event::Char('\u{1a}')) => Action::Stop,
            (Mode::Filter(before), event) => {
                let before = before.clone();
                self.filter_event(event, before)
            }
            (Mode::Text(_, from), event) => {
                match event {
                    // The frame goes no further than to the last line.
                    Event::Down | Event::WheelDown => *from += 1,
                    Event::Up | Event::WheelUp => *from = from.saturating_sub(1),
                    _ => self.mode = Mode::Table,
                }
                Action::None
            }
            (Mode::Table, event) => self.table_event(event),
        }
    }

    fn filter_event(&mut self, event: Event, before: String) -> Action {
        match event {
            Event::Char('\r' | '\n') => self.mode = Mode::Table,
            Event::Escape => {
                // Once to leave, and from an empty line to remove what was there.
                self.view.filter = if self.view.filter == before { String::new() } else { before };
                self.mode = Mode::Table;
            }
            Event::Char('\u{7f}' | '\u{8}') => drop(self.view.filter.pop()),
            Event::Char('\u{15}') => self.view.filter.clear(),
            Event::Char(c) if !weir_policy::text::is_unsafe_to_print(c) => self.view.filter.push(c),
            _ => {}
        }
        self.arrange();
        Action::None
    }

    fn table_event(&mut self, event: Event) -> Action {
        let (at, page) = (self.at(), self.room().max(1));
        match event {
            Event::Up | Event::Char('k') | Event::WheelUp => self.select(at.saturating_sub(1)),
            Event::Down | Event::Char('j') | Event::WheelDown => self.select(at + 1),
            Event::PageUp => self.select(at.saturating_sub(page)),
            Event::PageDown => self.select(at + page),
            Event::Home => self.select(0),
            Event::End => self.select(usize::MAX),
            Event::Click(x, y) => return self.click(x, y),
            Event::Char(key) => return self.key(key),
            Event::Function(1) => return self.key('h'),
            Event::Function(3 | 4) => return self.key('/'),
            Event::Function(6) => return self.key('s'),
            Event::Escape if !self.view.filter.is_empty() => {
                self.view.filter.clear();
                self.arrange();
            }
            _ => {}
        }
        Action::None
    }

    fn key(&mut self, key: char) -> Action {
        match key {
            'q' => return Action::Quit,
            'h' | '?' => self.show_message(HELP.to_owned()),
            '/' | '\\' => self.mode = Mode::Filter(self.view.filter.clone()),
            's' | '>' | '.' => self.sort(1),
            '<' | ',' => self.sort(-1),
            'r' | 'I' => {
                self.view.reverse = !self.view.reverse;
                self.arrange();
            }
            'a' => {
                self.view.all = !self.view.all;
                return Action::Look;
            }
            'p' | ' ' => self.is_paused = !self.is_paused,
            'w' | '\r' | '\n' => {
                let asked = self.shown.get(self.at()).and_then(Row::asked);
                return asked.map_or(Action::None, Action::Why);
            }
            _ => {}
        }
        Action::None
    }

    /// Sorts by the next of the columns on the screen, or by the one before.
    fn sort(&mut self, step: isize) {
        let mut keys: Vec<TopSort> =
            columns(self.size.0).iter().filter_map(|column| column.sort).collect();
        keys.dedup();
        let at = keys.iter().position(|key| *key == self.view.sort).unwrap_or(0);
        let next = at.checked_add_signed(step).unwrap_or(keys.len() - 1) % keys.len();
        self.view.sort = keys[next];
        self.arrange();
    }

    fn click(&mut self, x: usize, y: usize) -> Action {
        let height = self.size.1;
        if self.has_keys() && y + 1 == height {
            let mut start = 0;
            for (key, text) in FOOTER {
                let end = start + 2 + text.len();
                if (start..end).contains(&x) {
                    return self.key(key);
                }
                start = end + 2;
            }
            return Action::None;
        }
        if y == 1 {
            let columns = columns(self.size.0);
            let on = |column: &&Column| (column.start..column.start + column.width).contains(&x);
            if let Some(sort) = columns.iter().find(on).and_then(|column| column.sort) {
                // A second click turns the order round.
                self.view.reverse = self.view.sort == sort && !self.view.reverse;
                self.view.sort = sort;
                self.arrange();
            }
        } else if (2..2 + self.room()).contains(&y) && self.top + y - 2 < self.shown.len() {
            self.select(self.top + y - 2);
        }
        Action::None
    }
}

/// A row in words.
fn sentence(row: &Row) -> String {
    let names = |ends: &[super::rows::End]| {
        let names = ends.iter().map(|end| format!("{} {}", end.pid, end.command));
        names.collect::<Vec<_>>().join(", ")
    };
    let waiting = |ends: &[super::rows::End]| {
        let waits = ends.iter().filter(|end| end.waits == Some(true)).cloned();
        names(&waits.collect::<Vec<_>>())
    };
    let (writers, readers) = (names(&row.writers), names(&row.readers));
    let nobody =
        |names: &str| if names.is_empty() { String::from("nobody") } else { names.to_owned() };
    let quota = super::throttled(row).map(|said| format!("; {said}")).unwrap_or_default();
    match row.waits() {
        Waits::Writer => {
            format!("{} waits for room, for {}{quota}", waiting(&row.writers), nobody(&readers))
        }
        Waits::Reader => {
            format!("{} waits for data, for {}{quota}", waiting(&row.readers), nobody(&writers))
        }
        _ => {
            let rate = row.rate.map(|it| format!(", {}", rate(it))).unwrap_or_default();
            let name = if row.name.is_empty() { "" } else { ", " };
            format!(
                "{} {}: {writers} -> {readers}{rate}{name}{}{quota}",
                row.kind, row.inode, row.name
            )
        }
    }
}

/// Cuts a line, and fills it up so that its style reaches the edge. The columns keep their places.
fn fit_line(line: &str, width: usize) -> String {
    fill(clip(line, width), width)
}

#[cfg(test)]
mod tests;
