//! Bands over time: the states of the stages, and the fills of the pipes.

use std::fmt::Write as _;
use weir_command::html::{FULL, escape, key, scrolled, trim};
use weir_command::units::{bytes, capacity, percent, seconds};
use weir_command::widths::cut;
use weir_doctor::facts::{Fills, History, Lane, Pipe};
use weir_doctor::state::TaskState;
use weir_policy::text::printable;

/// Heights of a band, of the text above it, of the axis, and of the band of phases.
const BAND: u32 = 34;
const TITLE: u32 = 20;
const AXIS: u32 = 22;
const PHASE: u32 = 20;
/// Columns that are drawn; each is two pixels wide.
const COLUMNS: u64 = (FULL / 2) as u64;
/// Widths of the characters of a title, in pixels, about.
const CHARACTER: u32 = 7;

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

/// The bands of the stages, below the phases.
pub fn stages(history: &History, phases: &[(u64, u64, String)], wall_ns: u64) -> String {
    let lanes: Vec<&Lane> = history.lanes.iter().filter(|lane| !lane.cells.is_empty()).collect();
    if lanes.is_empty() {
        return String::new();
    }
    let span_ns = span_ns(history, wall_ns);
    let mut svg = String::new();
    let mut top = 0;
    if phases.len() > 1 {
        top += self::phases(&mut svg, phases, span_ns);
    }
    for lane in &lanes {
        let seen_ns = lane.seen_ns().max(1);
        let shares = KINDS.iter().map(|(name, _, states)| (*name, time_ns(lane, states)));
        let said = shares.filter(|(_, ns)| *ns * 100 >= seen_ns);
        let said =
            said.map(|(name, ns)| format!("{} {name}", percent(Some(ns as f64 / seen_ns as f64))));
        let number = lane.stage.map_or_else(String::new, |stage| format!("{} ", stage + 1));
        let name = format!("{number}{}", lane.label);
        title(&mut svg, top, &name);
        let said = format!("{name}: {}", said.collect::<Vec<_>>().join(", "));
        let _ = writeln!(svg, "<g><title>{}</title>", escape(&printable(&said)));
        ground(&mut svg, top + TITLE);
        band(&mut svg, history, lane, top + TITLE, span_ns);
        svg += "</g>\n";
        top += TITLE + BAND;
    }
    top = axis(&mut svg, top, span_ns);
    let used = |states: &[TaskState]| lanes.iter().any(|lane| time_ns(lane, states) > 0);
    let entries = KINDS
        .iter()
        .filter(|(_, _, states)| used(states))
        .map(|(name, colour, _)| (*colour, *name));
    key(entries) + &drawing(top, "What each stage did over time", &svg)
}

/// The bands of the pipes.
pub fn fills(history: &History, pipes: &[Pipe], wall_ns: u64) -> String {
    let span_ns = span_ns(history, wall_ns);
    let (mut svg, mut top) = (String::new(), 0);
    for (fills, pipe) in history.fills.iter().zip(pipes) {
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
        title(&mut svg, top, &name);
        ground(&mut svg, top + TITLE);
        fill(&mut svg, history, fills, full, top + TITLE, span_ns);
        top += TITLE + BAND;
    }
    if top == 0 {
        return String::new();
    }
    top = axis(&mut svg, top, span_ns);
    drawing(top, "How full the pipes were over time", &svg)
}

/// The time that a band is wide.
fn span_ns(history: &History, wall_ns: u64) -> u64 {
    wall_ns.max(history.columns() * history.column_ns()).max(1)
}

fn time_ns(lane: &Lane, states: &[TaskState]) -> u64 {
    let times = lane.cells.iter().flat_map(|cell| cell.times_ns());
    times.filter(|(state, _)| states.contains(state)).map(|(_, ns)| ns).sum()
}

fn drawing(height: u32, title: &str, inside: &str) -> String {
    scrolled(&format!(
        "<svg width=\"{FULL}\" height=\"{height}\" viewBox=\"0 0 {FULL} {height}\" role=\"img\" \
         xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>{}</title>\n{inside}</svg>",
        escape(title)
    ))
}

fn title(svg: &mut String, top: u32, text: &str) {
    let text = cut(&printable(text), (FULL / CHARACTER) as usize);
    let _ = writeln!(svg, "<text x=\"0\" y=\"{}\">{}</text>", top + TITLE - 6, escape(&text));
}

fn ground(svg: &mut String, top: u32) {
    let _ = writeln!(
        svg,
        "<rect class=\"ground\" x=\"0\" y=\"{top}\" width=\"{FULL}\" height=\"{BAND}\"/>"
    );
}

/// The drawn columns in which a column of the history lies.
fn drawn(history: &History, column: u64, span_ns: u64) -> std::ops::Range<u64> {
    let place = |ns: u64| (u128::from(ns) * u128::from(COLUMNS) / u128::from(span_ns)) as u64;
    let from = place(column * history.column_ns());
    let to = place((column + 1) * history.column_ns()).max(from + 1);
    from.min(COLUMNS - 1)..to.min(COLUMNS)
}

/// The states of a lane. Neighbours that are alike are one rectangle.
fn band(svg: &mut String, history: &History, lane: &Lane, top: u32, span_ns: u64) {
    let mut heights = vec![[0_u64; KINDS.len()]; COLUMNS as usize];
    for (column, cell) in (lane.first..).zip(&lane.cells) {
        for (state, ns) in cell.times_ns().filter(|(_, ns)| *ns > 0) {
            let kind = KINDS.iter().position(|(_, _, states)| states.contains(&state));
            for at in drawn(history, column, span_ns) {
                heights[at as usize][kind.unwrap_or(KINDS.len() - 1)] += ns;
            }
        }
    }
    for (kind, (_, [r, g, b], _)) in KINDS.iter().enumerate() {
        let edges = |times: &[u64; KINDS.len()]| {
            let sum: u64 = times.iter().sum();
            let below: u64 = times[..kind].iter().sum();
            let edge = |ns: u64| (ns * u64::from(BAND)).checked_div(sum).unwrap_or(0);
            (edge(below), edge(below + times[kind]))
        };
        let mut path = String::new();
        let mut at = 0;
        while at < heights.len() {
            let (low, high) = edges(&heights[at]);
            let mut end = at + 1;
            while end < heights.len() && edges(&heights[end]) == (low, high) {
                end += 1;
            }
            if high > low {
                let (x, y) = (at * 2, u64::from(top + BAND) - high);
                let (width, height) = ((end - at) * 2, high - low);
                let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
            }
            at = end;
        }
        if !path.is_empty() {
            let _ = writeln!(svg, "<path fill=\"#{r:02x}{g:02x}{b:02x}\" d=\"{path}\"/>");
        }
    }
}

/// The fill of a pipe: an area for the mean, and a line for the largest.
fn fill(svg: &mut String, history: &History, fills: &Fills, full: u64, top: u32, span_ns: u64) {
    let bottom = f64::from(top + BAND);
    let mut columns: Vec<Option<(f64, u32, u64)>> = vec![None; COLUMNS as usize];
    for (column, found) in (0..).zip(fills.columns()) {
        let Some((mean, most)) = found else { continue };
        for at in drawn(history, column, span_ns) {
            let (sum, number, largest) = columns[at as usize].unwrap_or_default();
            columns[at as usize] = Some((sum + mean, number + 1, largest.max(most)));
        }
    }
    let y = |bytes: f64| bottom - bytes / full as f64 * f64::from(BAND);
    let (mut area, mut line, mut is_open) = (String::new(), String::new(), false);
    for (at, found) in columns.iter().enumerate() {
        let (x, next) = (at * 2, at * 2 + 2);
        let Some((sum, number, most)) = found else {
            is_open = false;
            continue;
        };
        let (mean, most) = (y(sum / f64::from(*number)), y(*most as f64));
        let _ = write!(area, "M{x} {bottom:.0}V{mean:.1}H{next}V{bottom:.0}z");
        let start = if is_open { format!("V{most:.1}") } else { format!("M{x} {most:.1}") };
        let _ = write!(line, "{start}H{next}");
        is_open = true;
    }
    let _ = writeln!(
        svg,
        "<path fill=\"#0072b2\" d=\"{area}\"/>\n<path fill=\"none\" stroke=\"#d55e00\" \
         d=\"{line}\"/>"
    );
}

/// Who held the run up when. Returns the height.
fn phases(svg: &mut String, phases: &[(u64, u64, String)], span_ns: u64) -> u32 {
    let x = |ns: u64| (ns.min(span_ns) as f64 / span_ns as f64) * f64::from(FULL);
    let _ = writeln!(svg, "<text class=\"soft\" x=\"0\" y=\"14\">held up by</text>");
    for (start_ns, end_ns, who) in phases {
        let (from, to) = (x(*start_ns), x(*end_ns));
        let room = ((to - from) / f64::from(CHARACTER)) as usize;
        let said = format!("{who}, {} to {}", seconds(*start_ns), seconds(*end_ns));
        let _ = writeln!(
            svg,
            "<g><title>{}</title>\n<rect class=\"edge\" x=\"{:.1}\" y=\"{TITLE}\" width=\"{:.1}\" \
             height=\"{PHASE}\"/>\n<text x=\"{:.1}\" y=\"{}\">{}</text></g>",
            escape(&printable(&said)),
            from + 0.5,
            (to - from - 1.0).max(0.5),
            from + 6.0,
            TITLE + PHASE - 5,
            if room < 4 { String::new() } else { escape(&cut(&printable(who), room - 1)) }
        );
    }
    TITLE + PHASE
}

/// Times below the bands. Returns where they end.
fn axis(svg: &mut String, top: u32, span_ns: u64) -> u32 {
    let span_s = span_ns as f64 / 1e9;
    let step_s = step(span_s / 8.0);
    let mut mark = 0;
    while f64::from(mark) * step_s <= span_s {
        let at_s = f64::from(mark) * step_s;
        let x = at_s / span_s * f64::from(FULL);
        let anchor = if x > f64::from(FULL) - 30.0 { " text-anchor=\"end\"" } else { "" };
        let _ = writeln!(
            svg,
            "<path class=\"edge\" d=\"M{x:.1} {top}v6\"/>\n<text class=\"soft\" x=\"{x:.1}\" \
             y=\"{}\"{anchor}>{}</text>",
            top + AXIS - 3,
            if step_s < 0.01 {
                format!("{} ms", trim(at_s * 1e3))
            } else {
                format!("{} s", trim(at_s))
            }
        );
        mark += 1;
    }
    top + AXIS
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
