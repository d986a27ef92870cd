//! The report of a run written down by hand: what people read is held by a snapshot.

use super::*;
use weir_doctor::advice::{Advice, AdviceKind, Advised, Gain};
use weir_doctor::diagnosis::{Diagnosis, diagnose};
use weir_doctor::ending::Ending;
use weir_doctor::facts::{Evidence, FailedCommand, Io, Line, Pipe, Stage};
use weir_doctor::failures::Role;

const MS: u64 = 1_000_000;

fn stage(label: &str, wall_ms: u64, times: [u64; 5]) -> Stage {
    let plain = words::tests::stage(label, times);
    Stage {
        processes: 1,
        wall_ns: wall_ms * MS,
        most_tasks: 1,
        user_ns: plain.user_ns * 3 / 4,
        system_ns: plain.user_ns / 4,
        cpu_evidence: Evidence::Exact,
        samples: 210,
        io: Some(Io {
            read_bytes: 83_123_456,
            write_bytes: 284_000_000,
            read_calls: 1500,
            write_calls: 4200,
        }),
        bytes_evidence: Evidence::Exact,
        max_rss_bytes: Some(9_100_000),
        max_rss_evidence: Evidence::Exact,
        ending: Some(Ending::Code(0)),
        ..plain
    }
}

/// A report whose sentences stay the same whatever policy comes to say.
fn told(run: Run) -> Report {
    let (kind, gain) = (AdviceKind::LargerPipe, Gain::AtMost(1.57));
    let advice = Advice { kind, stage: None, pipe: Some(0), gain };
    let command = String::from("yes | slow");
    let found = Diagnosis {
        verdict: weir_doctor::verdict::judge(&run),
        advice: vec![Advised::of(&run, &command, advice, &())],
        ..diagnose(&run, &command, &())
    };
    let verdict = String::from(
        "held up by 2 python3 slow.py: asleep 92 % of the time\nif 2 python3 took no time, \
         the next limit would be 1 yes",
    );
    let advice = vec![String::from("do this: it was full 50 % and empty 30 % of the time")];
    Report { run, command, found, verdict, advice, stall: None, status: 0, compared: None }
}

/// A report whose run was changed, with what is found about how that ended.
fn again(mut report: Report) -> Report {
    let Diagnosis { ends, failed_unknown, .. } = diagnose(&report.run, &report.command, &());
    (report.found.ends, report.found.failed_unknown) = (ends, failed_unknown);
    report
}

fn pipe(from: usize) -> Pipe {
    Pipe {
        from,
        to: from + 1,
        capacity_bytes: 262_144,
        limit_bytes: 1 << 20,
        mean_fill: Some(0.97),
        max_fill: 1.0,
        full_share: Some(0.5),
        empty_share: Some(0.3),
        samples: 210,
        ..Pipe::default()
    }
}

/// Bytes that crossed the pipes, which lie one after the other.
fn joined(mut stages: Vec<Stage>) -> Run {
    let last = stages.len() - 1;
    for (position, stage) in stages.iter_mut().enumerate() {
        stage.pipe_in_bytes = (position > 0).then_some(83_000_000);
        stage.pipe_out_bytes = (position < last).then_some(83_000_000);
        stage.pipe_in_evidence = Evidence::UpperBound;
        stage.pipe_out_evidence = Evidence::UpperBound;
    }
    let pipes = (0..last).map(pipe).collect();
    Run { wall_ns: 1200 * MS, cpus: 2.0, stages, pipes, ..Run::default() }
}

fn report() -> Report {
    let mut killed = stage("yes", 1000, [20, 5, 0, 975, 0]);
    killed.ending = Some(Ending::Signal(13));
    let mut slow =
        stage("python3 slow.py --with a --very long command line", 1200, [50, 10, 40, 500, 600]);
    (slow.single_task, slow.most_tasks) = (false, 3);
    told(joined(vec![killed, slow]))
}

/// A pipeline in which much went wrong.
fn hard() -> Report {
    let mut stages = vec![
        stage(
            "cat '\u{6f22}\u{5b57}\u{6f22}\u{5b57}\u{6f22}\u{5b57}\u{6f22}\u{5b57}\u{6f22}\u{5b57} \u{1b}[2J \u{202e}txt' and much more that is typed",
            900,
            [20, 5, 0, 875, 0],
        ),
        stage("LC_ALL=C sort -S 20M -t, -k2,2n -k3,3r --parallel=1", 900, [800, 50, 50, 0, 0]),
        stage("grep -c nosuch", 950, [1, 0, 949, 0, 0]),
        stage("nosuchcommand", 0, [0; 5]),
        stage("weir buffer", 1100, [100, 0, 1000, 0, 0]),
        stage("wc -l", 1200, [1, 0, 1199, 0, 0]),
    ];
    stages[1].ending = Some(Ending::Signal(9));
    stages[2].ending = Some(Ending::Code(1));
    stages[3].ending = Some(Ending::Code(127));
    stages[3].failure = Some(String::from("command not found"));
    stages[4].inserted = true;
    let mut run = joined(stages);
    run.memory_kills.group = Some(1);
    run.host.others_cpus = Some(0.94);
    run.notes.push(String::from("standard input was closed: the first stage has none"));
    told(run)
}

/// A script whose loop started much that lived too briefly for a figure.
fn script() -> Report {
    let mut stages = vec![stage("bash (the script itself)", 1200, [900, 0, 0, 0, 300])];
    stages.extend((0..23).map(|n| stage(&format!("basename /a/b/{n}"), 1, [0; 5])));
    stages.extend((0..3).map(|_| stage("()", 1, [0; 5])));
    for stage in &mut stages[24..] {
        stage.program.clear();
    }
    let run = Run { wall_ns: 1200 * MS, cpus: 2.0, stages, script: true, ..Run::default() };
    told(run)
}

fn look(columns: usize) -> ReportStyle {
    ReportStyle { columns, wraps: true, colour: false, detail: Detail::Usual, hot: false }
}

/// At least 0.001 MB/s was shown as "<0.01", calls beside estimated bytes as all there were, and a
/// quota as "0.33333 CPUs".
#[test]
fn a_lower_bound_is_shown_as_no_other() {
    let mut run = joined(vec![stage("cat a", 1200, [0; 5]), stage("wc", 1200, [0; 5])]);
    run.stages[0].bytes_evidence = Evidence::Estimated;
    (run.stages[0].pipe_out_bytes, run.stages[0].pipe_out_evidence) =
        (Some(1200), Evidence::LowerBound);
    run.cpus = 1.0 / 3.0;
    let text = text(&told(run), &look(120));
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("1 cat")).collect();
    assert!(rows[0].contains(" ?") && !rows[0].contains('<'), "{text}");
    assert!(rows[1].contains(" >5700 "), "{text}");
    assert!(text.starts_with("weir: 1.20s for 2 stages on 0.33 CPUs\n"), "{text}");
}

#[test]
fn the_report_fits_every_width() {
    use unicode_width::UnicodeWidthStr;
    for (name, report) in [("plain", report()), ("hard", hard()), ("script", script())] {
        let mut all = String::new();
        for columns in [40, 80, 120, 200] {
            let text = text(&report, &look(columns));
            all.push_str(&format!("{columns} columns\n{text}\n"));
        }
        for columns in 20..220 {
            for line in text(&report, &look(columns)).lines() {
                assert!(line.width() <= columns, "{name}, {columns}: {line}");
            }
        }
        insta::assert_snapshot!(name, all);
    }
}

#[test]
fn brief_is_the_answer_alone_and_verbose_the_fine_print_too() {
    let with = |detail| text(&hard(), &ReportStyle { detail, wraps: false, ..look(100) });
    insta::assert_snapshot!("brief", with(Detail::Brief));
    insta::assert_snapshot!("verbose", with(Detail::Verbose));
}

#[test]
fn the_verdict_opens_the_report_and_advice_ends_it() {
    let text = text(&report(), &look(100));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("held up by 2"), "{text}");
    assert!(lines.last().is_some_and(|line| line.starts_with("try: ")), "{text}");
}

#[test]
fn of_a_long_report_the_verdict_is_reported_again_at_the_end() {
    let stages = (0..20).map(|n| stage(&format!("stage {n}"), 1200, [50, 0, 0, 0, 0]));
    let text = text(&told(joined(stages.collect())), &look(80));
    let times = text.matches("held up by 2 python3").count();
    assert_eq!(times, 2, "{text}");
}

#[test]
fn a_sentence_stays_on_its_line_where_no_width_is_known() {
    let whole = ReportStyle { wraps: false, ..look(40) };
    let text = text(&hard(), &whole);
    assert!(
        text.contains("of this control group during the run): the stages after it had"),
        "{text}"
    );
}

#[test]
fn colours_are_only_added() {
    let coloured = text(&hard(), &ReportStyle { colour: true, ..look(80) });
    assert!(coloured.contains("\u{1b}[1m"));
    let mut plain = String::new();
    let mut inside = false;
    for c in coloured.chars() {
        match c {
            '\u{1b}' => inside = true,
            'm' if inside => inside = false,
            _ if !inside => plain.push(c),
            _ => {}
        }
    }
    assert_eq!(plain, text(&hard(), &look(80)));
}

#[test]
fn json_has_the_stable_names() {
    let document: serde_json::Value = serde_json::from_str(&json(&report())).expect("JSON");
    assert_eq!(document["schema"], "weir.run/1");
    let names = [
        "index",
        "command",
        "wall_s",
        "busy",
        "user_s",
        "sys_s",
        "runq_s",
        "blocked_in_s",
        "blocked_out_s",
        "blocked_other_s",
        "bytes_in",
        "bytes_out",
        "max_rss_bytes",
        "exit",
        "evidence",
    ];
    for stage in document["stages"].as_array().expect("stages") {
        for name in names {
            assert!(stage.get(name).is_some(), "{name} is missing");
        }
    }
    assert_eq!(document["stages"][0]["exit"]["signal"], 13);
    assert_eq!(document["pipes"][0]["from"], 1);
    assert_eq!(document["verdict"]["kind"], "stage");
    assert_eq!(document["verdict"]["stage"], 2);
    assert_eq!(document["verdict"]["reason"], "sleep");
}

#[test]
fn an_interrupt_is_reported_once() {
    let mut stages: Vec<Stage> =
        (0..3).map(|n| stage(&format!("stage {n}"), 1200, [50, 0, 0, 0, 0])).collect();
    stages.iter_mut().for_each(|stage| stage.ending = Some(Ending::Signal(2)));
    let mut run = joined(stages);
    run.signals = vec![2];
    let text = text(&told(run), &look(100));
    assert_eq!(text.matches("interrupted by SIGINT").count(), 1, "{text}");
    assert!(!text.contains("killed"), "{text}");
}

/// `grep -q a f && false` was "ended with status 1: nothing matched", although something had.
#[test]
fn the_status_of_several_commands_is_no_answer_of_the_first() {
    let said = |command: &str| {
        let mut report = report();
        (report.run.script, report.run.ending) = (true, Some(Ending::Code(1)));
        report.command = command.to_owned();
        text(&again(report), &ReportStyle { detail: Detail::Brief, wraps: false, ..look(100) })
    };
    let failed = "grep -q a f && false failed with status 1\n";
    assert!(said("grep -q a f && false").contains(failed), "{}", said("grep -q a f && false"));
    let answered = said("grep -q a f");
    assert!(answered.contains("grep -q a f ended with status 1: nothing matched"));
    // Which command that was is not known without the kernel's events.
    let unknown = "which of its commands failed is not known";
    assert!(said("a; b").contains(unknown) && !answered.contains(unknown));
}

/// A script that SIGPIPE ended under pipefail had no word of it.
#[test]
fn a_failed_command_is_told_with_its_line() {
    let said = |ending, role, reader: Option<&str>| {
        let mut report = report();
        let (script, line) = (String::from("x.sh"), 4);
        report.run.failed = vec![FailedCommand {
            command: String::from("sort a"),
            line: Some(Line { script, path: None, line }),
            ending,
            answer: None,
            times: 2,
            role,
            reader: reader.map(String::from),
        }];
        (report.run.script, report.run.ending) = (true, Some(Ending::Code(1)));
        report.run.has_all = true;
        text(&again(report), &ReportStyle { wraps: false, ..look(100) })
    };
    let code = said(Ending::Code(2), Role::Ended, None);
    assert!(
        code.contains(
            "\nline 4 of x.sh: sort a ended with status 2; set -e ended the script there\n"
        )
    );
    let left = said(Ending::Signal(13), Role::Last, Some("head -1"));
    assert!(
        left.contains("\nstatus 141: line 4 of x.sh: sort a was ended by SIGPIPE: head -1 had")
    );
    let other = said(Ending::Signal(11), Role::Other, None);
    assert!(
        other.contains("\nnote: line 4 of x.sh: sort a was killed by SIGSEGV (2 times)\n"),
        "{other}"
    );
}
