//! Bands over time: the states of the stages, and the fills of the pipes. They are as wide as there is room.

use maud::{Markup, html};
use std::fmt::Write as _;
use weir_command::html::{hex, key, nothing, trim};
use weir_command::units::{bytes, capacity, percent, seconds};
use weir_doctor::facts::{Fills, History, Lane, Pipe};
use weir_doctor::graph::WallSpan;
use weir_doctor::state::TaskState;
use weir_policy::text::printable;

/// Width and height of a band in units of its drawing, which is stretched to the width of the page.
const WIDE: u64 = 1072;
const HIGH: u64 = 34;
/// Columns that are drawn; each is two units wide.
const COLUMNS: u64 = WIDE / 2;

/// States that have a colour together: from the bottom of a band to its top. The colours differ in
/// lightness too, and are distinct for people who confuse red and green (Okabe and Ito).
const KINDS: [(&str, [u8; 3], &[TaskState]); 6] = [
    ("on a CPU, or ready for one", [0x00, 0x57, 0x8a], &[TaskState::Running]),
    (
        "waits for the disk, a file, a socket or a device",
        [0xcc, 0x79, 0xa7],
        &[TaskState::Disk, TaskState::File, TaskState::Network, TaskState::Device],
    ),
    (
        "asleep, or waits for a lock or a child",
        [0x56, 0xb4, 0xe9],
        &[TaskState::Sleep, TaskState::Lock, TaskState::Child],
    ),
    ("waits for room in its output", [0xd5, 0x5e, 0x00], &[TaskState::BlockedOut]),
    ("waits for input", [0xf0, 0xd0, 0x60], &[TaskState::BlockedIn]),
    ("stopped, or not known", [0x9a, 0xa1, 0xab], &[TaskState::Stopped, TaskState::Unknown]),
];

/// The times by kind of state in one drawn column.
type Column = [u64; KINDS.len()];

/// The course of a run, over the time that it took.
pub struct Course<'a> {
    history: &'a History,
    span_ns: u64,
}

impl<'a> Course<'a> {
    /// The course of a run of this length.
    pub fn new(history: &'a History, wall_ns: u64) -> Course<'a> {
        let seen_ns = history.columns() * history.column_ns();
        Course { history, span_ns: wall_ns.max(seen_ns).max(1) }
    }

    /// The lanes that have something to show.
    pub fn lanes(&self) -> impl Iterator<Item = &'a Lane> {
        self.history.lanes.iter().filter(|lane| !lane.cells.is_empty())
    }

    /// Who held the run up when, a band for each lane, and the times below them.
    pub fn stages(&self, phases: &[(u64, u64, String)]) -> Markup {
        if self.lanes().next().is_none() {
            return nothing();
        }
        html! {
            (self.key())
            @if phases.len() > 1 { (self.phases(phases)) }
            @for lane in self.lanes() { (self.lane(lane)) }
            (self.axis())
        }
    }

    /// The key to the colours of all lanes.
    pub fn key(&self) -> Markup {
        let used = |states: &[TaskState]| self.lanes().any(|lane| time_ns(lane, states) > 0);
        let entries = KINDS
            .iter()
            .filter(|(_, _, states)| used(states))
            .map(|(name, colour, _)| (*colour, *name));
        key(entries)
    }

    /// A lane with its name.
    pub fn lane(&self, lane: &Lane) -> Markup {
        let seen_ns = lane.seen_ns().max(1);
        let shares = KINDS.iter().map(|(name, _, states)| (*name, time_ns(lane, states)));
        let said = shares.filter(|(_, ns)| *ns * 100 >= seen_ns);
        let said =
            said.map(|(name, ns)| format!("{} {name}", percent(Some(ns as f64 / seen_ns as f64))));
        let number = lane.stage.map_or_else(String::new, |stage| format!("{} ", stage + 1));
        let name = format!("{number}{}", lane.label);
        let said = format!("{name}: {}", said.collect::<Vec<_>>().join(", "));
        titled(&name, &band(&said, &states(&self.columns(lane))))
    }

    /// When a group ran, and at each moment what the busiest of its processes did.
    pub fn group(&self, title: &str, spans: &[WallSpan], lanes: &[&Lane]) -> Markup {
        let mut most: Vec<Column> = vec![Column::default(); COLUMNS as usize];
        for lane in lanes {
            for (most, column) in most.iter_mut().zip(self.columns(lane)) {
                *most = (*most).max(column);
            }
        }
        let mut ran = String::new();
        for span in spans {
            let (from, to) = (self.place(span.start_ns), self.place(span.end_ns));
            let _ = write!(ran, "M{} 0h{}v{HIGH}H{}z", from * 2, (to - from).max(1) * 2, from * 2);
        }
        band(title, &html! { path.ran d=(ran) {} (states(&most)) })
    }

    /// The fills of the pipes.
    pub fn fills(&self, pipes: &[Pipe]) -> Markup {
        let mut bands = Vec::new();
        for (fills, pipe) in self.history.fills.iter().zip(pipes) {
            let largest = fills.columns().flatten().map(|(_, most)| most).max();
            let Some(largest) = largest else { continue };
            let full = pipe.capacity_bytes.max(largest).max(1);
            let name = format!(
                "pipe {} to {}: {} is full; largest fill {}",
                pipe.from + 1,
                pipe.to + 1,
                capacity(full),
                bytes(largest)
            );
            bands.push(titled(&name, &band(&name, &self.fill(fills, full))));
        }
        html! {
            @for band in &bands { (band) }
            @if !bands.is_empty() { (self.axis()) }
        }
    }

    /// The drawn column in which a time lies.
    fn place(&self, ns: u64) -> u64 {
        (u128::from(ns.min(self.span_ns)) * u128::from(COLUMNS) / u128::from(self.span_ns)) as u64
    }

    /// The drawn columns in which a column of the history lies.
    fn drawn(&self, column: u64) -> std::ops::Range<u64> {
        let from = self.place(column * self.history.column_ns());
        let to = self.place((column + 1) * self.history.column_ns()).max(from + 1);
        from.min(COLUMNS - 1)..to.min(COLUMNS)
    }

    fn columns(&self, lane: &Lane) -> Vec<Column> {
        let mut columns = vec![Column::default(); COLUMNS as usize];
        for (column, cell) in (lane.first..).zip(&lane.cells) {
            for (state, ns) in cell.times_ns().filter(|(_, ns)| *ns > 0) {
                let kind = KINDS.iter().position(|(_, _, states)| states.contains(&state));
                for at in self.drawn(column) {
                    columns[at as usize][kind.unwrap_or(KINDS.len() - 1)] += ns;
                }
            }
        }
        columns
    }

    /// The fill of a pipe: an area for the mean, and a line for the largest.
    fn fill(&self, fills: &Fills, full: u64) -> Markup {
        let mut columns: Vec<Option<(f64, u32, u64)>> = vec![None; COLUMNS as usize];
        for (column, found) in (0..).zip(fills.columns()) {
            let Some((mean, most)) = found else { continue };
            for at in self.drawn(column) {
                let (sum, number, largest) = columns[at as usize].unwrap_or_default();
                columns[at as usize] = Some((sum + mean, number + 1, largest.max(most)));
            }
        }
        let y = |bytes: f64| HIGH as f64 * (1.0 - bytes / full as f64);
        let (mut area, mut line, mut is_open) = (String::new(), String::new(), false);
        for (at, found) in columns.iter().enumerate() {
            let (x, next) = (at * 2, at * 2 + 2);
            let Some((sum, number, most)) = found else {
                is_open = false;
                continue;
            };
            let (mean, most) = (y(sum / f64::from(*number)), y(*most as f64));
            let _ = write!(area, "M{x} {HIGH}V{mean:.1}H{next}V{HIGH}z");
            let start = if is_open { format!("V{most:.1}") } else { format!("M{x} {most:.1}") };
            let _ = write!(line, "{start}H{next}");
            is_open = true;
        }
        html! {
            path fill="#0072b2" d=(area) {}
            path fill="none" stroke="#d55e00" vector-effect="non-scaling-stroke" d=(line) {}
        }
    }

    /// Who held the run up when.
    fn phases(&self, phases: &[(u64, u64, String)]) -> Markup {
        let share = |ns: u64| 100.0 * ns.min(self.span_ns) as f64 / self.span_ns as f64;
        html! {
            div.lane {
                p { "held up by" }
                div.phases {
                    @for (start_ns, end_ns, who) in phases {
                        @let (from, to) = (share(*start_ns), share(*end_ns));
                        @let said = format!("{who}, {} to {}", seconds(*start_ns), seconds(*end_ns));
                        @let width = (to - from).max(0.1);
                        span style=(format!("left:{from:.2}%;width:{width:.2}%")) title=(printable(&said)) {
                            (printable(who))
                        }
                    }
                }
            }
        }
    }

    /// Times below the bands.
    pub fn axis(&self) -> Markup {
        let span_s = self.span_ns as f64 / 1e9;
        let step_s = step(span_s / 6.0);
        let marks = (0..).map(|mark| f64::from(mark) * step_s).take_while(|at_s| *at_s <= span_s);
        let time = |at_s: f64| match step_s < 0.01 {
            true => format!("{} ms", trim(at_s * 1e3)),
            false => format!("{} s", trim(at_s)),
        };
        html! {
            div.axis {
                @for at_s in marks {
                    @let share = at_s / span_s * 100.0;
                    // The last stands to the left of its mark.
                    @if share > 90.0 {
                        span.end style=(format!("right:{:.2}%", 100.0 - share)) { (time(at_s)) }
                    } @else {
                        span style=(format!("left:{share:.2}%")) { (time(at_s)) }
                    }
                }
            }
        }
    }
}

fn time_ns(lane: &Lane, states: &[TaskState]) -> u64 {
    let times = lane.cells.iter().flat_map(|cell| cell.times_ns());
    times.filter(|(state, _)| states.contains(state)).map(|(_, ns)| ns).sum()
}

/// A band below its name.
fn titled(name: &str, band: &Markup) -> Markup {
    html! { div.lane { p { (printable(name)) } (band) } }
}

/// A drawing as wide as the page, with words for its colours at the pointer.
fn band(said: &str, inside: &Markup) -> Markup {
    html! {
        svg.band viewBox={ "0 0 " (WIDE) " " (HIGH) } preserveAspectRatio="none" role="img"
            xmlns="http://www.w3.org/2000/svg" {
            title { (printable(said)) }
            (inside)
        }
    }
}

/// The states in each column. Neighbours that are alike are one rectangle.
fn states(columns: &[Column]) -> Markup {
    let mut paths = Vec::new();
    for (kind, (_, colour, _)) in KINDS.iter().enumerate() {
        let edges = |times: &Column| {
            let sum: u64 = times.iter().sum();
            let below: u64 = times[..kind].iter().sum();
            let edge = |ns: u64| (ns * HIGH).checked_div(sum).unwrap_or(0);
            (edge(below), edge(below + times[kind]))
        };
        let mut path = String::new();
        let mut at = 0;
        while at < columns.len() {
            let (low, high) = edges(&columns[at]);
            let mut end = at + 1;
            while end < columns.len() && edges(&columns[end]) == (low, high) {
                end += 1;
            }
            if high > low {
                let (width, height) = ((end - at) * 2, high - low);
                let _ = write!(path, "M{} {}h{width}v{height}h-{width}z", at * 2, HIGH - high);
            }
            at = end;
        }
        if !path.is_empty() {
            paths.push(html! { path fill=(hex(*colour)) d=(path) {} });
        }
    }
    html! { @for path in paths { (path) } }
}

/// The round number of 1, 2 or 5 that is at least this.
fn step(least: f64) -> f64 {
    let tenth = 10_f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|one| one * tenth)
        .find(|one| *one >= least)
        .unwrap_or(10.0 * tenth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chrome::state_name;

    #[test]
    fn every_state_has_a_colour_and_steps_are_round() {
        for state in TaskState::ALL {
            let of = KINDS.iter().filter(|(_, _, states)| states.contains(state)).count();
            assert_eq!(of, 1, "{}", state_name(*state));
        }
        assert_eq!([0.3, 2.0, 0.04, 7.0].map(step), [0.5, 2.0, 0.05, 10.0]);
    }
}
