//! The report of a run written down by hand: what people read is held by a snapshot.

use super::*;
use weir_measure::record::{Ending, Evidence, Pipe, Stage};
use weir_policy::partition::Times;
use weir_sys::proc::Io;

const MS: u64 = 1_000_000;

fn stage(label: &str, wall_ms: u64, [cpu, queue, input, output, sleep]: [u64; 5]) -> Stage {
    let times = Times {
        cpu_ns: cpu * MS,
        queue_ns: queue * MS,
        input_ns: input * MS,
        output_ns: output * MS,
        sleep_ns: sleep * MS,
        ..Times::default()
    };
    Stage {
        label: label.to_owned(),
        program: label.split(' ').next().unwrap_or("").to_owned(),
        processes: 1,
        wall_ns: wall_ms * MS,
        times,
        single_task: true,
        most_tasks: 1,
        user_ns: cpu * MS * 3 / 4,
        system_ns: cpu * MS / 4,
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
        max_rss_exact: true,
        ending: Some(Ending::Code(0)),
        ..Stage::default()
    }
}

fn report() -> Report {
    let mut killed = stage("yes", 1000, [20, 5, 0, 975, 0]);
    killed.ending = Some(Ending::Signal(13));
    let mut slow =
        stage("python3 slow.py --with a --very long command line", 1200, [50, 10, 40, 0, 1100]);
    (slow.single_task, slow.most_tasks) = (false, 3);
    let pipe = Pipe {
        from: 0,
        to: 1,
        capacity_bytes: 262_144,
        limit_bytes: 1 << 20,
        mean_fill: Some(0.97),
        max_bytes: 262_144,
        full_share: Some(0.95),
        empty_share: Some(0.0),
        samples: 210,
        ..Pipe::default()
    };
    let run = Run {
        wall_ns: 1200 * MS,
        cpus: 2.0,
        stages: vec![killed, slow],
        pipes: vec![pipe],
        ..Run::default()
    };
    let facts = run.facts(false, false);
    let verdict = weir_policy::verdict::judge(&facts);
    let advice = weir_policy::advice::advise(&facts, &verdict);
    Report { run, command: String::from("yes | slow"), verdict, advice, status: 0, compared: None }
}

#[test]
fn the_report_reads_well() {
    insta::assert_snapshot!(text(&report(), false));
}

#[test]
fn colours_are_only_added() {
    let coloured = text(&report(), true);
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
    assert_eq!(plain, text(&report(), false));
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
