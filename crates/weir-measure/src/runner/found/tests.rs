//! Groups whose number of instances is sure, and others.

use super::*;
use crate::attribution::Endpoints;

fn processes(seen: Vec<SeenProcess>) -> Processes<'static> {
    Processes {
        groups: &[],
        members: Vec::new(),
        seen,
        labels: Vec::new(),
        pipes: &[],
        scripts: Scripts::default(),
    }
}

fn process(parent: usize, program: &str, pipes: &[(usize, bool)], start_ns: u64) -> SeenProcess {
    let end = |(pipe, writes): &(usize, bool)| End { pipe: *pipe, writes: *writes, named: false };
    SeenProcess {
        parent: Some(parent),
        program: program.to_owned(),
        command: program.to_owned(),
        executed: program.to_owned(),
        known: true,
        start_ns,
        end_ns: start_ns + 50,
        ends: pipes.iter().map(end).collect(),
        ..SeenProcess::default()
    }
}

/// A loop of six `(sleep; seq) | sort`. In the first, what became `seq` was taken for a shell that
/// waits: the group of the other five was called exact.
#[test]
fn a_group_beside_another_one_that_lacks_a_row_of_it_is_not_sure() {
    let sure = |lacking: bool| {
        let first = SeenProcess { end_ns: 1000, waits: true, ..SeenProcess::default() };
        let mut seen = vec![first];
        for n in 0..6 {
            let start_ns = 100 * n as u64;
            let shell = seen.len();
            seen.push(process(0, "seq", &[(n, true)], start_ns));
            seen[shell].waits = lacking && n == 0;
            seen.push(process(shell, "sleep", &[(n, true)], start_ns));
            seen.push(process(0, "sort", &[(n, false)], start_ns));
        }
        let all = classes(&seen, &instances(&seen), &[], &|_| None, &|_| false);
        let processes = processes(seen);
        (all.len(), all.iter().any(|class| processes.is_sure(class, &all)))
    };
    assert_eq!(sure(false), (1, true));
    assert_eq!(sure(true), (2, false));
}

/// `flock 9` ended before its arguments could be read, and was counted as a second `flock lk true`.
#[test]
fn what_is_known_by_its_program_alone_makes_a_number_unsure() {
    let sure = |known: [bool; 2]| {
        let first = SeenProcess { end_ns: 1000, waits: true, ..SeenProcess::default() };
        let mut seen = vec![first];
        for (n, known) in known.into_iter().enumerate() {
            let command = if known { "flock lk true" } else { "(flock)" };
            let command = command.to_owned();
            let flock = process(0, "flock", &[], 100 * n as u64);
            seen.push(SeenProcess { known, command, ..flock });
        }
        let all = classes(&seen, &instances(&seen), &[], &|_| None, &|_| false);
        let processes = processes(seen);
        (all.len(), all.iter().all(|class| processes.is_sure(class, &all)))
    };
    assert_eq!(sure([true, true]), (1, true));
    assert_eq!(sure([false, true]), (1, false));
}

/// The output of a script in a pipe was taken for the pipe to a process that nobody saw, once the
/// script had become `sort -o FILE`: `sleep 1` was then a part of `seq 3 | sleep 1`.
#[test]
fn what_a_script_was_given_leads_to_none_of_its_own_processes() {
    let pipe = Descriptor { device: 1, inode: 2, kind: FileKind::Pipe };
    let ends = Endpoints { input: None, output: Some(pipe) };
    let mut script = Group::new(7, ends, 0);
    script.root.ends = Endpoints::default();
    let (mut child, mut numbers) = (Group::new(8, ends, 0), HashMap::new());
    child.root.command = String::from("sleep 1");
    let first = seen(&script, None, Some("sh"), &mut numbers);
    let all = [first, seen(&child, Some(0), Some("sleep 1"), &mut numbers)];
    assert!(instances(&all).iter().all(|instance| !instance.partial));
}

/// `exec 3> >(logger)` leaves descriptor 3 to each command, and `tee >(gzip)` has 63 for itself,
/// although the shell that opened it keeps it too.
#[test]
fn an_end_that_was_left_to_a_process_is_used_only_where_it_was_told_of_it() {
    let pipe = Descriptor { device: 1, inode: 2, kind: FileKind::Pipe };
    let ends = |command: &str, fd: i32, shared: bool| {
        let mut group = Group::new(7, Default::default(), 0);
        (group.root.program, group.root.command) = (String::from("tee"), command.to_owned());
        group.more_ends.push(MoreEnd { pipe, fd, writes: true, shared });
        pipe_ends(&group).count()
    };
    assert_eq!(ends("tee /dev/fd/63", 63, true), 1);
    assert_eq!(ends("tee x", 3, true), 0);
    assert_eq!(ends("tee /dev/fd/63", 3, true), 0);
    assert_eq!(ends("tee x", 3, false), 1);
}
