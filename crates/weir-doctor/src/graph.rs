//! The graph of the processes that a run started: which of them form pipelines, which pipelines
//! are the same one again, and which line of a script started them.

use crate::ending::Ending;
use crate::programs::{runs_others, starts_anything};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

mod classes;
mod critical;
mod jobs;
mod lines;
mod shape;

pub use classes::{Class, WallSpan, classes, label};
pub use critical::{CriticalPath, Link, critical_path};
pub use jobs::{Jobs, jobs};
pub use lines::{Piece, ScriptCommand, ScriptPipeline, line_of, only_of};
pub use shape::{Shape, shape};

/// What a program reads from, or writes to, for less than this part of its life (a fourth) is asked, and
/// no stage of a pipeline with it.
const ASKS_FOR_LESS: u64 = 4;

/// A process with pipes to this many of those that it started collects what they write.
const COLLECTS: usize = 3;

/// One end of a pipe that a process had open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Which pipe it is; any number that tells two apart.
    pub pipe: usize,
    /// Whether it is the end that is written.
    pub writes: bool,
    /// Whether the pipe has a name (a FIFO), so that others may use it again later.
    pub named: bool,
}

/// One process that was seen in a run.
#[derive(Clone, Debug, Default)]
pub struct SeenProcess {
    /// The process that started it, by its position; none for the first process.
    pub parent: Option<usize>,
    /// Name of its program.
    pub program: String,
    /// Its command as it is shown.
    pub command: String,
    /// Its command as it was executed, for a comparison with the text of a script.
    pub executed: String,
    /// Whether its command is known, and not only the name of its program: it was seen for long
    /// enough to tell what it belongs to.
    pub known: bool,
    /// How long it may have lived before it was first seen, and as long after it was last seen.
    pub margin_ns: u64,
    /// When it was first seen.
    pub start_ns: u64,
    /// When it was last seen.
    pub end_ns: u64,
    /// The ends of pipes that it had open.
    pub ends: Vec<End>,
    /// Whether it may have had others: it lived too briefly for a second look.
    pub ends_doubtful: bool,
    /// Whether it is part of the machinery only: a shell that waited for its children.
    pub waits: bool,
    /// Whether it hardly did anything but wait for its input.
    pub idle: bool,
    /// Whether it mostly waited for clients to connect to it.
    pub listens: bool,
    /// The file that it writes to, if that is its own standard output.
    pub output: Option<String>,
    /// How it ended, if that is known.
    pub ending: Option<Ending>,
}

impl SeenProcess {
    fn overlaps(&self, other: &SeenProcess) -> bool {
        self.start_ns <= other.end_ns && other.start_ns <= self.end_ns
    }

    fn life_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    fn has(&self, end: End) -> bool {
        self.ends.contains(&end)
    }
}

/// Processes that pipes joined, in the order of the pipes, or a single one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Positions of the processes, writers before their readers. Shells that only waited are left
    /// out.
    pub members: Vec<usize>,
    /// Whether a pipe leads to a process that was not seen, or a process was seen too briefly to
    /// tell.
    pub partial: bool,
}

/// Finds the pipelines among the processes. Each process that did not only wait is in one of them;
/// a process that no pipe joins with others is alone.
pub fn instances(seen: &[SeenProcess]) -> Vec<Instance> {
    let mut sets = Sets((0..seen.len()).collect());
    let owned: Vec<Vec<End>> = (0..seen.len()).map(|at| own_ends(seen, at)).collect();
    let joints = joints(seen, &owned);
    for (writer, reader) in &joints {
        sets.unite(*writer, *reader);
    }
    let mut joined = alloc::vec![false; seen.len()];
    for (writer, reader) in &joints {
        (joined[*writer], joined[*reader]) = (true, true);
    }
    // What a compound command of a pipeline starts, and that has no pipe of its own, works for it.
    for at in 0..seen.len() {
        let Some(parent) = seen[at].parent.filter(|parent| *parent < at) else { continue };
        // The body of a loop has pipelines of its own; the end of a subshell's pipeline is the
        // subshell's output.
        let shell = is_fork(seen, parent);
        let shares = seen[at]
            .ends
            .iter()
            .any(|end| seen[parent].has(*end) && (!joined[at] || (end.writes && shell)));
        let within = joined[parent] || sets.of(parent) != parent;
        if (shares && within) || is_driver(seen, parent) {
            sets.unite(parent, at);
        }
    }
    collect(seen, &owned, &joints, &mut sets)
}

/// Whether the processes of a command only waited for who asks them, for nearly all of their lives: the one
/// that starts a daemon is over at once.
pub fn serve(seen: &[SeenProcess], all: &[usize]) -> bool {
    let lives_ns = |only: bool| -> u64 {
        let some = all.iter().filter(|at| !only || serves(seen, **at)).map(|at| &seen[*at]);
        some.map(|process| process.end_ns.saturating_sub(process.start_ns)).sum()
    };
    let serving_ns = lives_ns(true);
    serving_ns > 0 && serving_ns * 10 >= lives_ns(false) * 9
}

/// Whether a process only waited for what the script itself may have sent it, as a server does, and
/// `exec 3> >(logger)`: its pipe has no writer besides those above it.
fn serves(seen: &[SeenProcess], at: usize) -> bool {
    let writes = |end: &End, other: usize| {
        let theirs = End { writes: true, ..*end };
        other != at && !is_below(seen, at, other) && own_ends(seen, other).contains(&theirs)
    };
    let alone = |end: &End| !end.writes && !(0..seen.len()).any(|other| writes(end, other));
    seen[at].listens || seen[at].idle && own_ends(seen, at).iter().any(alone)
}

/// Whether a process is a part of a shell that never became another program.
fn is_fork(seen: &[SeenProcess], at: usize) -> bool {
    seen[at].waits && above(seen, at).any(|above| seen[above].executed == seen[at].executed)
}

/// Whether what a process starts is a part of its own work: a compiler's driver, xargs, a program
/// that runs another. The first process of all is the run.
fn is_driver(seen: &[SeenProcess], at: usize) -> bool {
    seen[at].parent.is_some() && !seen[at].waits && !runs_others(&seen[at].program)
}

/// Returns the ends that a process has, and that the process that started it has not.
fn own_ends(seen: &[SeenProcess], at: usize) -> Vec<End> {
    let parent = seen[at].parent.and_then(|parent| seen.get(parent));
    let inherited = |end: &End| parent.is_some_and(|parent| parent.has(*end));
    seen[at].ends.iter().copied().filter(|end| !inherited(end)).collect()
}

/// Finds the pairs of writer and reader.
fn joints(seen: &[SeenProcess], owned: &[Vec<End>]) -> Vec<(usize, usize)> {
    let mut readers: BTreeMap<usize, Vec<usize>> = Default::default();
    for (at, ends) in owned.iter().enumerate() {
        for end in ends.iter().filter(|end| !end.writes) {
            readers.entry(end.pipe).or_default().push(at);
        }
    }
    let mut joints = Vec::new();
    for (writer, ends) in owned.iter().enumerate() {
        for end in ends.iter().filter(|end| end.writes) {
            for reader in readers.get(&end.pipe).into_iter().flatten() {
                let together = !end.named || seen[writer].overlaps(&seen[*reader]);
                let apart = writer != *reader && !is_sink(seen, writer, *reader);
                if together && apart && !joints.contains(&(writer, *reader)) {
                    joints.push((writer, *reader));
                }
            }
        }
    }
    without_collectors(seen, joints)
}

/// Leaves out the pipes between a process and what it started, where there are many: it collects what
/// they write, as ninja does of each job, or hands out work to a pool, and is not a stage beside
/// all of them. Nor is a program that started another to ask it something: what it runs that
/// briefly is not a stage of its work.
fn without_collectors(
    seen: &[SeenProcess],
    mut joints: Vec<(usize, usize)>,
) -> Vec<(usize, usize)> {
    let starter = |(writer, reader): (usize, usize)| {
        let of = |starter: usize, child: usize| is_below(seen, child, starter).then_some(starter);
        of(reader, writer).or_else(|| of(writer, reader))
    };
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for at in joints.iter().filter_map(|joint| starter(*joint)) {
        *counts.entry(at).or_default() += 1;
    }
    let few = |at: usize| counts.get(&at).is_none_or(|count| *count < COLLECTS);
    let asks = |(writer, reader): (usize, usize), starter: usize| {
        let child = if starter == writer { reader } else { writer };
        seen[child].life_ns() < seen[starter].life_ns() / ASKS_FOR_LESS
    };
    joints.retain(|joint| starter(*joint).is_none_or(|at| few(at) && !asks(*joint, at)));
    joints
}

/// Whether one of two is a shell, or a tool of builds, that started the other: a script that sends all
/// its output through a process of its own (`exec > >(tee log)`) is not a stage of a pipeline.
fn is_sink(seen: &[SeenProcess], one: usize, other: usize) -> bool {
    let started = |starter: usize, child: usize| {
        starts_anything(&seen[starter].program) && is_below(seen, child, starter)
    };
    started(one, other) || started(other, one)
}

/// Whether a process was started by another, or by a process below that.
pub(crate) fn is_below(seen: &[SeenProcess], at: usize, ancestor: usize) -> bool {
    above(seen, at).any(|above| above == ancestor)
}

/// Returns the processes above one, the nearest first.
pub(crate) fn above(seen: &[SeenProcess], at: usize) -> impl Iterator<Item = usize> {
    let parent = |at: &usize| seen[*at].parent.filter(|parent| *parent < seen.len());
    core::iter::successors(parent(&at), parent).take(seen.len())
}

fn collect(
    seen: &[SeenProcess],
    owned: &[Vec<End>],
    joints: &[(usize, usize)],
    sets: &mut Sets,
) -> Vec<Instance> {
    let mut places: BTreeMap<usize, Instance> = BTreeMap::new();
    // The joints of each process, and those within each instance.
    let mut mine: Vec<Vec<usize>> = alloc::vec![Vec::new(); seen.len()];
    let mut within: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (writer, reader) in joints {
        mine[*writer].push(*reader);
        mine[*reader].push(*writer);
        within.entry(sets.of(*writer)).or_default().push((*writer, *reader));
    }
    for at in 0..seen.len() {
        let instance = places.entry(sets.of(at)).or_default();
        if !seen[at].waits {
            instance.members.push(at);
        }
        let open = |end: &End| {
            let other_end = |their: &End| their.pipe == end.pipe && their.writes != end.writes;
            !mine[at].iter().any(|other| owned[*other].iter().any(other_end))
        };
        let found = seen[at].parent.is_some();
        instance.partial |=
            found && (!seen[at].known || seen[at].ends_doubtful || owned[at].iter().any(open));
    }
    places.retain(|_, instance| !instance.members.is_empty());
    for (set, instance) in &mut places {
        let joints = within.get(set).map_or(&[][..], Vec::as_slice);
        instance.members = downstream(seen, joints, &instance.members);
    }
    let mut found: Vec<Instance> = places.into_values().collect();
    found.sort_by_key(|instance| instance.members.iter().map(|at| seen[*at].start_ns).min());
    found
}

/// Orders processes so that writers come before their readers, and else by their start.
fn downstream(seen: &[SeenProcess], joints: &[(usize, usize)], members: &[usize]) -> Vec<usize> {
    let mut left = members.to_vec();
    left.sort_by_key(|at| (seen[*at].start_ns, *at));
    // A compound command stands where its shell stands.
    let stands = |at: usize, of: usize| at == of || (seen[of].waits && is_below(seen, at, of));
    let mut order = Vec::new();
    while !left.is_empty() {
        let waits = |at: usize| {
            joints.iter().any(|(writer, reader)| {
                stands(at, *reader)
                    && left.iter().any(|other| *other != at && stands(*other, *writer))
            })
        };
        // A ring of pipes has no first process: then the earliest goes first.
        let next = left.iter().position(|at| !waits(*at)).unwrap_or(0);
        order.push(left.remove(next));
    }
    order
}

/// Disjoint sets of positions.
struct Sets(Vec<usize>);

impl Sets {
    fn of(&self, mut at: usize) -> usize {
        while self.0[at] != at {
            at = self.0[at];
        }
        at
    }

    fn unite(&mut self, one: usize, other: usize) {
        let (one, other) = (self.of(one), self.of(other));
        self.0[one.max(other)] = one.min(other);
    }
}

#[cfg(test)]
mod function_tests;
#[cfg(test)]
mod line_tests;
#[cfg(test)]
mod tests;
