//! The bars of `--live`: a row for each stage, with what it did lately, the fill of the pipe after it, and its
//! rate.
//!
//! The rows are below the cursor, which rests on an empty line above them. So what a stage prints
//! stays readable: it takes that line, and the rows are drawn anew below it.

use super::rates::{Progress, moved_bytes};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;
use weir_command::units;
use weir_command::widths::{cut, fit};
use weir_doctor::partition::Samples;
use weir_measure::attribution::{Fill, Group, Sampler};

/// The time that a bar of states is about.
const RECENT_NS: u64 = 3_000_000_000;
/// Cells of a bar of states, and of a pipe's fill.
const STATE_CELLS: usize = 16;
const FILL_CELLS: usize = 8;
/// The least width of a name.
const NAME: usize = 10;
/// What each cell means, in the order of a bar.
const STATES: [char; 5] = ['#', '~', '<', '>', '.'];
const LEGEND: &str = "# on CPU  ~ waits for a CPU  < for input  > for output  . else";

/// The bars of a job, and the counts that they need.
#[derive(Debug, Default)]
pub struct Bars {
    seen: BTreeMap<usize, VecDeque<(u64, Samples)>>,
    moved: BTreeMap<usize, Progress>,
}

/// A row in its parts.
struct Row {
    name: String,
    /// The bar of states, the fill of the pipe after it, and the rate.
    parts: [String; 3],
}

impl Bars {
    /// Returns a row for each of these stages, and a line that says what the signs mean, of at most `columns`
    /// columns. `name` returns the name of a stage that fits into a width.
    pub fn rows(
        &mut self,
        now_ns: u64,
        sampler: &Sampler,
        shown: &[usize],
        columns: usize,
        name: impl Fn(usize, &Group, usize) -> String,
    ) -> Vec<String> {
        let mut rows: Vec<Row> = Vec::new();
        for at in shown {
            let group = &sampler.population.groups[*at];
            let parts = [
                self.states(now_ns, *at, group),
                fill(group, sampler),
                self.rate(now_ns, *at, group, sampler),
            ];
            rows.push(Row { name: name(*at, group, columns), parts });
        }
        let mut lines = lay(&rows, columns);
        lines.push(cut(LEGEND, columns));
        lines
    }

    /// The bar of what a stage did in the last seconds.
    fn states(&mut self, now_ns: u64, at: usize, group: &Group) -> String {
        if group.ended {
            return String::from("ended");
        }
        let seen = self.seen.entry(at).or_default();
        seen.push_back((now_ns, group.samples.clone()));
        while seen.len() > 2 && now_ns.saturating_sub(seen[1].0) >= RECENT_NS {
            seen.pop_front();
        }
        let (then_ns, then) = &seen[0];
        let (wall_ns, samples) = match seen.len() {
            1 => (now_ns.saturating_sub(group.first_ns), group.samples.clone()),
            _ => (now_ns - then_ns, group.samples.since(then)),
        };
        let wall_ns = wall_ns.max(1);
        let times = samples.divide_wall(wall_ns);
        let known = [times.cpu_ns, times.queue_ns, times.input_ns, times.output_ns];
        let rest = wall_ns.saturating_sub(known.iter().sum());
        let shares = [known[0], known[1], known[2], known[3], rest];
        format!("[{}] {:>3} %", bar(&shares, STATE_CELLS), 100 * known[0] / wall_ns)
    }

    /// How many bytes a second pass through a stage of one process.
    fn rate(&mut self, now_ns: u64, at: usize, group: &Group, sampler: &Sampler) -> String {
        let moved = self.moved.entry(at).or_default();
        let bytes = moved_bytes(group, sampler);
        let per_s = bytes.and_then(|bytes| moved.per_s(now_ns, at as u64, bytes));
        per_s.map_or(String::new(), |per_s| format!("{}/s", units::bytes(per_s)))
    }
}

/// Divides cells among shares, so that none is off by a cell or more.
fn bar(shares: &[u64; 5], cells: usize) -> String {
    let whole = u128::from(shares.iter().sum::<u64>().max(1));
    let (mut text, mut sum, mut filled) = (String::new(), 0, 0);
    for (share, sign) in shares.iter().zip(STATES) {
        sum += u128::from(*share);
        let until = ((sum * cells as u128 + whole / 2) / whole) as usize;
        text.extend(std::iter::repeat_n(sign, until - filled));
        filled = until;
    }
    text
}

/// The fill of the pipe after a stage.
fn fill(group: &Group, sampler: &Sampler) -> String {
    let pipe = sampler.pipes.iter().find(|pipe| Some(pipe.identity) == group.root.ends.output);
    let Some(Fill { bytes, capacity_bytes, .. }) = pipe.and_then(|pipe| pipe.now) else {
        return String::new();
    };
    let whole = capacity_bytes.max(1);
    let bytes = bytes.min(whole);
    let full = ((bytes * FILL_CELLS as u64 + whole / 2) / whole) as usize;
    let bar = "=".repeat(full) + &" ".repeat(FILL_CELLS - full);
    format!("pipe [{bar}] {:>3} %", 100 * bytes / whole)
}

/// Aligns rows. The parts that do not fit are left out, the rate first; names are cut to what is left.
fn lay(rows: &[Row], columns: usize) -> Vec<String> {
    let wide = |at: usize| rows.iter().map(|row| row.parts[at].width()).max().unwrap_or(0);
    let widths = [wide(0), wide(1), wide(2)];
    let longest = rows.iter().map(|row| row.name.width()).max().unwrap_or(0);
    let least = longest.min(NAME);
    let taken = |count: usize| {
        widths[..count].iter().filter(|width| **width > 0).map(|width| width + 2).sum::<usize>()
    };
    let count = (0..=3).rev().find(|count| least + taken(*count) <= columns).unwrap_or(0);
    let name = longest.min(columns - taken(count).min(columns));
    let line = |row: &Row| {
        let mut line = fit(&row.name, name);
        for (part, width) in
            row.parts.iter().zip(widths).take(count).filter(|(_, width)| *width > 0)
        {
            let _ = write!(line, "  {part:<width$}");
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Returns what draws these lines below the cursor, and leaves the cursor where it was.
pub fn drawing(lines: &[String]) -> String {
    let mut text = String::from("\r\x1b[K");
    for line in lines {
        let _ = write!(text, "\n\r{line}\x1b[K");
    }
    let _ = write!(text, "\x1b[J\x1b[{}A\r", lines.len().max(1));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_all_its_cells_and_each_share_its_part() {
        assert_eq!(bar(&[1, 1, 1, 1, 0], 16), "####~~~~<<<<>>>>");
        assert_eq!(bar(&[97, 0, 2, 1, 0], 16), "################");
        assert_eq!(bar(&[0, 0, 0, 0, 0], 4), "");
        for shares in [[3, 5, 7, 11, 13], [0, 0, 1, 0, 99], [1, u64::MAX / 8, 1, 1, 1]] {
            assert_eq!(bar(&shares, 16).len(), 16, "{shares:?}");
        }
    }

    #[test]
    fn rows_fit_into_any_width() {
        let row = |name: &str, rate: &str| Row {
            name: name.into(),
            parts: ["[####<<<<>>>>....]  25 %".into(), "pipe [====    ]  51 %".into(), rate.into()],
        };
        let rows = [row("1 zstd -dc big.zst", "34 MB/s"), row("2 grep -c x", "")];
        let mut all = Vec::new();
        for columns in [100, 70, 60, 40, 20, 5] {
            for line in lay(&rows, columns) {
                assert!(line.width() <= columns, "{columns}: {line}");
                all.push(format!("{columns:>3} {line}"));
            }
        }
        insta::assert_snapshot!(all.join("\n"));
    }
}
