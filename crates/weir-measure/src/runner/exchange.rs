//! Finds processes that can send each other something: by two pipes, or by a socket.

use super::row;
use crate::attribution::{Group, Peers};
use std::collections::{BTreeSet, HashMap};
use weir_doctor::facts::Exchange;
use weir_sys::proc::Descriptor;

/// Pairs that live together for less than this part of the run are no matter.
const LEAST: u64 = 4;

/// Returns the pairs among these processes, named by `label`, that lived together for long.
pub(super) fn exchanges(
    groups: &[&Group],
    wall_ns: u64,
    label: &dyn Fn(usize) -> String,
) -> Vec<Exchange> {
    let mut found = pairs(groups);
    found.retain(|(one, other, _)| together_ns(groups[*one], groups[*other]) >= wall_ns / LEAST);
    let of = |(one, other, by_socket): (usize, usize, bool)| {
        let both = [one, other].map(|at| row::stage(&label(at), &[groups[at]], None));
        let turns = groups[one].gone.slices.min(groups[other].gone.slices);
        let calls = groups[one].calls().min(groups[other].calls());
        let together_ns = together_ns(groups[one], groups[other]);
        Exchange { both, together_ns, turns, calls, by_socket, inside: None }
    };
    found.into_iter().map(of).collect()
}

fn together_ns(one: &Group, other: &Group) -> u64 {
    one.last_ns.min(other.last_ns).saturating_sub(one.first_ns.max(other.first_ns))
}

/// Returns the pairs, each once, with whether a socket joins them.
fn pairs(groups: &[&Group]) -> Vec<(usize, usize, bool)> {
    let mut readers: HashMap<Descriptor, Vec<usize>> = HashMap::new();
    for (at, group) in groups.iter().enumerate() {
        for pipe in ends(group, false) {
            readers.entry(pipe).or_default().push(at);
        }
    }
    let mut sends: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (at, group) in groups.iter().enumerate() {
        let to = ends(group, true).filter_map(|pipe| readers.get(&pipe)).flatten();
        sends.extend(to.filter(|to| **to != at).map(|to| (at, *to)));
    }
    let both = |(from, to): &(usize, usize)| from < to && sends.contains(&(*to, *from));
    let mut pairs: Vec<(usize, usize, bool)> =
        sends.iter().filter(|pair| both(pair)).map(|(from, to)| (*from, *to, false)).collect();
    let by_pid: HashMap<i32, usize> =
        groups.iter().enumerate().map(|(at, group)| (group.root.pid, at)).collect();
    for (at, group) in groups.iter().enumerate() {
        let peer = Peers::longest(std::iter::once(&group.peers)).and_then(|peer| peer.pid);
        let Some(other) = peer.and_then(|pid| by_pid.get(&pid).copied()) else { continue };
        if other != at {
            pairs.push((at.min(other), at.max(other), true));
        }
    }
    pairs.sort();
    pairs.dedup();
    pairs
}

/// Returns the pipes that a process reads, or writes, for itself: not those that it shares with who
/// started it.
fn ends(group: &Group, writes: bool) -> impl Iterator<Item = Descriptor> {
    let main = if writes { group.root.ends.output } else { group.root.ends.input };
    let more = group.more_ends.iter().filter(move |end| end.writes == writes && !end.shared);
    main.filter(Descriptor::is_pipe).into_iter().chain(more.map(|end| end.pipe))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::{Endpoints, MoreEnd};
    use weir_sys::proc::FileKind;

    fn pipe(inode: u64) -> Descriptor {
        Descriptor { device: 1, inode, kind: FileKind::Pipe }
    }

    fn group(root: i32, input: Option<u64>, output: Option<u64>) -> Group {
        let ends = Endpoints { input: input.map(pipe), output: output.map(pipe) };
        Group { last_ns: 100, ..Group::new(root, ends, 0) }
    }

    #[test]
    fn two_pipes_make_a_pair_and_one_does_not() {
        let mut shell = group(1, None, None);
        let end = |inode: u64, fd: i32, writes: bool| MoreEnd {
            pipe: pipe(inode),
            fd,
            writes,
            shared: false,
        };
        shell.more_ends = vec![end(7, 63, false), end(8, 60, true)];
        let (server, cat) = (group(2, Some(8), Some(7)), group(3, Some(7), None));
        let groups = [&shell, &server, &cat];
        assert_eq!(pairs(&groups), [(0, 1, false)]);
        let found = exchanges(&groups, 200, &|at| format!("{at}"));
        assert_eq!(
            (found.len(), found[0].together_ns, found[0].both[1].label.as_str()),
            (1, 100, "1")
        );
        assert!(exchanges(&groups, 1000, &|_| String::new()).is_empty(), "too brief to matter");
    }
}
