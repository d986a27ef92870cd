//! The critical path: which process was waited for, one after the other, from the end of the run
//! backwards.

use super::{Instance, SeenProcess, above, instances, is_below, serves};
use crate::programs::is_organizer;
use alloc::string::String;
use alloc::vec::Vec;

/// A process that starts within this time after another's end may have waited for it.
const SLACK_NS: u64 = 50_000_000;
/// Both times are good to a tick, and a busy host delays these.
const SLACK_TICKS: u64 = 4;
/// Nor is the last end later than this part of the run before its end.
const END_SLACK: u64 = 50;
/// Links that are shorter than this share of the run are not told.
const WORTH: f64 = 0.01;
/// Processes that live for less than this part of the run are left out.
const BRIEF: u64 = 2048;
/// A shell that naps so often by turns looks for something to happen.
const NAPS: usize = 3;

/// A process that was waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Positions of the processes: more than one where the same command followed itself.
    pub processes: Vec<usize>,
    /// Its command.
    pub command: String,
    /// The file that it wrote to, where that was its own output.
    pub output: Option<String>,
    /// How long it was waited for.
    pub waited_ns: u64,
}

/// The processes that were waited for, the first one first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CriticalPath {
    /// The links that are worth a word.
    pub links: Vec<Link>,
    /// How long the run waited for all links together, as a share of its time.
    pub share: f64,
}

/// Finds the critical path of a run that lasted from `start_ns` to `end_ns`. `None` where nothing ran beside
/// something else, or where the last process that ended is not known.
///
/// From the end backwards: the process that ended last was waited for since its start, and that
/// start was the consequence of an end under the same parent. Where no sibling ended just before,
/// the parent itself was started then, and its siblings are looked at. A link of a pipeline has the
/// whole pipeline's name: who ended last in it says nothing.
pub fn critical_path(
    seen: &[SeenProcess],
    (start_ns, end_ns): (u64, u64),
    tick_ns: u64,
) -> Option<CriticalPath> {
    let slack_ns = SLACK_NS.max(SLACK_TICKS * tick_ns);
    // What is shorter is not a link, and there may be thousands of these.
    let least_ns = end_ns.saturating_sub(start_ns) / BRIEF;
    let counts = |at: &usize| seen[*at].end_ns.saturating_sub(seen[*at].start_ns) >= least_ns;
    let works: Vec<usize> = (0..seen.len()).filter(counts).filter(|at| works(seen, *at)).collect();
    if !is_parallel(seen, &works) {
        return None;
    }
    let mut path: Vec<(usize, u64)> = Vec::new();
    let mut until_ns = end_ns;
    // What ended long before the run was waited for by nobody (a job that a script left behind), or
    // something followed that was not seen.
    let end_slack_ns = slack_ns.max(end_ns.saturating_sub(start_ns) / END_SLACK);
    let mut next = last_before(seen, &works, until_ns, &|_| true)
        .filter(|at| seen[*at].end_ns + end_slack_ns >= end_ns);
    while let Some(last) = next {
        let naps_on = path.last().is_some_and(|(later, _)| is_nap(&seen[*later]));
        let awaited = if naps_on { None } else { awaited_by_naps(seen, &works, last) };
        let at = awaited.unwrap_or(last);
        let from_ns = seen[at].start_ns;
        let waited_ns = seen[at].end_ns.min(until_ns).saturating_sub(from_ns);
        path.push((at, waited_ns));
        if path.len() > seen.len() {
            break;
        }
        until_ns = from_ns;
        next = before(seen, &works, at, &path, slack_ns);
    }
    path.reverse();
    let wall_ns = end_ns.saturating_sub(start_ns).max(1) as f64;
    let total_ns: u64 = path.iter().map(|(_, waited_ns)| waited_ns).sum();
    let mut links = links(seen, &path, &instances(seen));
    links.retain(|link| link.waited_ns as f64 >= WORTH * wall_ns);
    let share = (total_ns as f64 / wall_ns).min(1.0);
    (!links.is_empty()).then_some(CriticalPath { links, share })
}

/// Whether a process works on its own, and was not started by one that does: a compiler's
/// driver counts, and the compiler that it starts does not. The first process organizes the others
/// whatever it is.
fn works(seen: &[SeenProcess], at: usize) -> bool {
    let is_first = |at: usize| seen[at].parent.is_none() && seen.len() > 1;
    let organizes = |at: usize| is_first(at) || seen[at].waits || is_organizer(&seen[at].program);
    !organizes(at) && above(seen, at).all(organizes) && !serves(seen, at)
}

fn is_nap(process: &SeenProcess) -> bool {
    process.program == "sleep"
}

/// Returns what ended during a nap that was the last of many of one shell: the shell looked for that after
/// each of them, and found it then.
fn awaited_by_naps(seen: &[SeenProcess], works: &[usize], nap: usize) -> Option<usize> {
    let siblings = works.iter().filter(|at| seen[**at].parent == seen[nap].parent);
    if !is_nap(&seen[nap]) || siblings.filter(|at| is_nap(&seen[**at])).count() < NAPS {
        return None;
    }
    let meanwhile = |at: usize| !is_nap(&seen[at]) && seen[at].end_ns >= seen[nap].start_ns;
    // It worked for longer than the shell napped at once.
    let length_ns = |at: usize| seen[at].end_ns.saturating_sub(seen[at].start_ns);
    let longer = |at: usize| length_ns(at) > length_ns(nap);
    last_before(seen, works, seen[nap].end_ns, &|at| meanwhile(at) && longer(at))
}

/// Whether two processes that no pipe joins ran at the same time.
fn is_parallel(seen: &[SeenProcess], works: &[usize]) -> bool {
    let joined = |one: &SeenProcess, other: &SeenProcess| {
        let opposite = |end: &super::End| {
            other.ends.iter().any(|their| their.pipe == end.pipe && their.writes != end.writes)
        };
        one.ends.iter().any(opposite)
    };
    let mut order = works.to_vec();
    order.sort_by_key(|at| seen[*at].start_ns);
    order.windows(2).any(|pair| {
        let (one, other) = (&seen[pair[0]], &seen[pair[1]]);
        let both_ns = one.end_ns.min(other.end_ns).saturating_sub(other.start_ns);
        both_ns > SLACK_NS && !joined(one, other)
    })
}

/// Returns the process that ended last, up to a time.
fn last_before(
    seen: &[SeenProcess],
    works: &[usize],
    until_ns: u64,
    among: &dyn Fn(usize) -> bool,
) -> Option<usize> {
    let fit = works.iter().copied().filter(|at| seen[*at].end_ns <= until_ns && among(*at));
    fit.max_by_key(|at| (seen[*at].end_ns, seen[*at].end_ns.saturating_sub(seen[*at].start_ns)))
}

/// Returns the process whose end the start of another followed.
fn before(
    seen: &[SeenProcess],
    works: &[usize],
    at: usize,
    path: &[(usize, u64)],
    slack_ns: u64,
) -> Option<usize> {
    let is_new = |other: usize| path.iter().all(|(known, _)| *known != other);
    let mut child = at;
    loop {
        let parent = above(seen, child).next()?;
        let from_ns = seen[child].start_ns;
        let is_under = |other: usize| other == parent || is_below(seen, other, parent);
        let among = |other: usize| is_new(other) && is_under(other);
        let found = last_before(seen, works, from_ns, &among);
        // After a longer pause something else was waited for, which was not seen.
        if let Some(found) = found.filter(|at| seen[*at].end_ns + slack_ns >= from_ns) {
            return Some(found);
        }
        child = parent;
    }
}

/// Returns the commands of a pipeline, without what these started themselves.
fn name(seen: &[SeenProcess], pipeline: &Instance) -> String {
    let is_member = |at: &usize| pipeline.members.contains(at);
    let typed =
        pipeline.members.iter().filter(|at| !seen[**at].parent.as_ref().is_some_and(is_member));
    typed.map(|at| seen[*at].command.as_str()).collect::<Vec<_>>().join(" | ")
}

/// Makes links, one for a command that followed itself.
pub(super) fn links(
    seen: &[SeenProcess],
    path: &[(usize, u64)],
    instances: &[Instance],
) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for (at, waited_ns) in path {
        let SeenProcess { command, output, .. } = &seen[*at];
        let pipeline = instances.iter().find(|instance| instance.members.contains(at));
        let command = &pipeline.map_or_else(|| command.clone(), |of| name(seen, of));
        // Of one too brief to be looked at, no more than its program is known.
        let is_brief = |text: &str, of: &str| {
            let name = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
            name.is_some_and(|name| of.split(' ').next() == Some(name))
        };
        let follows = |link: &&mut Link| {
            let same = link.command == *command
                || is_brief(command, &link.command)
                || is_brief(&link.command, command);
            same && link.output == *output
        };
        match links.last_mut().filter(follows) {
            Some(link) => {
                if is_brief(&link.command, command) {
                    link.command.clone_from(command);
                }
                link.processes.push(*at);
                link.waited_ns += waited_ns;
            }
            None => links.push(Link {
                processes: Vec::from([*at]),
                command: command.clone(),
                output: output.clone(),
                waited_ns: *waited_ns,
            }),
        }
    }
    links
}
