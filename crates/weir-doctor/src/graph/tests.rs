//! Processes written down by hand, and the pipelines and paths among them.

use super::*;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

const MS: u64 = 1_000_000;

pub(super) fn process(parent: Option<usize>, command: &str, ms: (u64, u64)) -> SeenProcess {
    let program = command.split(' ').next().unwrap_or_default().to_string();
    let (start_ns, end_ns) = (ms.0 * MS, ms.1 * MS);
    let (command, executed) = (command.to_string(), command.to_string());
    let waits = program == "bash";
    let known = true;
    SeenProcess {
        parent,
        program,
        command,
        executed,
        known,
        start_ns,
        end_ns,
        waits,
        ..SeenProcess::default()
    }
}

pub(super) fn reads(pipe: usize, of: SeenProcess) -> SeenProcess {
    end(pipe, false, of)
}

pub(super) fn writes(pipe: usize, of: SeenProcess) -> SeenProcess {
    end(pipe, true, of)
}

fn end(pipe: usize, writes: bool, mut of: SeenProcess) -> SeenProcess {
    of.ends.push(End { pipe, writes, named: false });
    of
}

fn members(seen: &[SeenProcess]) -> Vec<Vec<usize>> {
    instances(seen).into_iter().map(|instance| instance.members).collect()
}

pub(super) fn classed(seen: &[SeenProcess], script: &[ScriptPipeline]) -> Vec<Class> {
    let scripts = [script.to_vec()];
    let brief = |class: &Class| class.alive_ns() <= 10 * MS;
    classes(seen, &instances(seen), &scripts, &|_| Some(0), &brief)
}

/// GNU parallel asks `sh -c 'tput ...'` for the colours of the terminal; a python program reads what gzip
/// unpacks for it.
#[test]
fn what_a_program_asks_briefly_is_no_stage_before_it() {
    let helped = |until| {
        [
            process(None, "bash x.sh", (0, 1000)),
            reads(1, process(Some(0), "perl p", (1, 1000))),
            writes(1, process(Some(1), "tput sgr0", (20, until))),
        ]
    };
    assert_eq!(members(&helped(30)), [vec![1], vec![2]]);
    assert_eq!(members(&helped(900)), [vec![2, 1]]);
}

/// ninja reads what each job writes, and so does a program that nobody knows for that.
#[test]
fn who_collects_the_output_of_jobs_is_no_stage_behind_them() {
    for (runner, jobs) in [("ninja -j2", 2), ("runner", 3)] {
        let job = |at: usize| {
            let ms = (at as u64 * 300, at as u64 * 300 + 290);
            writes(at, process(Some(0), &format!("cc {at}.c"), ms))
        };
        let ends: Vec<End> =
            (1..=jobs).map(|pipe| End { pipe, writes: false, named: false }).collect();
        let mut seen = vec![SeenProcess { ends, ..process(None, runner, (0, 1200)) }];
        seen.extend((1..=jobs).map(job));
        let alone: Vec<Vec<usize>> = (0..=jobs).map(|at| vec![at]).collect();
        assert_eq!(members(&seen), alone, "{runner}");
    }
}

#[test]
fn pipelines_one_after_the_other_are_apart() {
    let seen = [
        process(None, "bash report.sh", (0, 300)),
        reads(1, process(Some(0), "sort", (1, 100))),
        writes(1, process(Some(0), "cut -f1 a", (1, 90))),
        process(Some(0), "gzip a", (101, 200)),
        writes(2, process(Some(0), "cut -f2 a", (201, 290))),
        reads(2, process(Some(0), "sort", (201, 300))),
    ];
    assert_eq!(members(&seen), [vec![2, 1], vec![3], vec![4, 5]]);
    let classes = classed(&seen, &[]);
    assert_eq!(classes.len(), 3);
    assert_eq!(classes[0].whole(), WallSpan { start_ns: MS, end_ns: 100 * MS });
}

#[test]
fn a_compound_command_stands_for_what_it_starts() {
    // { head a; tail b; } | gzip, and a loop over what cat gives with a pipeline in its body.
    let seen = [
        process(None, "bash x", (0, 300)),
        writes(1, process(Some(0), "bash x", (1, 100))),
        writes(1, process(Some(1), "head a", (1, 50))),
        writes(1, process(Some(1), "tail b", (51, 100))),
        reads(1, process(Some(0), "gzip", (1, 110))),
        writes(2, process(Some(0), "cat list", (111, 120))),
        reads(2, process(Some(0), "bash x", (111, 300))),
        writes(3, reads(2, process(Some(6), "cut -f1 a", (112, 130)))),
        reads(3, process(Some(6), "sort", (112, 140))),
    ];
    assert_eq!(members(&seen), [vec![2, 3, 4], vec![5], vec![7, 8]]);
}

#[test]
fn a_log_for_all_output_joins_nothing() {
    // exec > >(tee log): all that the script starts writes into tee's pipe.
    let seen = [
        writes(1, process(None, "bash x", (0, 300))),
        reads(1, process(Some(0), "tee log", (1, 300))),
        writes(1, process(Some(0), "sort a", (2, 100))),
        writes(1, process(Some(0), "gzip a", (101, 200))),
    ];
    assert_eq!(members(&seen), [vec![1], vec![2], vec![3]]);
    // tee >(gzip) is one pipeline, although gzip is its child.
    let seen = [
        process(None, "bash x", (0, 300)),
        writes(7, process(Some(0), "tee /dev/fd/63", (1, 100))),
        reads(7, process(Some(1), "gzip", (1, 110))),
    ];
    assert_eq!(members(&seen), [vec![1, 2]]);
}

/// `{ sleep 1; sort a | tail; } | sha1sum`, and a `sleep 2` on a line of its own, of which a pipe led
/// to what was not seen: it was counted as the pipeline once more.
#[test]
fn what_stands_on_another_line_is_no_part_of_a_pipeline() {
    let seen = [
        process(None, "bash x", (0, 3000)),
        writes(1, process(Some(0), "bash x", (1, 1000))),
        writes(1, process(Some(1), "sleep 1", (1, 900))),
        writes(2, process(Some(1), "sort a", (900, 1000))),
        writes(1, reads(2, process(Some(1), "tail", (900, 1000)))),
        reads(1, process(Some(0), "sha1sum", (1, 1010))),
        writes(9, process(Some(0), "sleep 2", (1010, 2900))),
    ];
    let text = |text: &str| ScriptCommand::Simple(vec![Piece::Text(text.to_string())]);
    let line = |line, commands| ScriptPipeline { line, commands };
    let script = [
        line(1, vec![ScriptCommand::Compound, text("sha1sum")]),
        line(1, vec![text("sleep 1")]),
        line(1, vec![text("sort a"), text("tail")]),
        line(2, vec![text("sleep 2")]),
    ];
    let sizes: Vec<usize> = classed(&seen, &script).iter().map(|class| class.rows.len()).collect();
    assert_eq!(sizes, [4, 1]);
}

#[test]
fn a_fifo_joins_only_those_that_live_at_the_same_time() {
    let fifo = |writes, of| {
        let mut of: SeenProcess = of;
        of.ends.push(End { pipe: 1, writes, named: true });
        of
    };
    let seen = [
        process(None, "bash x", (0, 300)),
        fifo(true, process(Some(0), "cut a", (1, 50))),
        fifo(false, process(Some(0), "gzip", (1, 60))),
        fifo(true, process(Some(0), "cut b", (101, 150))),
        fifo(false, process(Some(0), "gzip", (101, 160))),
    ];
    assert_eq!(members(&seen), [vec![1, 2], vec![3, 4]]);
}

/// A loop of pipelines over files, of which some were seen only in part.
pub(super) fn looped() -> Vec<SeenProcess> {
    let mut all = vec![process(None, "bash x", (0, 1000))];
    for n in 0..30 {
        let ms = (n as u64 * 10, n as u64 * 10 + 8 + n as u64 % 3);
        if n % 5 != 4 {
            all.push(writes(n, process(Some(0), &alloc::format!("cut -f1 f{n}.csv"), ms)));
        }
        all.push(reads(n, process(Some(0), "sort", ms)));
    }
    all
}

/// One `sort` was met as the copy of its shell, and one lived too briefly for its options to be read.
/// The report once showed 226 of 300 as a group of their own beside the whole 300, and the other
/// pipeline as another one.
#[test]
fn an_instance_of_a_loop_that_was_seen_badly_is_no_group_of_its_own() {
    let mut seen = vec![process(None, "bash x", (0, 1000))];
    for n in 0..30 {
        let ms = (n as u64 * 10, n as u64 * 10 + 8);
        let echo = process(Some(0), &alloc::format!("echo {n}"), ms);
        let sort = process(Some(0), "sort -n", ms);
        let (echo, mut sort) = match n {
            7..12 => (echo, reads(n, sort)),
            12 => (writes(n, echo), sort),
            _ => (writes(n, echo), reads(n, sort)),
        };
        sort.ends_doubtful = n == 12;
        if n == 20 {
            (sort.known, sort.command) = (false, "(sort)".to_string());
        }
        seen.extend([echo, sort]);
        // Where nobody could look, nothing is known of the pipes either.
        if (7..12).contains(&n) {
            seen[2 * n + 1].known = false;
            seen[2 * n + 1].command = "(echo)".to_string();
        }
    }
    let classes = classed(&seen, &[]);
    assert_eq!(classes.len(), 1, "{classes:?}");
    assert_eq!((classes[0].rows[0].len(), classes[0].rows[1].len()), (30, 30));
}

/// Each shell that xargs starts has other arguments: parts of its pipelines that were seen apart
/// stayed apart.
#[test]
fn parts_belong_together_where_each_instance_has_a_shell_of_its_own() {
    let mut seen = vec![process(None, "xargs -n1 bash -c x", (0, 1000))];
    for n in 0..30 {
        let ms = (n as u64 * 10, n as u64 * 10 + 8);
        let shell = seen.len();
        seen.push(process(Some(0), &alloc::format!("bash -c x {n}"), ms));
        let (seq, sum) = (process(Some(shell), "seq 6", ms), process(Some(shell), "sum", ms));
        let apart = n == 20;
        let mut pair = [seq, sum].map(|mut one| {
            one.known = !apart;
            one
        });
        if !apart {
            let [seq, sum] = pair;
            pair = [writes(n, seq), reads(n, sum)];
        }
        seen.extend(pair);
    }
    let classes = classed(&seen, &[]);
    let pipelines = classes.iter().filter(|class| class.rows.len() == 2).collect::<Vec<_>>();
    assert_eq!((pipelines.len(), classes.len()), (1, 2), "{classes:?}");
    assert_eq!(pipelines[0].spans.len(), 30);
}

#[test]
fn what_a_loop_runs_is_one_pipeline() {
    let seen = looped();
    let classes = classed(&seen, &[]);
    assert_eq!(classes.len(), 1, "{classes:?}");
    assert_eq!((classes[0].spans.len(), classes[0].rows.len()), (30, 2));
    assert_eq!((classes[0].rows[0].len(), classes[0].rows[1].len()), (24, 30));
    let first = classes[0].rows[0].iter().map(|at| seen[*at].command.as_str());
    assert_eq!(label(first), "cut -f1 ...");
    // They take 8, 9 and 10 ms in turn.
    assert_eq!(classes[0].alive_ns(), 270 * MS);
}

#[test]
fn two_that_differ_stay_two_and_a_single_command_is_no_part_of_a_pipeline() {
    let seen = [
        process(None, "bash x", (0, 300)),
        writes(1, process(Some(0), "grep foo a", (1, 50))),
        reads(1, process(Some(0), "sort", (1, 60))),
        writes(2, process(Some(0), "grep bar a", (61, 150))),
        reads(2, process(Some(0), "sort", (61, 160))),
        process(Some(0), "sort", (161, 200)),
    ];
    assert_eq!(classed(&seen, &[]).len(), 3);
}

#[test]
fn labels_keep_the_words_that_are_the_same() {
    assert_eq!(label(["cc -c a.c", "cc -c b.c"].into_iter()), "cc -c ...");
    assert_eq!(label(["cc -c a.c -o a.o", "cc -c b.c -o b.o"].into_iter()), "cc -c ... -o ...");
    assert_eq!(label(["gzip a", "gzip a b"].into_iter()), "gzip a ...");
    assert_eq!(label(["sort", "sort"].into_iter()), "sort");
    assert_eq!(label(core::iter::empty()), "");
}

/// `make -j2` of four files and a link: a and b start at once, c follows a, d follows b, the link
/// follows d. Each cc starts a compiler of its own.
fn build() -> Vec<SeenProcess> {
    let mut all = vec![process(None, "make -j2", (0, 1000))];
    for (name, ms) in
        [("a.c", (1, 100)), ("b.c", (1, 600)), ("c.c", (103, 200)), ("d.c", (602, 800))]
    {
        all.push(process(Some(0), &alloc::format!("cc -c {name}"), ms));
        let parent = all.len() - 1;
        all.push(process(Some(parent), "cc1", (ms.0 + 1, ms.1 - 5)));
    }
    all.push(process(Some(0), "bash -c ld", (803, 1000)));
    all.push(process(Some(9), "ld -o x", (804, 1000)));
    all
}

#[test]
fn the_critical_path_of_a_build_is_what_was_waited_for() {
    let path = critical_path(&build(), (0, 1000 * MS), MS).expect("parallel");
    let links: Vec<(&str, u64)> =
        path.links.iter().map(|link| (link.command.as_str(), link.waited_ns / MS)).collect();
    assert_eq!(links, [("cc -c b.c", 599), ("cc -c d.c", 198), ("ld -o x", 196)]);
    assert!((path.share - 0.993).abs() < 1e-9, "{}", path.share);
}

/// Sixty curls in a row were fifteen links, since some were too brief to be looked at.
#[test]
fn a_command_too_brief_to_be_looked_at_follows_its_like_on_the_path() {
    let path = [(1, MS), (2, MS), (3, MS), (4, MS)];
    let seen = [
        process(None, "bash x", (0, 100)),
        process(Some(0), "(curl)", (1, 2)),
        process(Some(0), "curl -s http://host/", (2, 3)),
        process(Some(0), "(curl)", (3, 4)),
        process(Some(0), "(curlew)", (4, 5)),
    ];
    let names = super::critical::links(&seen, &path, &[]).into_iter().map(|link| link.command);
    assert_eq!(names.collect::<Vec<_>>(), ["curl -s http://host/", "(curlew)"]);
}

/// `(burn.py 2; touch ready) & until [ -e ready ]; do sleep 0.06; done`: the path was 34 naps.
#[test]
fn a_shell_that_looks_again_and_again_waits_for_what_it_found_at_last() {
    let mut seen = vec![process(None, "bash x", (0, 2100))];
    seen.push(process(Some(0), "python3 burn.py 2", (0, 2010)));
    seen.extend((0..34).map(|n| process(Some(0), "sleep 0.06", (n * 60, n * 60 + 60))));
    let commands = |seen: &[SeenProcess]| {
        let path = critical_path(seen, (0, 2055 * MS), MS).expect("parallel");
        path.links.into_iter().map(|link| link.command).collect::<Vec<_>>()
    };
    assert_eq!(commands(&seen), ["python3 burn.py 2"]);
    seen[1].end_ns = 1480 * MS;
    assert_eq!(commands(&seen), ["sleep 0.06"], "nothing ended during the last nap");
}

#[test]
fn what_ran_one_after_the_other_has_no_critical_path() {
    let seen = [
        process(None, "bash x", (0, 300)),
        process(Some(0), "sort a", (1, 100)),
        process(Some(0), "gzip a", (101, 300)),
    ];
    assert_eq!(critical_path(&seen, (0, 300 * MS), MS), None);
    // Nor have the stages of a pipeline.
    let piped = [
        seen[0].clone(),
        writes(1, process(Some(0), "cat", (1, 300))),
        reads(1, process(Some(0), "wc", (1, 300))),
    ];
    assert_eq!(critical_path(&piped, (0, 300 * MS), MS), None);
    assert_eq!(critical_path(&[], (0, 0), MS), None);
}

#[test]
fn a_pause_that_nothing_explains_ends_the_path() {
    // Two in parallel, then a second of something that was not seen, then the link.
    let seen = [
        process(None, "python3 build.py", (0, 2000)),
        process(Some(0), "cc a", (1, 300)),
        process(Some(0), "cc b", (1, 400)),
        process(Some(0), "ld", (1400, 2000)),
    ];
    let path = critical_path(&seen, (0, 2000 * MS), MS).expect("parallel");
    assert_eq!(path.links.len(), 1, "{path:?}");
    assert_eq!((path.links[0].command.as_str(), path.share), ("ld", 0.3));
}

/// `exec 3> >(logger)`: the whole run was the logger's time, and it was the critical path. `cat | wc`
/// is no such pair, though `wc` is idle too.
#[test]
fn what_waits_for_the_script_s_own_output_is_not_waited_for() {
    let idle = |process| SeenProcess { idle: true, ..process };
    let seen = [
        writes(1, process(None, "bash x", (0, 1000))),
        idle(reads(1, process(Some(0), "logger", (1, 1000)))),
        writes(1, process(Some(0), "sort a", (1, 600))),
        writes(2, process(Some(0), "cat a", (600, 999))),
        idle(reads(2, process(Some(0), "wc", (600, 999)))),
    ];
    let serving: Vec<usize> = (0..seen.len()).filter(|at| serves(&seen, *at)).collect();
    assert_eq!(serving, [1]);
    let busy = SeenProcess { idle: false, ..seen[1].clone() };
    assert!(!serves(&[seen[0].clone(), busy.clone()], 1));
    // A server had "100 % of the time", and was the critical path.
    assert!(serves(&[seen[0].clone(), SeenProcess { listens: true, ..busy }], 1));
    assert_eq!(critical_path(&seen, (0, 1000 * MS), MS), None, "nothing else ran at once");
}

/// `redis-server --daemonize yes`, whose first process is over at once, had 100 % of a script.
#[test]
fn a_daemon_serves_though_the_process_that_started_it_does_not() {
    let server = SeenProcess { listens: true, ..process(Some(1), "redis", (20, 990)) };
    let seen = [process(None, "bash x", (0, 1000)), process(Some(0), "redis", (5, 25)), server];
    assert!(serve(&seen, &[1, 2]));
    assert!(!serve(&seen, &[1]) && !serve(&seen, &[0, 2]));
}

/// `setsid sleep 1 & exec sort`: the sleep that nobody waited for was the critical path.
#[test]
fn what_a_script_left_behind_is_not_what_the_run_waited_for() {
    let path = |ended| {
        let seen = [
            process(None, "bash x", (0, 3000)),
            process(Some(0), "gcc a", (1, 1000)),
            process(Some(0), "sleep 1", (900, ended)),
        ];
        critical_path(&seen, (0, 3000 * MS), MS).map(|path| path.links.len())
    };
    assert_eq!(path(1900), None);
    assert_eq!(path(2980), Some(1));
}

#[test]
fn a_ring_and_strange_parents_end() {
    let mut odd = vec![
        writes(1, reads(2, process(Some(1), "a", (0, 10)))),
        writes(2, reads(1, process(Some(0), "b", (0, 10)))),
        writes(3, reads(3, process(Some(99), "c", (0, 10)))),
    ];
    assert_eq!(members(&odd).concat().len(), 3);
    odd[0].parent = Some(0);
    assert_eq!(members(&odd).concat().len(), 3);
    let _ = critical_path(&odd, (0, 10 * MS), MS);
}

#[test]
fn what_a_driver_starts_is_a_part_of_its_work() {
    let seen = build();
    let found = members(&seen);
    // Each cc with its compiler; the shell that only waited is not shown, and make is alone.
    assert_eq!(found, [vec![0], vec![1, 2], vec![3, 4], vec![5, 6], vec![7, 8], vec![10]]);
    let classes = classed(&seen, &[]);
    let rows: Vec<usize> = classes.iter().map(|class| class.rows.len()).collect();
    assert_eq!((rows.as_slice(), classes[1].spans.len()), (&[1, 2, 1][..], 4), "{classes:?}");
}

#[test]
fn a_command_that_stands_twice_in_a_pipeline_is_two_rows() {
    let mut seen = vec![process(None, "bash x", (0, 300))];
    for n in [0, 10] {
        seen.push(writes(n + 1, process(Some(0), "sort", (n as u64, n as u64 + 5))));
        let uniq = process(Some(0), "uniq", (n as u64, n as u64 + 5));
        seen.push(writes(n + 2, reads(n + 1, uniq)));
        seen.push(reads(n + 2, process(Some(0), "sort", (n as u64, n as u64 + 5))));
    }
    let classes = classed(&seen, &[]);
    assert_eq!(classes.len(), 1);
    assert_eq!(classes[0].rows, [vec![1, 4], vec![2, 5], vec![3, 6]]);
}

#[test]
fn what_was_seen_only_by_its_name_is_a_part_of_what_it_may_be() {
    let mut seen = looped();
    let mut brief = process(Some(0), "sort", (400, 400));
    (brief.command, brief.known, brief.margin_ns) = (String::from("(sort)"), false, MS);
    seen.push(brief.clone());
    (brief.program, brief.command) = (String::from("tail"), String::from("(tail)"));
    seen.push(brief);
    let classes = classed(&seen, &[]);
    assert_eq!(classes.len(), 2, "{classes:?}");
    assert_eq!((classes[0].rows[1].len(), classes[0].spans.len()), (31, 31));
    // Half a tick before it was seen, and half a tick after.
    assert_eq!(classes[1].alive_ns(), 2 * MS);
}

#[test]
fn a_single_command_too_is_found_again_by_its_name_alone() {
    let mut seen = vec![process(None, "xargs", (0, 100))];
    seen.extend((0..4).map(|n| process(Some(0), &alloc::format!("xz -9 f{n}"), (n, n + 8))));
    let mut brief = process(Some(0), "xz", (60, 60));
    (brief.command, brief.known) = (String::from("(xz)"), false);
    seen.push(brief);
    let classes = classed(&seen, &[]);
    assert_eq!((classes.len(), classes[1].spans.len()), (2, 5), "{classes:?}");
}

/// 3 `git rev-list HEAD` and 90 `git show`, most of them too brief for their words to be read: these
/// were shared out, and the report said "git rev-list HEAD, about 34 times".
#[test]
fn a_name_alone_that_may_be_one_of_two_commands_is_neither() {
    let mut seen = vec![process(None, "bash x", (0, 1000))];
    for n in 0..8 {
        let at = 10 * n;
        seen.push(process(Some(0), &alloc::format!("git show -s --format=%s {n}"), (at, at + 3)));
    }
    for n in 0..3 {
        seen.push(process(Some(0), "git rev-list HEAD", (n, n + 3)));
    }
    for n in 0..20 {
        let mut brief = process(Some(0), "git", (100 + n, 102 + n));
        (brief.command, brief.known) = (String::from("(git)"), false);
        seen.push(brief);
    }
    let classes = classed(&seen, &[]);
    let mut counts: Vec<usize> = classes.iter().map(|class| class.spans.len()).collect();
    counts.sort();
    assert_eq!(counts, [3, 8, 20], "{classes:?}");
}

#[test]
fn compilations_are_one_and_the_link_another() {
    let mut seen = vec![process(None, "make", (0, 1000))];
    for n in 0..5 {
        let ms = (n * 10, n * 10 + 9);
        seen.push(process(Some(0), &alloc::format!("cc -c f{n}.c -o f{n}.o"), ms));
        let parent = seen.len() - 1;
        seen.push(process(Some(parent), "cc1", ms));
        if n % 2 == 0 {
            seen.push(process(Some(parent), "as", ms));
        }
    }
    seen.push(process(Some(0), "cc -o prog f0.o", (60, 70)));
    let classes = classed(&seen, &[]);
    let counts: Vec<usize> = classes.iter().map(|class| class.spans.len()).collect();
    assert_eq!(counts, [1, 5, 1], "{classes:?}");
}

#[test]
fn a_subshell_s_last_output_is_the_subshell_s() {
    // join <(cut a | sort) b | wc, where the subshell was forked by what became join.
    let mut seen = vec![
        process(None, "bash x", (0, 300)),
        writes(9, reads(1, process(Some(0), "join - b", (1, 300)))),
        writes(1, process(Some(1), "bash x", (1, 290))),
        writes(2, process(Some(2), "cut a", (2, 280))),
        writes(1, reads(2, process(Some(2), "sort", (2, 290)))),
        reads(9, process(Some(0), "wc", (1, 300))),
    ];
    assert_eq!(members(&seen), [vec![3, 4, 1, 5]]);
    // A script that pipes its own pipelines into a log keeps them apart.
    seen[1] = reads(1, process(Some(0), "tee log", (1, 300)));
    seen[2] = writes(1, process(Some(0), "bash step.sh", (1, 290)));
    seen.truncate(5);
    assert_eq!(members(&seen), [vec![1], vec![3, 4]]);
}

/// A loop of a hundred pipelines of two, most of them too brief: the ends of some were read in
/// time, of others not, and of some not even the command.
#[test]
fn parts_that_ran_at_the_same_time_are_one_instance() {
    let mut seen = vec![process(None, "bash report.sh", (0, 5000))];
    for i in 0..100 {
        let at = 10 + i as u64 * 10;
        let unknown =
            |program: &str, ms| SeenProcess { known: false, ..process(Some(0), program, ms) };
        let (sort, tail) = ((at, at + 2), (at + 1, at + 3));
        let pipe = 10 + i;
        seen.push(match i % 3 {
            0 => unknown("sort", sort),
            _ => writes(pipe, reads(1000 + i, process(Some(0), "sort -n", sort))),
        });
        seen.push(match i % 4 {
            0 => unknown("tail", tail),
            _ => reads(pipe, process(Some(0), "tail -1", tail)),
        });
    }
    let classes = classed(&seen, &[]);
    let found: Vec<(usize, usize)> =
        classes.iter().map(|class| (class.rows.len(), class.spans.len())).collect();
    assert_eq!(found, [(2, 100)]);
}

/// Eight `sh -c "grep -- -05- f | wc -l"` of a program were eight groups: each has a shell of its own,
/// and another option.
#[test]
fn texts_that_a_program_runs_by_a_shell_are_one_group() {
    let mut seen = vec![process(None, "python3 etl.py", (0, 1000))];
    for n in 0..4 {
        let ms = (100 * n as u64, 100 * n as u64 + 90);
        let shell = seen.len();
        let text = format!("sh -c grep -- -0{n}- f | wc -l");
        seen.push(SeenProcess { waits: true, ..process(Some(0), &text, ms) });
        let grep = process(Some(shell), &format!("grep -- -0{n}- f"), ms);
        seen.push(writes(n, grep));
        seen.push(reads(n, process(Some(shell), "wc -l", ms)));
        seen.push(process(Some(0), &format!("gzip -{n} a"), ms));
    }
    let mut found: Vec<(usize, usize)> = classed(&seen, &[])
        .iter()
        .filter(|class| seen[class.rows[0][0]].parent.is_some())
        .map(|class| (class.rows.len(), class.spans.len()))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [(1, 4), (2, 4)]);
}

/// The path named `tail`, which ended last, and the verdict `sort`, which it waited for.
#[test]
fn a_link_that_is_a_part_of_a_pipeline_has_its_name() {
    let seen = [
        process(None, "bash x", (0, 1000)),
        writes(1, process(Some(0), "sort a", (0, 890))),
        reads(1, process(Some(0), "tail -1", (0, 900))),
        process(Some(0), "sleep 0.5", (100, 600)),
    ];
    let path = critical_path(&seen, (0, 910 * MS), MS).expect("parallel");
    let commands: Vec<&str> = path.links.iter().map(|link| link.command.as_str()).collect();
    assert_eq!(commands, ["sort a | tail -1"]);
}

/// A pool of threads handed its blocks to twelve gzips: two of them were "python3 | gzip", and ten a
/// group of their own, since only those were brief beside their parent.
#[test]
fn a_program_that_hands_work_to_many_is_no_stage_in_front_of_some() {
    let mut seen = vec![process(None, "python3 pool.py", (0, 1000))];
    for n in 0..12 {
        let (start_ms, life_ms) = (10 + n as u64 * 50, if n % 6 == 0 { 300 } else { 100 });
        let ms = (start_ms, start_ms + life_ms);
        seen.push(reads(n, process(Some(0), "gzip -9", ms)));
        seen[0] = writes(n, seen[0].clone());
    }
    let members: Vec<usize> = instances(&seen).iter().map(|found| found.members.len()).collect();
    assert_eq!(members, [1; 13]);
}
