//! The stages of a script that ran whole under its shell: processes found from outside.
//!
//! Every found process was a group of its own. Processes that ran the same command are merged, as a
//! loop starts one command many times; shells that only waited for their children are left out. All
//! figures are those last seen while a process lived, so all are sampled.

use super::job::Job;
use crate::attribution::{Births, Files, Group, Peers, PipeWatch, Sampler};
use crate::proc::Descriptor;
use std::collections::{BTreeMap, BTreeSet};
use weir_doctor::facts::{Evidence, Io, Run, Stage};
use weir_doctor::partition::Samples;
use weir_doctor::programs::{is_relay, is_shell};

/// Most stages shown; the longest-lived are kept.
const MOST_STAGES: usize = 24;
/// Processes seen no more often than this are merged with others of their program.
const FEW_SAMPLES: u64 = 2;
/// The name shown for a process of which nothing is visible.
const UNSEEN: &str = "(a hidden process)";
/// A shell is shown if it worked, read or wrote for at least this share of the run.
const SHELL_SHARE: f64 = 0.02;
/// Least time for a shell that is not the script itself: on a busy host a few samples that found it
/// ready to run exceed a share of a short run.
const SHELL_NS: u64 = 30_000_000;

/// Sets the stages and pipes of a script's run.
pub(super) fn fill(run: &mut Run, sampler: &Sampler, limit_bytes: u64, job: &Job) {
    let shell = job.shell.file_name().unwrap_or_default().to_string_lossy();
    let mut members = Members::new();
    let starters: BTreeSet<usize> =
        sampler.groups.iter().filter_map(|group| group.parent).collect();
    for (position, group) in sampler.groups.iter().enumerate() {
        // Its children may have been seen only after they had another parent.
        let with_child = waits_for_a_child(group);
        let starts = starters.contains(&position) || with_child;
        let brief = group.parent.is_some() && with_child && active_ns(group) < SHELL_NS;
        let waits = brief || only_waits(group, run.wall_ns);
        if let Some(label) = label(group, sampler, (starts, waits), &shell) {
            members.entry(label).or_default().push(group);
        }
    }
    let mut kept: Vec<(String, Vec<&Group>)> = fold(members, run.wall_ns).into_iter().collect();
    kept.sort_by_key(|(_, groups)| std::cmp::Reverse(alive_ns(groups)));
    if kept.len() > MOST_STAGES {
        run.notes
            .push(format!("{} shorter-lived commands are not shown", kept.len() - MOST_STAGES));
        kept.truncate(MOST_STAGES);
    }
    kept.sort_by_key(|(_, groups)| groups.iter().map(|group| group.first_ns).min());
    let joints = joints(&kept, sampler);
    let order = downstream_order(kept.len(), &joints);
    let place = |old: usize| order.iter().position(|at| *at == old).unwrap_or(old);
    let (census, once) = (sampler.census(), sampler.seen_once());
    let stage = |old: &usize| {
        let (label, groups) = &kept[*old];
        let mut stage = stage(label, groups);
        let mut births = Births::default();
        groups.iter().for_each(|group| births.merge(&group.births));
        stage.started = births.started(&stage.program, stage.wall_ns, &census, once);
        stage
    };
    run.stages = order.iter().map(stage).collect();
    for ((from, to), watches) in joints {
        let mut whole = PipeWatch::new(watches[0].identity, None);
        watches.iter().for_each(|watch| whole.totals.merge(&watch.totals));
        run.pipes.push(whole.record(place(from), place(to), limit_bytes));
    }
    run.pipes.sort_by_key(|pipe| (pipe.from, pipe.to));
    let found = "processes found from outside (those that lived less than a few milliseconds may be missing)";
    run.notes.push(match job.whole_because.as_str() {
        "" => found.to_owned(),
        why => format!("{why}: it ran whole under the shell, its {found}"),
    });
}

/// Groups by their shown name.
type Members<'a> = BTreeMap<String, Vec<&'a Group>>;

/// Merges rarely seen commands of one program: a loop that starts `basename` for each file would
/// otherwise fill the screen.
fn fold(members: Members<'_>, wall_ns: u64) -> Members<'_> {
    let is_short = |groups: &[&Group]| {
        // The script itself is never merged.
        let found = groups.iter().all(|group| group.parent.is_some());
        let samples: u64 = groups.iter().map(|group| group.samples.count()).sum();
        found && (samples <= FEW_SAMPLES || alive_ns(groups) < wall_ns / 100)
    };
    let program = |groups: &[&Group]| groups[0].program.clone();
    let mut short: BTreeMap<String, u64> = BTreeMap::new();
    for groups in members.values().filter(|groups| is_short(groups)) {
        *short.entry(program(groups)).or_default() += 1;
    }
    let mut folded = Members::new();
    for (label, groups) in members {
        let several = short.get(&program(&groups)).is_some_and(|commands| *commands > 1);
        let label = match several && is_short(&groups) {
            true => format!("{} ...", program(&groups)),
            false => label,
        };
        folded.entry(label).or_default().extend(groups);
    }
    folded
}

/// Returns the sampled time in which a process computed, wanted to, read or wrote.
fn active_ns(group: &Group) -> u64 {
    let times = group.samples.divide_wall(group.last_ns.saturating_sub(group.first_ns));
    times.cpu_ns + times.queue_ns + times.input_ns + times.output_ns
}

/// Whether a process did little more than wait for its children.
fn only_waits(group: &Group, wall_ns: u64) -> bool {
    (active_ns(group) as f64) < SHELL_SHARE * wall_ns as f64
}

/// Whether a process spent most of its life waiting for a child.
fn waits_for_a_child(group: &Group) -> bool {
    let life_ns = group.last_ns.saturating_sub(group.first_ns);
    group.samples.divide_wall(life_ns).child_ns * 2 > life_ns
}

/// Returns the name shown for a found process; `None` for a shell that only waited, such as those
/// that make starts for each line of a recipe.
fn label(
    group: &Group,
    sampler: &Sampler,
    (starts, waits): (bool, bool),
    shell_name: &str,
) -> Option<String> {
    let shell = &sampler.groups[0];
    let parent = group.parent.map_or(shell, |parent| &sampler.groups[parent]);
    let is_given = group.parent.is_none();
    // A child of a shell before its exec still has its parent's arguments. A hidden process was
    // hidden only when it was last sampled.
    let of_parent = group.command == parent.command || group.command == parent.first.1;
    let is_same = group.program == shell.first.0 && of_parent;
    let is_subshell = is_same && !group.hidden;
    if !is_given && starts && waits && is_shell(&group.program) {
        return None;
    }
    if !is_given && !is_subshell {
        return Some(match (group.command.as_str(), group.program.as_str()) {
            (command, program) if is_same || command.is_empty() && program.is_empty() => {
                String::from(UNSEEN)
            }
            ("", program) => format!("({program})"),
            (command, _) => without_directory(command).to_owned(),
        });
    }
    let name = if shell.first.0.is_empty() { shell_name } else { &shell.first.0 };
    let last = &group.program;
    // It replaced itself, mostly by its last command: that waits for no child.
    let replaced = is_given && *last != shell.first.0;
    (!waits || replaced).then(|| match is_given {
        true if replaced => format!("{name} (the script itself), at last {last}"),
        true => format!("{name} (the script itself)"),
        false => format!("{name} (a subshell)"),
    })
}

/// Removes the directory of a command's program, which compilers and similar tools write in full.
fn without_directory(command: &str) -> &str {
    let program = command.split(' ').next().unwrap_or_default();
    match program.rfind('/').filter(|_| program.starts_with('/')) {
        Some(slash) => &command[slash + 1..],
        None => command,
    }
}

/// Returns the time in which at least one of the groups was alive.
fn alive_ns(groups: &[&Group]) -> u64 {
    let mut spans: Vec<(u64, u64)> = groups.iter().map(|g| (g.first_ns, g.last_ns)).collect();
    spans.sort_unstable();
    let (mut total, mut end) = (0, 0);
    for (first, last) in spans {
        total += last.max(end) - first.max(end).min(last.max(end));
        end = end.max(last);
    }
    total
}

type Joints<'a> = BTreeMap<(usize, usize), Vec<&'a PipeWatch>>;

/// Finds the pipes that join the shown stages.
fn joints<'a>(kept: &[(String, Vec<&Group>)], sampler: &'a Sampler) -> Joints<'a> {
    let owner = |pipe: Descriptor, end: fn(&Group) -> Option<Descriptor>| {
        kept.iter().position(|(_, groups)| groups.iter().any(|group| end(group) == Some(pipe)))
    };
    let mut joints = Joints::new();
    for watch in &sampler.pipes {
        let from = owner(watch.identity, |group| group.ends.output);
        let to = owner(watch.identity, |group| group.ends.input);
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            joints.entry((from, to)).or_default().push(watch);
        }
    }
    joints
}

/// Orders positions so that writers come before their readers, else as given.
fn downstream_order(count: usize, joints: &Joints) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    while order.len() < count {
        let waits = |at: usize| {
            joints.keys().any(|(from, to)| *to == at && from != to && !order.contains(from))
        };
        let left = || (0..count).filter(|at| !order.contains(at));
        // A ring of pipes has no first stage: then the earliest remaining one goes first.
        let next = left().find(|at| !waits(*at)).or_else(|| left().next());
        order.extend(next);
    }
    order
}

fn stage(label: &str, groups: &[&Group]) -> Stage {
    let mut samples = Samples::default();
    groups.iter().for_each(|group| samples.merge(&group.samples));
    let wall_ns = alive_ns(groups);
    let (cpu_ns, queue_ns) = groups
        .iter()
        .fold((0, 0), |(cpu, queue), group| (cpu + group.gone.cpu_ns, queue + group.gone.queue_ns));
    let single_task = groups.len() == 1 && !groups[0].several();
    let mut times = if single_task {
        samples.divide_blocked(wall_ns, cpu_ns, queue_ns)
    } else {
        samples.divide_wall(wall_ns)
    };
    // Every child that was found is a group of its own.
    times.stage_child_ns = times.child_ns;
    let system_ns =
        groups.iter().map(|group| group.gone.cpu_ns / 1000 * group.system_permille).sum::<u64>();
    let io = groups.iter().filter_map(|group| group.io).reduce(Io::plus);
    Stage {
        label: label.to_owned(),
        program: groups[0].program.clone(),
        processes: groups.len() as u64,
        wall_ns,
        times,
        single_task,
        most_tasks: groups.iter().map(|group| group.most_tasks).max().unwrap_or(1),
        user_ns: cpu_ns.saturating_sub(system_ns),
        system_ns,
        queue_sum_ns: queue_ns,
        samples: samples.count(),
        cpu_evidence: Evidence::Sampled,
        io,
        bytes_evidence: if io.is_some() { Evidence::LowerBound } else { Evidence::Unknown },
        uncounted: groups.iter().any(|group| group.uncounted),
        max_rss_bytes: groups.iter().map(|group| group.peak_rss_bytes).max().filter(|b| *b > 0),
        max_rss_evidence: Evidence::Sampled,
        hidden: groups.iter().any(|group| group.hidden),
        locale: groups[0].locale.clone(),
        relay: is_relay(label),
        times_asleep: groups.iter().map(|group| group.times_asleep).sum(),
        peer: Peers::longest(groups.iter().map(|group| &group.peers)),
        files: Files::of(groups.iter().map(|group| &group.files)),
        ..Stage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::Endpoints;

    fn group(first_ns: u64, last_ns: u64) -> Group {
        Group { last_ns, ..Group::new(1, Endpoints::default(), first_ns) }
    }

    #[test]
    fn a_program_is_shown_without_its_directory() {
        assert_eq!(without_directory("/usr/lib/gcc/cc1 -quiet /tmp/a.c"), "cc1 -quiet /tmp/a.c");
        assert_eq!(without_directory("./report.sh /tmp/in"), "./report.sh /tmp/in");
        assert_eq!(without_directory("sed s/a/b/"), "sed s/a/b/");
        assert_eq!(without_directory(""), "");
    }

    #[test]
    fn times_alive_are_a_union_not_a_sum() {
        let (a, b, c) = (group(10, 30), group(20, 40), group(100, 110));
        assert_eq!(alive_ns(&[&a, &b, &c]), 40);
        assert_eq!(alive_ns(&[&b, &a]), 30);
        assert_eq!(alive_ns(&[]), 0);
    }

    #[test]
    fn short_lived_commands_of_a_program_are_shown_as_one() {
        let named = |program: &str, last_ns| Group {
            program: program.to_owned(),
            parent: Some(0),
            ..group(0, last_ns)
        };
        let (a, b, long) = (named("basename", 1), named("basename", 2), named("basename", 900));
        let once = named("seq", 1);
        let mut seen = long;
        (0..9).for_each(|_| seen.samples.add(weir_doctor::state::TaskState::Running, 100, 1000));
        let members = Members::from([
            (String::from("basename /a"), vec![&a]),
            (String::from("basename /b"), vec![&b]),
            (String::from("basename /slow"), vec![&seen]),
            (String::from("seq 9"), vec![&once]),
        ]);
        let folded = fold(members, 1000);
        let shown: Vec<(&str, usize)> =
            folded.iter().map(|(label, groups)| (label.as_str(), groups.len())).collect();
        assert_eq!(shown, [("basename ...", 2), ("basename /slow", 1), ("seq 9", 1)]);
    }

    #[test]
    fn writers_come_before_their_readers() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let watch = PipeWatch::new(Descriptor::of(&reader).expect("known"), None);
        let joints = Joints::from([((2, 0), vec![&watch]), ((0, 1), vec![&watch])]);
        assert_eq!(downstream_order(3, &joints), vec![2, 0, 1]);
        let ring = Joints::from([((0, 1), vec![&watch]), ((1, 0), vec![&watch])]);
        assert_eq!(downstream_order(2, &ring), vec![0, 1]);
    }
}
