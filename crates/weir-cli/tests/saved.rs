//! `weir bench --save`, `weir history` and `weir compare`: what is kept, what is refused, and that
//! a kill at any moment leaves the history sound.

mod common;

use common::{WEIR, alone};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { directory: tempfile::tempdir().expect("a directory") }
    }

    fn history(&self) -> PathBuf {
        self.directory.path().join("state/history.db")
    }

    fn weir(&self, args: &[&str]) -> Output {
        let mut command = Command::new(WEIR);
        command.args(args).env("WEIR_HISTORY", self.history()).stdin(Stdio::null());
        command.output().expect("weir starts")
    }

    /// A report file whose cases took these times.
    fn report(&self, name: &str, times: &[(&str, f64)], change: impl Fn(&mut Value)) -> String {
        let path = self.directory.path().join(name);
        let mut report = report(times);
        change(&mut report);
        std::fs::write(&path, report.to_string()).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in ["panicked", "RUST_", "unwrap"] {
        assert!(!text.contains(word), "not for a user's eyes: {text}");
    }
    text
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(output: &Output, status: i32, expected: &str) {
    assert_eq!(output.status.code(), Some(status), "{}", said(output));
    assert!(said(output).contains(expected), "{}", said(output));
}

/// A report of ten processes a case, each within a percent of the time given.
fn report(times: &[(&str, f64)]) -> Value {
    let case = |name: &str, time: f64| {
        let samples: Vec<f64> =
            (0..40).map(|at| time * (1.0 + f64::from(at * 7 % 10) / 1e3)).collect();
        json!({
            "suite": "joy-switch", "case": name, "params": {}, "placement": "same-cpu",
            "quantity": "time", "unit": "ns", "estimate": time, "low": time * 0.99,
            "high": time * 1.01, "normalised": true, "as_timed": time, "n": 40, "processes": 10,
            "between_processes_percent": 1.0, "line_rtt_ns": null, "stratum": null,
            "perspective": null, "samples": samples,
            "beside": {
                "process": (0..40).map(|at| at / 4).collect::<Vec<i32>>(),
                "at_ms": vec![0; 40], "reference_ns": vec![1.25; 40], "cpu": vec![0; 40],
                "involuntary": vec![0; 40], "label": vec![""; 40],
            },
        })
    };
    json!({
        "schema": "weir.bench/1", "weir": "0.1.0", "started_unix_s": 1_700_000_000,
        "duration_s": 1.0, "seed": 1, "load": "none", "host": { "kernel": "Linux 6.18" },
        "rates": {}, "reference": { "nominal_ns": 1.25 }, "self_test": {},
        "cases": times.iter().map(|(name, time)| case(name, *time)).collect::<Vec<_>>(),
        "comparisons": [], "notes": [], "remarks": [],
    })
}

const RUN: [&str; 5] = ["bench", "joy-syscall", "-q", "--budget", "4s"];

#[test]
fn a_run_is_saved_listed_shown_exported_and_forgotten() {
    let place = Place::new();
    let empty = place.weir(&["history"]);
    refused(&empty, 0, "weir: no run is saved yet");
    assert_eq!(stdout(&place.weir(&["history", "--json"])), "[]\n");
    {
        let _alone = alone();
        let saved = place.weir(&[RUN.as_slice(), &["--save", "first"]].concat());
        assert_eq!(saved.status.code(), Some(0), "{}", said(&saved));
    }
    let again = place.weir(&[RUN.as_slice(), &["--save", "first"]].concat());
    let taken = "cannot save as 'first': there is a run of that name (--replace overwrites it)";
    refused(&again, 1, taken);
    let list: Value =
        serde_json::from_slice(&place.weir(&["history", "--json"]).stdout).expect("a list as JSON");
    assert_eq!(list[0]["name"], "first");
    assert!(stdout(&place.weir(&["history"])).contains("first"));
    let shown: Value = serde_json::from_slice(&place.weir(&["history", "--show", "first"]).stdout)
        .expect("a report");
    assert_eq!(shown["schema"], "weir.bench/1");
    let export =
        |format: &str| stdout(&place.weir(&["history", "--export", "first", "--format", format]));
    let hyperfine: Value = serde_json::from_str(&export("hyperfine")).expect("JSON");
    assert!(hyperfine["results"][0]["mean"].as_f64().is_some_and(|mean| mean > 0.0));
    let bencher: Value = serde_json::from_str(&export("bencher")).expect("JSON");
    let figure = &bencher["joy-syscall/getppid/same-cpu"]["latency"];
    assert!(figure["lower_value"].as_f64() < figure["upper_value"].as_f64());
    let go = export("go");
    assert!(go.lines().count() > 100);
    assert!(go.lines().all(|line| line.starts_with("Benchmark") && line.ends_with(" ns/op")));
    refused(&place.weir(&["history", "--show", "frist"]), 1, "did you mean 'first'?");
    assert!(place.weir(&["history", "--remove", "first"]).status.success());
    refused(&place.weir(&["history", "--remove", "first"]), 1, "there is no saved run 'first'");
}

#[test]
fn names_that_are_paths_or_options_are_refused_before_the_run() {
    let place = Place::new();
    for name in ["", "a/b", "x.json", "a\nb"] {
        let output = place.weir(&["bench", "--save", name]);
        refused(&output, 2, "a name is not empty, has no '/'");
    }
}

#[test]
fn a_history_that_is_none_is_named() {
    let place = Place::new();
    std::fs::create_dir_all(place.history().parent().expect("it has one")).expect("made");
    std::fs::write(place.history(), "this is no database, but long enough to look at").expect("ok");
    refused(&place.weir(&["history"]), 1, "history.db: file is not a database");
    std::fs::remove_file(place.history()).expect("removed");
    std::fs::create_dir(place.history()).expect("made");
    refused(&place.weir(&["history"]), 1, "cannot open the history");
    let below = Command::new(WEIR)
        .args(["bench", "--save", "x"])
        .env("WEIR_HISTORY", "/dev/null/history.db")
        .output()
        .expect("weir starts");
    refused(&below, 1, "weir: cannot make the history /dev/null: ");
}

#[test]
fn a_history_of_a_newer_weir_is_refused() {
    let place = Place::new();
    std::fs::create_dir_all(place.history().parent().expect("it has one")).expect("made");
    let newer = rusqlite::Connection::open(place.history()).expect("opened");
    newer.pragma_update(None, "user_version", 99).expect("set");
    drop(newer);
    refused(&place.weir(&["history"]), 1, "it was written by a newer weir (version 99");
}

/// Runs are killed while they save; what is in the history afterwards is whole.
#[test]
fn a_kill_while_saving_leaves_the_history_sound() {
    let place = Place::new();
    let _alone = alone();
    for attempt in 0..8_u64 {
        let mut command = Command::new(WEIR);
        let name = format!("run-{attempt}");
        let args = [RUN.as_slice(), &["--save", &name]].concat();
        command.args(args).env("WEIR_HISTORY", place.history()).stdin(Stdio::null());
        let mut weir = command.spawn().expect("weir starts");
        if attempt > 0 {
            // sleep: the kill is to fall anywhere in the run, more often near its end.
            std::thread::sleep(Duration::from_millis(3_700 + attempt * 60));
            weir.kill().expect("killed");
        }
        weir.wait().expect("reaped");
        check_sound(&place.history());
    }
}

fn check_sound(path: &Path) {
    let history = rusqlite::Connection::open(path).expect("opened");
    let sound: String =
        history.pragma_query_value(None, "integrity_check", |row| row.get(0)).expect("checked");
    assert_eq!(sound, "ok");
    let mut reports = history.prepare("SELECT report FROM runs").expect("prepared");
    let reports = reports.query_map([], |row| row.get::<_, String>(0)).expect("queried");
    for report in reports {
        let report: Value = serde_json::from_str(&report.expect("text")).expect("whole");
        assert_eq!(report["schema"], "weir.bench/1");
    }
}

#[test]
fn runs_are_compared_case_by_case_and_said_to_be_unpaired() {
    let place = Place::new();
    let a = place.report("a.json", &[("same", 100.0), ("slower", 100.0), ("gone", 5.0)], |_| {});
    let b = place.report("b.json", &[("same", 100.2), ("slower", 130.0), ("new", 5.0)], |report| {
        report["host"]["kernel"] = json!("Linux 7.0");
    });
    let output = place.weir(&["compare", &a, &b]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = stdout(&output);
    assert!(text.contains("unpaired: the two runs were not interleaved"), "{text}");
    assert!(text.contains("differs: kernel: Linux 6.18 -> Linux 7.0"), "{text}");
    assert!(text.contains("2 cases: 0 faster, 1 slower, 1 equivalent within 5 %"), "{text}");
    assert!(text.contains("1 cases only in"), "{text}");
    let failing = place.weir(&["compare", &a, &b, "--fail-on", "slower"]);
    assert_eq!(failing.status.code(), Some(1));
    let json: Value =
        serde_json::from_slice(&place.weir(&["compare", &a, &b, "--json"]).stdout).expect("JSON");
    assert_eq!(json["schema"], "weir.compare/1");
    let ratio = json["cases"][1]["ratio"].as_f64().expect("a ratio");
    assert!((ratio - 1.3).abs() < 0.01, "{ratio}");
    // Exchanged, the slower becomes the faster.
    let turned = stdout(&place.weir(&["compare", &b, &a]));
    assert!(turned.contains("1 faster, 0 slower"), "{turned}");
}

/// A run on a CPU in a slower state is brought to the same speed before it is compared.
#[test]
fn another_speed_of_the_cpu_is_no_difference() {
    let place = Place::new();
    let a = place.report("a.json", &[("one", 100.0)], |_| {});
    let b = place.report("b.json", &[("one", 127.0)], |report| {
        report["cases"][0]["beside"]["reference_ns"] = json!(vec![1.25 * 1.27; 40]);
    });
    assert!(stdout(&place.weir(&["compare", &a, &b])).contains("1 equivalent"));
}

#[test]
fn what_cannot_be_compared_is_told() {
    let place = Place::new();
    let a = place.report("a.json", &[("one", 100.0)], |_| {});
    let rate = place.report("rate.json", &[("one", 100.0)], |report| {
        report["cases"][0]["unit"] = json!("1/s");
    });
    let output = place.weir(&["compare", &a, &rate]);
    refused(&output, 1, "cannot compare joy-switch: one at same-cpu: ");
    assert!(said(&output).contains("time in ns") && said(&output).contains("time in 1/s"));
    let newer = place.report("newer.json", &[("one", 1.0)], |report| {
        report["schema"] = json!("weir.bench/7");
    });
    let output = place.weir(&["compare", &a, &newer]);
    refused(&output, 1, "schema 'weir.bench/7' is newer than 'weir.bench/1'");
    let foreign = place.report("foreign.json", &[], |report| {
        report["schema"] = json!("weir.run/1");
    });
    refused(&place.weir(&["compare", &a, &foreign]), 1, "'weir.bench/1' is expected");
    let other = place.report("other.json", &[("two", 1.0)], |_| {});
    refused(&place.weir(&["compare", &a, &other]), 1, "they have no case in common");
    refused(&place.weir(&["compare", "nosuch", &a]), 1, "there is no saved run 'nosuch'");
    refused(&place.weir(&["compare", "./nosuch.json", &a]), 1, "No such file or directory");
}
