//! The lines of scripts in sentences.

use weir_command::units::words::percent;
use weir_doctor::facts::{FoundGroup, Line, LineTime, Stage};
use weir_policy::text::printable;

/// The fewest samples that tell where a shell computes, each of about this time.
const ENOUGH_NS: u64 = 60_000_000;
/// Lines with less of a shell's own work are not named, and no more than this.
const MUCH_WORK: f64 = 0.10;
const MOST_LINES: usize = 3;

/// ` (87 % in line 2 of a.sh, in parse; 12 % in line 3 of a.sh, in format)`: where a bash computed, if that
/// was at several lines.
pub(super) fn own_lines(stage: &Stage) -> String {
    let lines = &stage.lines;
    let all_ns: u64 = lines.iter().map(|line| line.own_ns).sum();
    // Another program may have come after the bash, by exec.
    let most = all_ns * 2 >= stage.times.work_cpu_ns();
    if !most
        || all_ns < ENOUGH_NS
        || lines.iter().all(|time| time.line.line <= 1 && time.function.is_none())
    {
        return String::new();
    }
    let named = |time: &LineTime| {
        let place = match time.line.line {
            0 => String::new(),
            _ => line(&time.line),
        };
        let function = time.function.as_ref().map(|name| format!("in {name}"));
        let parts: Vec<String> =
            Some(place).filter(|place| !place.is_empty()).into_iter().chain(function).collect();
        parts.join(", ")
    };
    let share = |time: &LineTime| time.own_ns as f64 / all_ns as f64;
    let worth = lines.iter().filter(|time| share(time) >= MUCH_WORK).take(MOST_LINES);
    let said: Vec<String> =
        worth.map(|time| format!("{}: {}", named(time), percent(share(time)))).collect();
    if said.is_empty() { String::new() } else { format!(" ({})", said.join("; ")) }
}

/// `line 14 of report.sh`.
pub fn place(group: &FoundGroup) -> Option<String> {
    group.line.as_ref().map(line)
}

/// `line 14 of report.sh`.
pub(super) fn line(line: &Line) -> String {
    match line.script.as_str() {
        "" => format!("line {}", line.line),
        script => format!("line {} of {}", line.line, printable(script)),
    }
}
