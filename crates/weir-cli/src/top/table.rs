//! Sorts, filters and lays out the rows, for any width from 20 columns on.

use super::rows::{End, Row, Waits};
use crate::args::TopSort;
use std::cmp::Ordering;
use unicode_width::UnicodeWidthStr;
use weir_command::units::{bytes, capacity};
use weir_command::widths::fit;
use weir_measure::host_pipes::{Rate, RateQuality};

/// The narrowest table.
pub const LEAST_COLUMNS: usize = 20;

/// Which rows are shown, and in which order.
#[derive(Clone, Debug)]
pub struct View {
    pub sort: TopSort,
    pub reverse: bool,
    pub filter: String,
    /// Whether pipes of one process are shown, and idle ones.
    pub all: bool,
}

/// A column on the screen: its key for sorting, where it begins and how wide it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub sort: Option<TopSort>,
    pub start: usize,
    pub width: usize,
    cell: Cell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Kind,
    Writer,
    Reader,
    Rate,
    Fill,
    Bytes,
    Waits,
    Name,
}

impl View {
    /// Returns the rows that are shown, in order.
    pub fn of(&self, rows: &[Row]) -> Vec<Row> {
        let mut shown: Vec<Row> = rows.iter().filter(|row| self.is_shown(row)).cloned().collect();
        shown.sort_by(|one, other| {
            let order = self.compare(one, other);
            let order = if self.reverse { order.reverse() } else { order };
            order.then_with(|| (one.kind, one.inode).cmp(&(other.kind, other.inode)))
        });
        shown
    }

    /// Whoever asks for a name sees idle pipes too.
    fn is_shown(&self, row: &Row) -> bool {
        match self.filter.as_str() {
            "" => self.all || !row.is_idle(),
            filter => row.contains(filter),
        }
    }

    /// Returns how many idle pipes are not shown.
    pub fn hidden(&self, rows: &[Row]) -> usize {
        let hides = self.filter.is_empty() && !self.all;
        rows.iter().filter(|row| hides && row.is_idle()).count()
    }

    fn compare(&self, one: &Row, other: &Row) -> Ordering {
        let rate = |row: &Row| row.rate.map_or(-1.0, |rate| rate.bytes_per_s);
        let share = |row: &Row| row.share().unwrap_or(-1.0);
        let first = |ends: &[End]| shown(ends, &self.filter).map_or((String::new(), 0), key);
        match self.sort {
            TopSort::Kind => one.kind.cmp(other.kind),
            TopSort::Writer => first(&one.writers).cmp(&first(&other.writers)),
            TopSort::Reader => first(&one.readers).cmp(&first(&other.readers)),
            TopSort::Rate => rate(other).total_cmp(&rate(one)),
            TopSort::Fill => share(other).total_cmp(&share(one)),
            TopSort::Waits => one.waits().cmp(&other.waits()),
        }
    }
}

/// The process of one side that is shown: one that the filter means, one that waits, or else the first.
fn shown<'e>(ends: &'e [End], filter: &str) -> Option<&'e End> {
    let is_meant = |end: &&End| !filter.is_empty() && end.contains(filter);
    let waits = || ends.iter().find(|end| end.waits == Some(true));
    ends.iter().find(is_meant).or_else(waits).or(ends.first())
}

fn key(end: &End) -> (String, i32) {
    (end.command.clone(), end.pid)
}

/// The columns that fit, from the left. Both processes always are there.
pub fn columns(width: usize) -> Vec<Column> {
    const GAP: usize = 1;
    /// Widths of the columns besides the processes, in the order in which they get room.
    const OTHERS: [(Cell, usize); 6] = [
        (Cell::Rate, 9),
        (Cell::Waits, 6),
        (Cell::Fill, 5),
        (Cell::Kind, 7),
        (Cell::Bytes, 17),
        (Cell::Name, 16),
    ];
    let width = width.max(LEAST_COLUMNS);
    let mut wanted = Vec::new();
    let mut left = width;
    for (cell, needed) in OTHERS {
        // A process needs some columns for its name, and more before figures of little weight.
        let name = match cell {
            Cell::Rate => 4,
            Cell::Waits | Cell::Fill => 9,
            _ => 13,
        };
        if left >= needed + GAP + 2 * name + GAP {
            wanted.push((cell, needed));
            left -= needed + GAP;
        } else {
            break;
        }
    }
    let names = left - GAP;
    let (writer, reader) = (names.div_ceil(2).min(32), (names / 2).min(32));
    let of = |cell: Cell| match cell {
        Cell::Writer => Some(writer),
        Cell::Reader => Some(reader),
        cell => wanted.iter().find(|(it, _)| *it == cell).map(|(_, width)| *width),
    };
    let order = [
        (Cell::Kind, Some(TopSort::Kind)),
        (Cell::Writer, Some(TopSort::Writer)),
        (Cell::Reader, Some(TopSort::Reader)),
        (Cell::Rate, Some(TopSort::Rate)),
        (Cell::Fill, Some(TopSort::Fill)),
        (Cell::Bytes, Some(TopSort::Fill)),
        (Cell::Waits, Some(TopSort::Waits)),
        (Cell::Name, None),
    ];
    let mut start = 0;
    let mut columns = Vec::new();
    for (cell, sort) in order {
        let Some(width) = of(cell) else { continue };
        columns.push(Column { sort, start, width, cell });
        start += width + GAP;
    }
    // What is left over belongs to the name.
    if let Some(last) = columns.last_mut().filter(|last| last.cell == Cell::Name) {
        last.width = width.saturating_sub(last.start);
    }
    columns
}

/// The line of headings. The column that sorts is marked.
pub fn header(columns: &[Column], sort: TopSort) -> String {
    line(columns, |cell| {
        let text = match cell {
            Cell::Kind => "KIND",
            Cell::Writer => "WRITER",
            Cell::Reader => "READER",
            Cell::Rate => "RATE",
            Cell::Fill => "FILL",
            Cell::Bytes => "BYTES",
            Cell::Waits => "WAITS",
            Cell::Name => "NAME",
        };
        let sorts = columns.iter().find(|column| column.cell == cell).and_then(|it| it.sort);
        let marked = sorts == Some(sort) && cell != Cell::Bytes;
        if marked { format!("{text}*") } else { text.to_owned() }
    })
}

/// The line of a row.
pub fn row(columns: &[Column], row: &Row, filter: &str) -> String {
    let width = |cell| columns.iter().find(|column| column.cell == cell).map_or(0, |it| it.width);
    line(columns, |cell| match cell {
        Cell::Kind => row.kind.to_owned(),
        Cell::Writer => processes(&row.writers, filter, width(cell)),
        Cell::Reader => processes(&row.readers, filter, width(cell)),
        Cell::Rate => row.rate.map(rate).unwrap_or_else(|| String::from("?")),
        Cell::Fill => row.share().map_or_else(unknown, |share| format!("{:.0} %", share * 100.0)),
        Cell::Bytes => match (row.fill_bytes, row.capacity_bytes) {
            (Some(fill), Some(all)) => format!("{} of {}", bytes(fill), capacity(all)),
            (None, Some(all)) => format!("? of {}", capacity(all)),
            _ => unknown(),
        },
        Cell::Waits => match row.waits() {
            Waits::Both => "both",
            Waits::Writer => "writer",
            Waits::Reader => "reader",
            Waits::Nobody => "",
            Waits::Unknown => "?",
        }
        .to_owned(),
        Cell::Name => row.name.clone(),
    })
}

fn unknown() -> String {
    String::from("?")
}

/// A rate with a mark for a bound.
pub fn rate(rate: Rate) -> String {
    let mark = match rate.quality {
        RateQuality::AtMost if rate.bytes_per_s > 0.0 => "<",
        RateQuality::AtLeast => ">",
        _ => "",
    };
    match rate.bytes_per_s {
        0.0 if mark.is_empty() => String::from("-"),
        some => format!("{mark}{}/s", bytes(some as u64)),
    }
}

/// The processes of one side: the first, and how many more.
fn processes(ends: &[End], filter: &str, width: usize) -> String {
    /// With fewer columns a process has no room for both its id and its name.
    const BOTH: usize = 10;
    let Some(first) = shown(ends, filter) else { return String::from("-") };
    let name = match (first.pid, first.command.as_str()) {
        (0, _) => String::from("?"),
        (pid, "") => pid.to_string(),
        (_, name) if width < BOTH => name.to_owned(),
        (pid, name) => format!("{pid} {name}"),
    };
    match ends.len() {
        1 => name,
        all => {
            let more = format!(" +{}", all - 1);
            format!("{}{more}", fit(&name, width.saturating_sub(more.len())).trim_end())
        }
    }
}

/// A line of cells, each as wide as its column.
fn line(columns: &[Column], cell: impl Fn(Cell) -> String) -> String {
    let mut line = String::new();
    for column in columns {
        if column.start > 0 {
            line.push(' ');
        }
        let text = fit(&cell(column.cell), column.width);
        let is_figure = matches!(column.cell, Cell::Rate | Cell::Fill | Cell::Bytes);
        if is_figure {
            let text = text.trim_end();
            let blanks = column.width.saturating_sub(text.width());
            line.push_str(&" ".repeat(blanks));
            line.push_str(text);
        } else {
            line.push_str(&text);
        }
    }
    line
}
