//! Parses the text of a trace.

use crate::sys::floor::{READ_CALL, WRITE_CALL};
use std::collections::BTreeMap;

/// The phases of one way, as Joy named them: wake-up, block, choice, resume.
pub const PHASES: [&str; 5] = [
    "write to waking",
    "waking to wakeup",
    "wakeup to write exit",
    "read entry to switched away",
    "switched in to read exit",
];

#[derive(Debug, Default)]
pub struct TraceContents {
    /// Ticks of the counter for each phase of each switch.
    pub ticks: [Vec<f64>; 5],
    pub events: u64,
}

/// When a process last did each thing.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    write: Option<u64>,
    waking: Option<u64>,
    wakeup: Option<u64>,
    read: Option<u64>,
    switched_in: Option<u64>,
}

/// Extracts the phases from a trace.
pub fn phases(text: &str) -> TraceContents {
    let mut seen = TraceContents::default();
    let mut last: BTreeMap<u32, Last> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((pid, at, name, rest)) = split(line) else { continue };
        seen.events += 1;
        let own = last.entry(pid).or_default();
        let mut phase = |index: usize, from: Option<u64>| {
            if let Some(from) = from {
                seen.ticks[index].push(at.saturating_sub(from) as f64);
            }
        };
        match name {
            "sys_enter" if call(rest) == Some(WRITE_CALL) => {
                *own = Last { write: Some(at), ..*own };
            }
            "sched_waking" => {
                phase(0, own.write.take());
                own.waking = Some(at);
            }
            "sched_wakeup" => {
                phase(1, own.waking.take());
                own.wakeup = Some(at);
            }
            "sys_exit" if call(rest) == Some(WRITE_CALL) => phase(2, own.wakeup.take()),
            "sys_enter" if call(rest) == Some(READ_CALL) => own.read = Some(at),
            "sched_switch" => {
                phase(3, own.read.take());
                if let Some(next) = field(rest, "next_pid=") {
                    last.entry(next).or_default().switched_in = Some(at);
                }
            }
            "sys_exit" if call(rest) == Some(READ_CALL) => phase(4, own.switched_in.take()),
            _ => {}
        }
    }
    seen
}

/// Splits "comm-PID [CPU] flags TIME: name: rest".
fn split(line: &str) -> Option<(u32, u64, &str, &str)> {
    let (task, rest) = line.split_once(" [")?;
    let pid = task.trim().rsplit('-').next()?.parse().ok()?;
    let (_, rest) = rest.split_once("] ")?;
    let (_, rest) = rest.trim_start().split_once(' ')?;
    let (at, rest) = rest.trim_start().split_once(": ")?;
    let (name, rest) = rest.split_once(": ")?;
    Some((pid, at.trim().parse().ok()?, name, rest))
}

/// Parses the number of a system call: "NR 1 (...)" or "NR 1 = ...".
fn call(rest: &str) -> Option<i64> {
    rest.strip_prefix("NR ")?.split(' ').next()?.parse().ok()
}

fn field(rest: &str, name: &str) -> Option<u32> {
    let at = rest.find(name)? + name.len();
    rest[at..].split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_taken_apart() {
        let text = format!(
            "# tracer: nop\n\
             exe-a-7   [001] ..... 1000: sys_enter: NR {WRITE_CALL} (3, 7f, 4, 0, 0, 0)\n\
             exe-a-7   [001] d..2. 1100: sched_waking: comm=exe pid=8 prio=120 target_cpu=001\n\
             exe-a-7   [001] d..2. 1250: sched_wakeup: comm=exe pid=8 prio=120 target_cpu=001\n\
             exe-a-7   [001] ..... 1300: sys_exit: NR {WRITE_CALL} = 4\n\
             exe-a-7   [001] ..... 1400: sys_enter: NR {READ_CALL} (5, 7f, 4, 0, 0, 0)\n\
             exe-a-7   [001] d..2. 1900: sched_switch: prev_comm=exe prev_pid=7 prev_prio=120 \
             prev_state=S ==> next_comm=exe next_pid=8 next_prio=120\n\
             exe-8     [001] ..... 2100: sys_exit: NR {READ_CALL} = 4\n"
        );
        let seen = phases(&text);
        let expected: [Vec<f64>; 5] =
            [vec![100.0], vec![150.0], vec![50.0], vec![500.0], vec![200.0]];
        assert_eq!((seen.ticks, seen.events), (expected, 7));
    }

    #[test]
    fn what_is_no_event_is_passed_over() {
        let seen = phases("CPU:1 [LOST 5 EVENTS]\n\nnonsense\n x-1 [0] . y: z: w\n");
        assert_eq!(seen.events, 0);
    }
}
