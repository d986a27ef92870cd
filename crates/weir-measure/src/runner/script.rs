//! The stages of a script that ran whole under its shell: processes found from outside.
//!
//! Every found process was a group of its own. Policy puts them into pipelines (`found`); shells that
//! only waited for their children are left out. All figures are those last seen while a process
//! lived, so all are sampled.

use super::found::{Processes, shell_of};
use super::job::Job;
use crate::attribution::{Group, Sampler};
use std::collections::BTreeSet;
use weir_doctor::facts::{Exchange, FoundGroup, Pipe, Run};
use weir_doctor::graph::Shape;
use weir_doctor::groups::COPY;
use weir_doctor::programs::is_shell;

/// Most stages shown; the groups that ran longest are kept.
const MOST_STAGES: usize = 24;
/// The name shown for a process of which nothing is visible.
const UNSEEN: &str = "(a hidden process)";
/// A shell is shown if it worked, read or wrote for at least this share of the run.
const SHELL_SHARE: f64 = 0.02;
/// Least time for a shell that is not the script itself: on a busy host a few samples that found it
/// ready to run exceed a share of a short run.
const SHELL_NS: u64 = 30_000_000;

/// Sets the groups, stages and pipes of a script's run.
pub(super) fn fill(run: &mut Run, sampler: &Sampler, limit_bytes: u64, job: &Job) {
    let shell = job.shell.file_name().unwrap_or_default().to_string_lossy();
    let labels = labels(&sampler.population.groups, run.wall_ns, &shell);
    let processes = Processes::new(sampler, None, &|at| labels[at].clone(), job);
    let classes = processes.classes(run);
    run.failed = processes.failed(&classes, run, job.text(0));
    run.has_all = sampler.has_all();
    run.jobs = processes.jobs();
    let mut groups = processes.groups(&classes, run, sampler, limit_bytes);
    let left_out = keep_longest(&mut groups);
    if left_out > 0 {
        run.notes.push(format!("{left_out} shorter-lived commands are not shown"));
    }
    for mut group in groups {
        let first = run.stages.len();
        group.first_stage = Some(first);
        run.stages.extend(group.run.stages.iter().cloned());
        let moved = |pipe: &Pipe| Pipe { from: pipe.from + first, to: pipe.to + first, ..*pipe };
        run.pipes.extend(group.run.pipes.iter().map(moved));
        run.groups.push(group);
    }
    run.critical_path = processes.critical_path(run);
    run.shape = processes.shape();
    run.exchanges = processes.exchanges(run.wall_ns);
    run.notes.extend(processes.notes());
    let found = match sampler.has_all() {
        true => "processes counted by the kernel's events",
        false => {
            "processes found from outside (those that lived less than a few milliseconds may be missing)"
        }
    };
    run.notes.push(match job.whole_because.as_str() {
        "" => found.to_owned(),
        why => format!("{why}: it ran whole under the shell, its {found}"),
    });
}

/// Sets the groups that were found inside of a pipeline's stages.
pub(super) fn add_inner_groups(run: &mut Run, sampler: &Sampler, limit_bytes: u64, job: &Job) {
    let shell = job.shell.file_name().unwrap_or_default().to_string_lossy();
    let labels = labels(&sampler.population.rows.groups, run.wall_ns, &shell);
    for stage in 0..run.stages.len() {
        let processes = Processes::new(sampler, Some(stage), &|at| labels[at].clone(), job);
        if processes.are_none() {
            continue;
        }
        let inside = Some(stage).filter(|_| run.stages.len() > 1);
        let found = processes.exchanges(run.wall_ns).into_iter();
        run.exchanges.extend(found.map(|exchange| Exchange { inside, ..exchange }));
        let span_ns = |shape: &Shape| shape.span_ns;
        run.shape = run.shape.take().into_iter().chain(processes.shape()).max_by_key(span_ns);
        let classes = processes.classes(run);
        if run.stages.len() == 1 {
            run.failed = processes.failed(&classes, run, job.text(0));
            run.has_all = sampler.has_all();
            run.jobs = processes.jobs();
        }
        let mut groups = processes.groups(&classes, run, sampler, limit_bytes);
        let left_out = keep_longest(&mut groups);
        if left_out > 0 {
            let of = format!("inside stage {}", stage + 1);
            run.notes.push(format!("{left_out} shorter-lived commands {of} are not shown"));
        }
        run.groups
            .extend(groups.into_iter().map(|group| FoundGroup { inside: Some(stage), ..group }));
        if run.stages.len() == 1 {
            run.critical_path = processes.critical_path(run);
        }
    }
}

/// Keeps the groups that ran longest, up to some stages together. Returns how many commands were
/// left out.
fn keep_longest(groups: &mut Vec<FoundGroup>) -> usize {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(groups[*at].run.wall_ns));
    let (mut kept, mut stages, mut left_out) = (BTreeSet::new(), 0, 0);
    for at in order {
        let more = groups[at].run.stages.len();
        if kept.is_empty() || stages + more <= MOST_STAGES {
            kept.insert(at);
            stages += more;
        } else {
            left_out += more;
        }
    }
    let mut at = 0..;
    groups.retain(|_| at.next().is_some_and(|at| kept.contains(&at)));
    left_out
}

/// Returns the name shown for each process; none for machinery.
fn labels(groups: &[Group], wall_ns: u64, shell: &str) -> Vec<Option<String>> {
    let starters = BTreeSet::from_iter(groups.iter().filter_map(|group| group.parent));
    let of = |(position, group): (usize, &Group)| {
        // Its children may have been seen only after they had another parent.
        let with_child = waits_for_a_child(group);
        let starts = starters.contains(&position) || with_child;
        let brief = group.parent.is_some() && with_child && active_ns(group) < SHELL_NS;
        // One sample does not tell what it did beside starting others.
        let once = group.parent.is_some() && starts && group.is_brief();
        let waits = brief || once || only_waits(group, wall_ns);
        label(group, groups, (starts, waits), shell)
    };
    groups.iter().enumerate().map(of).collect()
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
    groups: &[Group],
    (starts, waits): (bool, bool),
    shell_name: &str,
) -> Option<String> {
    let shell = above(group, groups).last().unwrap_or(group);
    let parent = group.parent.map_or(shell, |parent| &groups[parent]);
    let is_given = group.parent.is_none();
    // A child of a shell before its exec still has its parent's arguments. A hidden process was
    // hidden only when it was last sampled.
    let of_parent =
        group.root.command == parent.root.command || group.root.command == parent.first.1;
    let is_same = group.root.program == shell.first.0 && of_parent;
    let is_subshell = is_same && !group.hidden;
    // It was seen before its exec, or never by name.
    let is_nameless =
        group.root.program.is_empty() || group.hidden && group.root.program == parent.root.program;
    // A fork that has not become a program yet, or that ran builtins for a moment.
    let moment = !is_given && is_subshell && active_ns(group) < SHELL_NS;
    if moment
        || !is_given
            && starts
            && waits
            && (is_shell(&group.root.program) || shell_of(group).is_some())
    {
        return None;
    }
    let name = if shell.first.0.is_empty() { shell_name } else { &shell.first.0 };
    if !is_given && !is_subshell {
        let last = match (group.root.command.as_str(), group.root.program.as_str()) {
            (command, _) if is_same || command.is_empty() && is_nameless => String::from(UNSEEN),
            ("", program) => format!("({program})"),
            (command, program) => as_typed(command, program).to_owned(),
        };
        return Some(match group.root.before.as_deref() {
            Some("") => format!("{}, at last {last}", copy_of(name)),
            Some(before) => format!("{}, at last {last}", without_directory(before)),
            None => last,
        });
    }
    if is_given && starts && !is_organizing_shell(group) {
        return Some(as_typed(&group.root.command, &group.root.program).to_owned());
    }
    let last = &group.root.program;
    // It replaced itself, mostly by its last command: that waits for no child.
    let replaced = is_given && *last != shell.first.0;
    (!waits || replaced).then(|| match is_given {
        true if replaced && group.is_what_it_wraps(&group.first.1) => {
            as_typed(&group.root.command, &group.root.program).to_owned()
        }
        true if replaced => format!("{name} (the script itself), at last {last}"),
        true => format!("{name} (the script itself)"),
        false => copy_of(name),
    })
}

/// Returns the name of a copy of a process that became no other program.
fn copy_of(name: &str) -> String {
    let what = if is_shell(name) { " (a subshell)" } else { COPY };
    format!("{name}{what}")
}

/// Whether a process is, or began as, a shell: then it is the script.
fn is_organizing_shell(group: &Group) -> bool {
    shell_of(group).is_some() || is_shell(&group.root.program) || is_shell(&group.first.0)
}

/// Returns the processes above one.
fn above<'a>(group: &'a Group, groups: &'a [Group]) -> impl Iterator<Item = &'a Group> {
    let parent = |group: &&'a Group| group.parent.and_then(|parent| groups.get(parent));
    std::iter::successors(parent(&group), parent).take(groups.len())
}

/// Returns the command of a script without its interpreter and its directory, as somebody typed it:
/// `perl /usr/bin/parallel -j2` is executed for `parallel -j2`, and has the name `parallel`.
fn as_typed<'a>(command: &'a str, program: &str) -> &'a str {
    /// The kernel cuts names.
    const LONGEST_NAME: usize = 15;
    let name = |word: &'a str| word.rsplit('/').next().unwrap_or_default();
    let is_it =
        |word: &str| word == program || program.len() == LONGEST_NAME && word.starts_with(program);
    let words = || command.split(' ');
    let first = words().next().map(name).unwrap_or_default();
    let script = words().skip(1).find(|word| !word.starts_with('-'));
    match script.filter(|word| is_it(name(word)) && word.starts_with('/')) {
        Some(word) if !is_it(first) && !is_shell(first) => {
            without_directory(command.find(word).map_or(command, |at| &command[at..]))
        }
        _ => without_directory(command),
    }
}

/// Removes the directory of a command's program, which compilers and similar tools write in full.
fn without_directory(command: &str) -> &str {
    let program = command.split(' ').next().unwrap_or_default();
    match program.rfind('/').filter(|_| program.starts_with('/')) {
        Some(slash) => &command[slash + 1..],
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_shown_without_its_interpreter() {
        let parallel = "perl /usr/bin/parallel --pipe wc -l";
        assert_eq!(as_typed(parallel, "parallel"), "parallel --pipe wc -l");
        assert_eq!(as_typed("/usr/bin/perl -w /usr/bin/c_rehash x", "c_rehash"), "c_rehash x");
        assert_eq!(as_typed(parallel, "perl"), parallel, "it was started by that name");
        assert_eq!(as_typed("sort /tmp/sort", "sort"), "sort /tmp/sort");
        assert_eq!(as_typed("/bin/bash /tmp/a.sh x", "a.sh"), "bash /tmp/a.sh x");
    }

    #[test]
    fn a_program_is_shown_without_its_directory() {
        assert_eq!(without_directory("/usr/lib/gcc/cc1 -quiet /tmp/a.c"), "cc1 -quiet /tmp/a.c");
        assert_eq!(without_directory("./report.sh /tmp/in"), "./report.sh /tmp/in");
        assert_eq!(without_directory("sed s/a/b/"), "sed s/a/b/");
        assert_eq!(without_directory(""), "");
    }
}
