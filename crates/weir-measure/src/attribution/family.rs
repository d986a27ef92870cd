//! Processes that are copies of the one that started them, with it: what they did together.
//!
//! A pool of workers computes while its master waits for them. The mean of both is no state of either,
//! so each tick counts once for all of them, as it does for a stage of several processes.

use super::group::Group;
use super::process::combine;
use std::collections::BTreeMap;
use weir_doctor::state::TaskState;

/// Returns the first of those of which a group is a copy: the same command, and not by another start of
/// it.
fn first(groups: &[Group], at: usize) -> Option<usize> {
    let above = groups[at].parent.filter(|above| *above < at)?;
    let (own, theirs) = (&groups[at].root.command, &groups[above].root.command);
    let is_copy = !own.is_empty() && own == theirs;
    is_copy.then(|| first(groups, above).unwrap_or(above))
}

/// Adds a tick, before the groups themselves get it: the strongest state in each family, while any of it
/// lives.
pub fn add_tick(
    groups: &mut [Group],
    weight_ns: u64,
    state: impl Fn(&Group, usize) -> Option<(TaskState, u32)>,
) {
    let mut together: BTreeMap<usize, Option<(TaskState, u32)>> = BTreeMap::new();
    for at in 0..groups.len() {
        let Some(own) = state(&groups[at], at).filter(|_| !groups[at].ended) else { continue };
        let own = if groups[at].stopped { (TaskState::Stopped, 0) } else { own };
        let of = first(groups, at);
        groups[at].copy_of = of.map(|of| groups[of].root.pid);
        if let Some(of) = of {
            let before = groups[of].samples.clone();
            groups[of].family.get_or_insert(before);
        }
        if of.is_some() || groups[at].family.is_some() {
            combine(together.entry(of.unwrap_or(at)).or_default(), own);
        }
    }
    for (of, state) in together {
        if let (Some(family), Some((state, on_cpu))) = (&mut groups[of].family, state) {
            family.add(state, weight_ns, on_cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::Endpoints;

    fn group(pid: i32, parent: Option<usize>, command: &str) -> Group {
        let mut group = Group { parent, ..Group::new(pid, Endpoints::default(), 0) };
        group.root.command = command.to_owned();
        group
    }

    /// A pool in python that waited for two workers, one of which computed: "it waited for standard input
    /// 55 % of the time".
    #[test]
    fn one_of_the_copies_that_works_is_work_of_all() {
        let mut groups = vec![
            group(1, None, "bash x.sh"),
            group(2, Some(0), "python3 pool.py"),
            group(3, Some(1), "python3 pool.py"),
            group(4, Some(2), "python3 pool.py"),
            group(5, Some(1), "sort"),
        ];
        let tick = |groups: &mut [Group]| {
            let states = [
                TaskState::Child,
                TaskState::BlockedIn,
                TaskState::Running,
                TaskState::Lock,
                TaskState::Disk,
            ];
            add_tick(groups, 10, |_, at| Some((states[at], 1000)));
            (0..5).for_each(|at| groups[at].add_tick(Some((states[at], 1000)), 1, 0, 10));
        };
        tick(&mut groups);
        groups[2].ended = true;
        tick(&mut groups);
        let family = groups[1].family.as_ref().expect("it has copies");
        assert_eq!((family.weight_ns(TaskState::Running), family.count()), (10, 2));
        assert_eq!(groups[1].samples.weight_ns(TaskState::BlockedIn), 20, "what it did itself");
        let of: Vec<_> = groups.iter().map(|group| group.copy_of).collect();
        assert_eq!(of, [None, None, Some(2), Some(2), None]);
        assert!(groups[0].family.is_none() && groups[4].family.is_none());
    }

    /// Between its fork and its exec, what becomes another program is a copy too.
    #[test]
    fn what_was_done_before_there_was_a_copy_counts_and_another_program_is_none() {
        let mut groups = vec![group(1, None, "perl x.pl"), group(2, Some(0), "perl x.pl")];
        groups[0].samples.add(TaskState::Sleep, 30, 0);
        add_tick(&mut groups, 10, |_, _| Some((TaskState::Lock, 0)));
        groups[1].root.command = "gzip".to_owned();
        add_tick(&mut groups, 10, |_, at| (at == 1).then_some((TaskState::Running, 1000)));
        assert_eq!(groups[1].copy_of, None);
        let family = groups[0].family.as_ref().expect("it had a copy");
        assert_eq!(family.weight_ns(TaskState::Sleep), 30);
        assert_eq!((family.weight_ns(TaskState::Lock), family.count()), (10, 2));
    }
}
