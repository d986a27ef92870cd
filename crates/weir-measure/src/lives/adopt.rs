//! Adds what the kernel told of processes to what samples showed of them.

use super::{Life, Lives};
use crate::attribution::Group;
use std::collections::HashMap;
use weir_doctor::programs::is_posix_shell;
use weir_sys::Pid;

/// Most processes that are accounted one by one.
const MOST: usize = 20_000;
/// A sample meets a new process this late at most.
const LATE_NS: u64 = 200_000_000;
/// The name of a program that ended before anybody could read it.
const NAMELESS: &str = "too brief to be named";

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Processes that no sample had met, and that have groups now.
    pub processes: u64,
    /// Whether each process of the run has a group.
    pub all: bool,
}

impl Lives {
    /// Gives each process a group: those that were sampled get exact times, and the others groups
    /// of their own without samples. A process has no group only if the one that started it has
    /// none. The groups are in the order of their starts afterwards.
    pub fn adopt(&self, groups: &mut Vec<Group>) -> (Adopted, Vec<Option<usize>>) {
        let mut known: HashMap<Pid, Vec<usize>> = HashMap::new();
        for (at, group) in groups.iter().enumerate() {
            known.entry(group.root.pid).or_default().push(at);
        }
        let mut adopted = Adopted { processes: 0, all: self.are_complete() };
        let mut places: Vec<Option<usize>> = Vec::with_capacity(self.all.len());
        let until_ns = self.until_ns(adopted.all);
        for (life, until_ns) in self.all.iter().zip(until_ns) {
            let same = |at: &&usize| is_of(&groups[**at], life, until_ns);
            let sampled =
                known.get(&life.record.pid).and_then(|all| all.iter().find(same)).copied();
            let parent = life.parent.and_then(|parent| places[parent]);
            places.push(match (sampled, parent) {
                (Some(at), _) => {
                    refine(&mut groups[at], life);
                    let above = parent.map(|parent| groups[parent].first.clone());
                    rename(&mut groups[at], life, self.name(life), above);
                    Some(at)
                }
                (None, Some(parent)) if groups.len() < MOST => {
                    let group = self.group(life, parent, &groups[parent]);
                    groups.push(group);
                    adopted.processes += 1;
                    Some(groups.len() - 1)
                }
                _ => {
                    adopted.all = false;
                    None
                }
            });
        }
        let moved = sort(groups);
        let places = places.into_iter().map(|place| moved[place?]).collect();
        (adopted, places)
    }

    /// Returns until when the id of each life was surely no other's: until the next one of the run got
    /// it, where none was missed.
    fn until_ns(&self, complete: bool) -> Vec<u64> {
        let mut next: HashMap<Pid, u64> = HashMap::new();
        let later = |life: &Life| next.insert(life.record.pid, life.start_ns).unwrap_or(u64::MAX);
        let mut until_ns: Vec<u64> = self.all.iter().rev().map(later).collect();
        until_ns.reverse();
        until_ns.into_iter().map(|until_ns| if complete { until_ns } else { 0 }).collect()
    }

    fn group(&self, life: &Life, parent: usize, above: &Group) -> Group {
        let first = match (life.executed, self.name(life)) {
            (true, "") => (NAMELESS.to_owned(), String::new()),
            (true, name) => (name.to_owned(), life.record.command.clone()),
            // A copy of the process that started it.
            (false, _) if above.first.0.is_empty() => {
                (above.root.program.clone(), above.root.command.clone())
            }
            (false, _) => above.first.clone(),
        };
        let new = Group::new(life.record.pid, life.record.ends, life.start_ns);
        let (parent, stage) = (Some(parent), above.stage);
        let mut group = Group { parent, stage, ended: true, most_tasks: 1, ..new };
        (group.root.program, group.root.command) = first.clone();
        group.first = first;
        refine(&mut group, life);
        group
    }
}

/// Whether a group that was sampled is of this life, and not of another process with its id. Until
/// `until_ns` no other one had it: a process that has ended keeps it until somebody waits for it.
fn is_of(group: &Group, life: &Life, until_ns: u64) -> bool {
    let ended = life.end_ns.is_some_and(|end_ns| group.first_ns > end_ns + LATE_NS);
    let another = ended && group.first_ns + LATE_NS >= until_ns;
    group.first_ns + LATE_NS >= life.start_ns && !another
}

/// Corrects what a sample saw: the process before it became another program, or a copy of the one
/// `above` whose arguments were not there yet. `name` is the life's program, where it is known.
fn rename(group: &mut Group, life: &Life, name: &str, above: Option<(String, String)>) {
    let known = !life.record.command.is_empty() && life.record.command == group.root.command;
    // A sample reads a name and then arguments, and the process may become another program between
    // the two.
    let is_copy = above.as_ref().is_some_and(|(program, _)| *program == group.root.program);
    if known && !name.is_empty() && (is_copy || group.is_brief()) {
        name.clone_into(&mut group.root.program);
    }
    if known && group.is_brief() {
        group.root.ends = life.record.ends;
    }
    // Nobody looked right after it became this program: what a sample saw may be its shell's.
    group.ends_doubtful = life.executed && life.record.command.is_empty() && group.is_brief();
    // A script that a script starts has the program of its shell, and at the only look its words.
    let of_above = above.as_ref().is_some_and(|(_, command)| *command == group.root.command);
    let was_copy = of_above && group.is_brief() && is_posix_shell(name);
    let other = !name.is_empty() && !known && (group.root.program != name || was_copy);
    if life.executed && life.parent.is_some() && other {
        name.clone_into(&mut group.root.program);
        group.root.command.clone_from(&life.record.command);
        group.first = (group.root.program.clone(), group.root.command.clone());
        group.root.ends = life.record.ends;
        group.more_ends.clear();
        group.hidden = false;
    } else if !life.executed && group.root.command.is_empty() {
        let first = above.filter(|(program, _)| !program.is_empty());
        group.first = first.unwrap_or_else(|| group.first.clone());
        (group.root.program, group.root.command) = group.first.clone();
    }
}

/// Takes the exact times of a life, and what the kernel counted for it.
fn refine(group: &mut Group, life: &Life) {
    let has_ended = life.end_ns.is_some();
    group.root.became_ns = life.record.became_ns;
    group.root.ending = life.record.ending.filter(|_| has_ended).or(group.root.ending);
    if life.parent.is_none() {
        return;
    }
    (group.first_ns, group.margin_ns) = (life.start_ns, 0);
    group.last_ns = life.end_ns.unwrap_or(group.last_ns).max(life.start_ns);
    // A wrapper that becomes what it runs is that, and not what it was for a moment.
    let before = life.record.before.as_ref();
    group.root.before = before.filter(|before| !group.is_what_it_wraps(before)).cloned();
    group.root.take_events(&life.record, has_ended);
    group.gone.cpu_ns = group.gone.cpu_ns.max(life.cpu_ns);
    group.gone.queue_ns = group.gone.queue_ns.max(life.queue_ns);
}

/// Sorts groups by their starts, the first process first; returns where each went.
fn sort(groups: &mut Vec<Group>) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|at| (groups[*at].parent.is_some(), groups[*at].first_ns, *at));
    let mut moved = vec![None; groups.len()];
    for (to, from) in order.iter().enumerate() {
        moved[*from] = Some(to);
    }
    let mut old: Vec<Option<Group>> = std::mem::take(groups).into_iter().map(Some).collect();
    groups.extend(order.iter().filter_map(|from| old[*from].take()));
    for group in groups.iter_mut() {
        group.parent = group.parent.and_then(|parent| moved[parent]);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::{Endpoints, ProcessRecord};

    /// A subshell waited for `sleep`, was seen many times, and became `seq` between the two reads of
    /// a sample. It was shown as a shell that only waits, and its pipeline lost a stage: a loop of six
    /// pipelines was one of five and another one.
    #[test]
    fn a_copy_that_becomes_a_program_within_a_sample_has_that_program_s_name() {
        let bash = || Some((String::from("bash"), String::from("bash -c x")));
        let sampled = |program: &str| {
            let mut group = Group::new(7, Endpoints::default(), 5);
            (0..20).for_each(|_| group.samples.count_sample());
            group.root.program = program.to_owned();
            group.root.command = String::from("seq 1 9");
            group
        };
        let command = String::from("seq 1 9");
        let record = ProcessRecord { command, ..ProcessRecord::new(7) };
        let life = Life { record, parent: Some(0), executed: true, ..Life::default() };
        let mut group = sampled("bash");
        rename(&mut group, &life, "seq", bash());
        assert_eq!(group.root.program, "seq");
        // A program that gave itself a name keeps it.
        let mut group = sampled("counter");
        rename(&mut group, &life, "seq", bash());
        assert_eq!(group.root.program, "counter");
    }

    /// The one look at `bash lib.sh` met the copy of its shell, `bash g.sh`: a dead line of that script was
    /// named for what the other one ran, in 1 of 12 runs.
    #[test]
    fn a_script_that_a_script_starts_is_not_taken_for_the_other() {
        let above = || Some((String::from("bash"), String::from("bash g.sh")));
        let rename_as = |executed: bool, command: &str, samples: usize| {
            let mut group = Group::new(7, Endpoints::default(), 5);
            (0..samples).for_each(|_| group.samples.count_sample());
            (group.root.program, group.root.command) = above().expect("a shell");
            let record = ProcessRecord { command: command.to_owned(), ..ProcessRecord::new(7) };
            let life = Life { record, parent: Some(0), executed, ..Life::default() };
            rename(&mut group, &life, "bash", above());
            group.root.command
        };
        assert_eq!(rename_as(true, "bash lib.sh", 1), "bash lib.sh");
        assert_eq!(rename_as(true, "", 1), "", "nobody knows its words");
        assert_eq!(rename_as(false, "", 1), "bash g.sh", "a copy");
        assert_eq!(rename_as(true, "", 20), "bash g.sh", "looked at for long");
    }

    /// On a busy host a sample met a process half a second after its end, for which its shell had not
    /// waited yet. It was counted as one more: 301 of 300, and called exact.
    #[test]
    fn a_process_that_is_met_long_after_its_end_is_the_same() {
        const MS: u64 = 1_000_000;
        let group = Group::new(7, Endpoints::default(), 1000 * MS);
        let record = ProcessRecord::new(7);
        let life = Life { record, end_ns: Some(500 * MS), ..Life::default() };
        assert!(is_of(&group, &life, u64::MAX));
        assert!(!is_of(&group, &life, 990 * MS), "another one had the id by then");
        assert!(!is_of(&group, &life, 1010 * MS), "or was just being started");
        assert!(!is_of(&group, &life, 0), "some were missed");
    }

    #[test]
    fn groups_stay_with_their_parents() {
        let group = |pid, parent, first_ns| Group {
            parent,
            ..Group::new(pid, Endpoints::default(), first_ns)
        };
        let mut groups = vec![
            group(1, None, 5),
            group(9, Some(0), 50),
            group(7, Some(3), 40),
            group(8, Some(0), 3),
        ];
        assert_eq!(sort(&mut groups), [Some(0), Some(3), Some(2), Some(1)]);
        let now: Vec<(Pid, Option<usize>)> =
            groups.iter().map(|g| (g.root.pid, g.parent)).collect();
        assert_eq!(now, [(1, None), (8, Some(0)), (7, Some(1)), (9, Some(0))]);
    }
}
