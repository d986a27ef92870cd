//! The line of progress: the stage that holds the job up now, its rate, and the time left.
//!
//! The most important part stands first. Where the line is too narrow, the last parts are left out.

use super::bars::Bars;
use super::inputs::{Inputs, Reading, something_gathers};
use super::rates::{Progress, moved_bytes};
use std::cmp::Reverse;
use std::path::Path;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;
use weir_command::units;
use weir_command::units::words::things;
use weir_command::widths::cut;
use weir_doctor::state::TaskState;
use weir_measure::attribution::{Group, Sampler};
use weir_sys::proc::link;

/// The widths of the longest and of the shortest name in the line, in columns.
const NAMES: [usize; 2] = [28, 14];

/// The line of progress of a job, and the counts that it needs.
#[derive(Debug, Default)]
pub struct Live {
    /// The text of each stage, as typed.
    labels: Vec<String>,
    /// The stages that could not be started, which have no group.
    failed: Vec<usize>,
    moved: Progress,
    inputs: Inputs,
    read: Progress,
    bars: Bars,
}

impl Live {
    /// Makes the line of a job with these stages.
    pub fn new(labels: Vec<String>) -> Live {
        Live { labels, ..Live::default() }
    }

    /// Notes that a stage could not be started.
    pub fn failed(&mut self, position: usize) {
        self.failed.push(position);
    }

    /// Returns the line, of at most `columns` columns.
    pub fn line(&mut self, now_ns: u64, sampler: &Sampler, columns: usize) -> String {
        let groups = &sampler.population.groups;
        let alive = || groups.iter().enumerate().filter(|(_, group)| !group.ended);
        let mut parts = vec![Part::new(0, format!("weir {}", clock(now_ns / 1_000_000_000)))];
        let Some((top, group)) = alive().max_by_key(|(at, group)| (busy(group), usize::MAX - at))
        else {
            return lay(|_| parts.clone(), columns);
        };
        let left = self.left(now_ns, sampler);
        let rate = self.rate(now_ns, top, group, sampler);
        parts.extend(group.now.and_then(describe).map(|text| Part::new(STATE, text)));
        parts.extend(left.map(|text| Part::new(LEFT, text)));
        parts.extend(rate.map(|text| Part::new(RATE, text)));
        parts.extend(pipe(top, sampler).map(|text| Part::new(PIPE, text)));
        for (at, group) in alive().filter(|(at, _)| *at != top) {
            let text = format!("{} {} %", self.name(at, group, NAMES[1]), busy(group));
            parts.push(Part::new(OTHERS + at, text));
        }
        let with_name = |columns: usize| {
            let text = format!("{} {} % busy", self.name(top, group, columns), busy(group));
            let mut parts = parts.clone();
            parts.insert(1, Part::new(0, text));
            parts
        };
        lay(with_name, columns)
    }

    /// Returns the lines of the bars: what the whole has done, a row for each stage, and what the signs mean.
    /// There are at most `rows` lines: the busiest of many stages are shown.
    pub fn bars(
        &mut self,
        now_ns: u64,
        sampler: &Sampler,
        columns: usize,
        rows: usize,
    ) -> Vec<String> {
        let groups = &sampler.population.groups;
        let mut shown: Vec<usize> = (0..groups.len()).collect();
        let is_stage = |at: &usize| groups[*at].parent.is_none() && !self.labels.is_empty();
        // Of what a script starts: not what has ended, nor who waits for a child.
        let works = |at: &usize| {
            let group = &groups[*at];
            !group.ended && group.now != Some(TaskState::Child)
        };
        shown.retain(|at| is_stage(at) || works(at));
        shown.sort_by_key(|at| Reverse(busy(&groups[*at])));
        shown.truncate(rows.saturating_sub(2));
        shown.sort();
        let mut head = format!("weir {}", clock(now_ns / 1_000_000_000));
        head.extend(self.left(now_ns, sampler).map(|text| format!("  {text}")));
        let mut bars = std::mem::take(&mut self.bars);
        let mut lines = vec![cut(&head, columns)];
        let name = |at: usize, group: &Group, columns: usize| self.name(at, group, columns);
        lines.extend(bars.rows(now_ns, sampler, &shown, columns, name));
        self.bars = bars;
        lines.truncate(rows);
        lines
    }

    /// Returns the name of a stage in the line: its text, or the arguments of a script's process.
    fn name(&self, at: usize, group: &Group, columns: usize) -> String {
        let started = (0..self.labels.len()).filter(|position| !self.failed.contains(position));
        let position = started.clone().nth(at).filter(|_| group.parent.is_none());
        match position {
            Some(position) => format!("{} {}", position + 1, cut(&self.labels[position], columns)),
            None if group.root.command.is_empty() => cut(&group.root.program, columns),
            None => cut(&group.root.command, columns),
        }
    }

    /// Returns how many bytes a second pass through a stage. `None`: it has several processes.
    fn rate(&mut self, now_ns: u64, at: usize, group: &Group, sampler: &Sampler) -> Option<String> {
        let bytes = moved_bytes(group, sampler)?;
        let per_s = self.moved.per_s(now_ns, at as u64, bytes).filter(|per_s| *per_s > 0)?;
        Some(format!("{}/s", units::bytes(per_s)))
    }

    /// Returns how much of its files the first stage that has some has read, and how long the rest takes.
    fn left(&mut self, now_ns: u64, sampler: &Sampler) -> Option<String> {
        let reading = self.inputs.read(sampler)?;
        let Reading { bytes, read_bytes, .. } = reading;
        let share = 100 * u128::from(read_bytes) / u128::from(bytes.max(1));
        let name = reading.name.as_deref().map(|name| cut(name, NAMES[1]));
        let name = name.unwrap_or_else(|| things(reading.files as u64, "file"));
        let mut text = format!("{share} % of {name}");
        let per_s = self.read.per_s(now_ns, bytes, read_bytes).filter(|per_s| *per_s > 0);
        // More may follow in a script.
        let is_end = !reading.may_follow && !self.labels.is_empty() && read_bytes < bytes;
        if let Some(per_s) = per_s.filter(|_| is_end && !something_gathers(sampler)) {
            text.push_str(&format!(", {} left", clock((bytes - read_bytes) / per_s)));
        }
        Some(text)
    }
}

/// Returns the share of the time in which a group waited for neither neighbour, in percent. A shell that waits
/// for what it started does not do the work.
fn busy(group: &Group) -> u64 {
    let alive_ns = group.last_ns.saturating_sub(group.first_ns).max(1);
    let times = group.samples.divide_wall(alive_ns);
    100 * times.busy_ns().saturating_sub(times.child_ns) / alive_ns
}

fn describe(state: TaskState) -> Option<&'static str> {
    Some(match state {
        TaskState::Running => "on CPU",
        TaskState::BlockedIn => "waits for input",
        TaskState::BlockedOut => "waits for output",
        TaskState::Disk => "waits for the disk",
        TaskState::Sleep => "sleeps",
        TaskState::Network => "waits for a socket",
        TaskState::Lock => "waits for a lock",
        TaskState::Child => "waits for a child",
        TaskState::Stopped => "stopped",
        _ => return None,
    })
}

/// Returns how full the pipe before a stage is, or else the pipe after it.
fn pipe(at: usize, sampler: &Sampler) -> Option<String> {
    let ends = sampler.population.groups[at].root.ends;
    let of = |end| sampler.pipes.iter().find(|pipe| Some(pipe.identity) == end)?.now;
    let said = |fill: weir_measure::attribution::Fill, what: &str| {
        let share = 100 * fill.bytes / fill.capacity_bytes.max(1);
        format!("{what} pipe {share} % full")
    };
    let input = of(ends.input).map(|fill| said(fill, "input"));
    input.or_else(|| of(ends.output).map(|fill| said(fill, "output")))
}

/// A part of the line. Parts of low rank get room first.
#[derive(Clone, Debug)]
struct Part {
    rank: usize,
    text: String,
}

/// The ranks of the parts. The name of the bottleneck has rank 0.
const LEFT: usize = 1;
const RATE: usize = 2;
const PIPE: usize = 3;
const STATE: usize = 4;
const OTHERS: usize = 5;

impl Part {
    fn new(rank: usize, text: impl Into<String>) -> Part {
        Part { rank, text: text.into() }
    }
}

/// Makes the line of as many parts as there is room for. A long name is cut before the time left and the rate
/// are left out.
fn lay(parts: impl Fn(usize) -> Vec<Part>, columns: usize) -> String {
    let join =
        |parts: &[Part]| parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("  ");
    for (name, needed) in NAMES.into_iter().zip([RATE, 0]) {
        let all = parts(name);
        let mut ranks: Vec<usize> = all.iter().map(|part| part.rank).collect();
        ranks.sort();
        ranks.dedup();
        let mut kept = Vec::new();
        let mut left_out = Vec::new();
        for rank in ranks {
            let with = |part: &&Part| part.rank == rank || kept.contains(&part.rank);
            let line = join(&all.iter().filter(with).cloned().collect::<Vec<_>>());
            if line.width() <= columns { kept.push(rank) } else { left_out.push(rank) }
        }
        if left_out.iter().all(|rank| *rank > needed) {
            let kept = |part: &&Part| kept.contains(&part.rank);
            return join(&all.iter().filter(kept).cloned().collect::<Vec<_>>());
        }
    }
    let parts: Vec<Part> = parts(NAMES[1]).into_iter().filter(|part| part.rank == 0).collect();
    cut(&join(&parts), columns)
}

/// Formats minutes and seconds, and hours if there are any.
fn clock(s: u64) -> String {
    let long = units::clock(Duration::from_secs(s));
    long.strip_prefix("0:").map(String::from).unwrap_or(long)
}

/// Returns whether everything that a group's processes print goes elsewhere than to a terminal.
pub fn prints_elsewhere(sampler: &Sampler, group: usize) -> bool {
    let mut pids = sampler.population.pids_of(group).peekable();
    pids.peek().is_some()
        && pids.all(|pid| link(pid, 1).is_some_and(|target| !is_terminal(&target)))
}

/// Returns whether an open file is a terminal.
pub fn is_terminal(target: &Path) -> bool {
    target.starts_with("/dev/pts")
        || target == Path::new("/dev/tty")
        || target == Path::new("/dev/console")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_most_stands_longest() {
        let parts = |name: usize| {
            let name = cut("sort -t, -k2,2n --parallel=1", name);
            vec![
                Part::new(0, "weir 00:42"),
                Part::new(0, format!("3 {name} 97 % busy")),
                Part::new(STATE, "on CPU"),
                Part::new(LEFT, "43 % of big.csv, 00:12 left"),
                Part::new(RATE, "34 MB/s"),
                Part::new(PIPE, "input pipe 95 % full"),
                Part::new(OTHERS, "1 zcat 34 %"),
                Part::new(OTHERS + 1, "2 grep 12 %"),
            ]
        };
        let mut all = Vec::new();
        for columns in [160, 130, 120, 100, 80, 60, 40, 20, 5] {
            let line = lay(parts, columns);
            assert!(line.width() <= columns, "{columns}: {line}");
            all.push(format!("{columns:>3} {line}"));
        }
        insta::assert_snapshot!(all.join("\n"));
    }
}
