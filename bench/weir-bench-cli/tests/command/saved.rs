//! `weir bench --save`, `weir history` and `weir compare`: what they keep and refuse, and that a
//! kill at any moment leaves the history valid.

use crate::common::history::{Place, report, stdout};
use crate::common::port::{refused, said};
use crate::common::{WEIR_BENCH, alone, schema};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::Duration;

const RUN: [&str; 4] = ["joy-syscall", "-q", "--budget", "2s"];

#[test]
fn a_run_is_saved_listed_shown_exported_and_forgotten() {
    let place = Place::new();
    let empty = place.weir(&["history"]);
    refused(&empty, 0, "weir: no run has been saved yet");
    let none =
        schema::check_text("weir.history/1", &place.weir(&["history", "--json", "-"]).stdout);
    assert_eq!(none["runs"], json!([]));
    {
        let _alone = alone();
        let saved = place.weir(&[RUN.as_slice(), &["--save", "first"]].concat());
        assert_eq!(saved.status.code(), Some(0), "{}", said(&saved));
    }
    let again = place.weir(&[RUN.as_slice(), &["--save", "first"]].concat());
    let taken = "cannot save as 'first': a run of that name exists (--replace overwrites it)";
    refused(&again, 1, taken);
    let list = place.weir(&["history", "list", "--json", "-"]);
    let list = schema::check_text("weir.history/1", &list.stdout);
    assert_eq!(list["runs"][0]["name"], "first");
    assert!(stdout(&place.weir(&["history"])).contains("first"));
    assert!(stdout(&place.weir(&["history", "list"])).contains("first"));
    let shown = stdout(&place.weir(&["history", "show", "first"]));
    assert!(shown.starts_with("A/A: ") && shown.contains(" while it ran"), "{shown}");
    let json = place.weir(&["history", "show", "first", "--json=-"]).stdout;
    schema::check_text("weir.bench/1", &json);
    let page = place.directory.path().join("page.html");
    let page = page.to_str().expect("UTF-8");
    assert!(place.weir(&["history", "show", "first", "--html", page]).status.success());
    assert!(std::fs::read_to_string(page).expect("written").contains("<h1>weir bench</h1>"));
    let export =
        |format: &str| stdout(&place.weir(&["history", "export", "first", "--format", format]));
    let hyperfine: Value = serde_json::from_str(&export("hyperfine")).expect("JSON");
    assert!(hyperfine["results"][0]["mean"].as_f64().is_some_and(|mean| mean > 0.0));
    let bencher: Value = serde_json::from_str(&export("bencher")).expect("JSON");
    let figure = &bencher["joy-syscall/getppid/same-cpu"]["latency"];
    assert!(figure["lower_value"].as_f64() < figure["upper_value"].as_f64());
    let go = export("go");
    assert!(go.lines().count() > 100);
    assert!(go.lines().all(|line| line.starts_with("Benchmark") && line.ends_with(" ns/op")));
    refused(&place.weir(&["history", "show", "frist"]), 1, "did you mean 'first'?");
    assert!(place.weir(&["history", "remove", "first"]).status.success());
    refused(&place.weir(&["history", "remove", "first"]), 1, "there is no saved run 'first'");
}

#[test]
fn names_that_are_paths_or_options_are_refused_before_the_run() {
    let place = Place::new();
    for name in ["", "a/b", "x.json", "a\nb"] {
        let output = place.weir(&["--save", name]);
        refused(&output, 2, "a name must not be empty, contain '/'");
    }
}

#[test]
fn a_history_that_is_no_directory_is_named() {
    let place = Place::new();
    std::fs::create_dir_all(place.history().parent().expect("it has one")).expect("made");
    std::fs::write(place.history(), "this is not a directory").expect("ok");
    refused(&place.weir(&["history"]), 1, "cannot open the history");
    refused(&place.weir(&["--save", "x"]), 1, "weir: cannot create the history");
}

/// One file that is damaged, or of another version, does not hide the other runs.
#[test]
fn a_run_that_cannot_be_read_is_named_and_the_others_are_listed() {
    let place = Place::new();
    place.keep("good", &report(&[("one", 1.0)]));
    place.keep("other", &json!({ "schema": "weir.bench/9" }));
    let listed = place.weir(&["history"]);
    assert!(stdout(&listed).contains("good") && !stdout(&listed).contains("other"));
    refused(&listed, 0, "cannot read 'other': its schema is 'weir.bench/9'");
    assert!(place.weir(&["history", "remove", "other"]).status.success());
    assert_eq!(said(&place.weir(&["history"])), "");
}

/// Kills runs, most of them while they save. What is in the history afterwards is whole.
#[test]
fn a_kill_while_saving_leaves_the_history_sound() {
    let place = Place::new();
    let _alone = alone();
    for attempt in 0..6_u64 {
        let mut command = Command::new(WEIR_BENCH);
        let name = format!("run-{attempt}");
        command.args(["joy-syscall/read", "-q", "--budget", "700ms", "--save", &name]);
        command.env("WEIR_HISTORY", place.history()).stdin(Stdio::null());
        let mut weir = command.spawn().expect("weir starts");
        if attempt > 0 {
            // A save begins with a file of another name beside the runs.
            let files = || std::fs::read_dir(place.history()).map_or(0, Iterator::count);
            let before = files();
            let is_due = || attempt == 1 || files() > before;
            while !is_due() && weir.try_wait().expect("looked").is_none() {
                // sleep: between two looks.
                std::thread::sleep(Duration::from_micros(100));
            }
            let wait_us = if attempt == 1 { 300_000 } else { (attempt - 2) * 700 };
            // sleep: the kill must come anywhere in the run, and anywhere in the saving.
            std::thread::sleep(Duration::from_micros(wait_us));
            weir.kill().expect("killed");
        }
        weir.wait().expect("reaped");
        let listed = place.weir(&["history", "list", "--json", "-"]);
        assert_eq!(said(&listed), "", "all runs can be read");
        let listed = schema::check_text("weir.history/1", &listed.stdout);
        assert!(listed["runs"].as_array().is_some_and(|runs| !runs.is_empty()), "{listed}");
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
    assert!(text.contains("1 case only in"), "{text}");
    assert!(text.contains("it is not known of both runs how much CPU others used"), "{text}");
    let failing = place.weir(&["compare", &a, &b, "--fail-on", "slower"]);
    assert_eq!(failing.status.code(), Some(1));
    let json = place.weir(&["compare", &a, &b, "--json", "-"]);
    let json = schema::check_text("weir.compare/1", &json.stdout);
    assert_eq!(json["cases"][1]["verdict"]["kind"], "slower");
    let ratio = json["cases"][1]["ratio"].as_f64().expect("a ratio");
    assert!((ratio - 1.3).abs() < 0.01, "{ratio}");
    // If A and B are exchanged, the slower becomes the faster.
    let turned = stdout(&place.weir(&["compare", &b, &a]));
    assert!(turned.contains("1 faster, 0 slower"), "{turned}");
}

/// The steps of two loops say nothing of each other: by them, the same work once seemed 2.5 times as
/// slow.
#[test]
fn runs_with_different_reference_loops_are_compared_as_timed() {
    let place = Place::new();
    let quicker_steps = |report: &mut Value| {
        report["cases"][0]["beside"]["reference_ns"] = json!(vec![0.5; 40]);
    };
    let a = place.report("a.json", &[("one", 100.0)], |_| {});
    let same_loop = place.report("same.json", &[("one", 100.0)], quicker_steps);
    let text = stdout(&place.weir(&["compare", &a, &same_loop]));
    assert!(text.contains("1 slower"), "{text}");
    let other_loop = place.report("other.json", &[("one", 100.0)], |report| {
        quicker_steps(report);
        report["reference"]["version"] = json!(2);
    });
    let text = stdout(&place.weir(&["compare", &a, &other_loop]));
    assert!(text.contains("1 equivalent"), "{text}");
    assert!(text.contains("differs: reference loop: 0 -> 2"), "{text}");
}

/// Nobody knows what a run without a self-test resolves: "0.0 %" would make it the best of hosts.
#[test]
fn a_run_without_a_self_test_resolves_what_nobody_knows() {
    let place = Place::new();
    place.keep("none", &report(&[("one", 1.0)]));
    assert!(!stdout(&place.weir(&["history"])).contains("0.0 %"));
    let listed = place.weir(&["history", "list", "--json", "-"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed["runs"][0]["resolves_share"], Value::Null);
    let text = stdout(&place.weir(&["history", "show", "none"]));
    assert!(text.contains("how much CPU others used while it ran is unknown"), "{text}");
    let now = place.report("now.json", &[("one", 1.3)], |_| {});
    assert!(stdout(&place.weir(&["compare", "none", &now])).contains("1 slower"));
}

/// Sets the CPUs that others used.
fn others_used(report: &mut Value, cpus: f64) {
    let seen = json!({
        "wall_s": 10.0, "cpus": 2, "others_cpus": cpus, "own_cpus": 0.9, "idle_cpus": 0.5,
        "steal_cpus": 0.0, "throttled_cpus": 0.0, "cpu_pressure_share": null,
        "frequency_hz": null,
    });
    report["host"]["state"] = json!({
        "before": null, "during": seen, "busy": cpus > 0.2,
        "text": format!("others used {cpus:.1} of 2 CPUs while it ran"),
    });
}

/// A comes from a quiet host, B from one whose CPUs others used. They may have caused the
/// difference.
#[test]
fn what_another_state_of_the_host_explains_is_not_called_slower() {
    let place = Place::new();
    let cases = [("same", 100.0), ("slower", 100.0)];
    let a = place.report("a.json", &cases, |report| others_used(report, 0.1));
    let slower = [("same", 100.2), ("slower", 130.0)];
    let quiet = place.report("quiet.json", &slower, |report| others_used(report, 0.1));
    let busy = place.report("busy.json", &slower, |report| others_used(report, 1.1));
    let same_state = place.weir(&["compare", &a, &quiet, "--fail-on", "slower"]);
    assert_eq!(same_state.status.code(), Some(1));
    assert!(stdout(&same_state).contains("1 slower"), "{}", stdout(&same_state));
    let output = place.weir(&["compare", &a, &busy, "--fail-on", "slower"]);
    let text = stdout(&output);
    assert!(text.contains("the host's state differed: others used 0.1 against 1.1 CPUs"), "{text}");
    assert!(text.contains("(1 case would have been)"), "{text}");
    assert!(text.contains("2 cases: 0 faster, 0 slower, 1 equivalent"), "{text}");
    assert_eq!(output.status.code(), Some(0));
    assert!(said(&output).contains("--fail-on slower cannot fail here"), "{}", said(&output));
    let changed = place.weir(&["compare", &a, &busy, "--fail-on", "changed"]);
    assert_eq!(changed.status.code(), Some(1));
    let json = place.weir(&["compare", &a, &busy, "--json", "-"]);
    let json = schema::check_text("weir.compare/1", &json.stdout);
    assert_eq!(json["state"]["difference"], "others used 0.1 against 1.1 CPUs");
    let verdict = &json["cases"][1]["verdict"];
    assert_eq!(verdict["kind"], "inconclusive");
    assert!(verdict["text"].as_str().is_some_and(|text| text.contains("slower as measured")));
}

/// A difference that is certain for a single case is not certain for one among forty.
#[test]
fn many_cases_are_judged_together() {
    let place = Place::new();
    let names: Vec<String> = (0..40).map(|case| format!("case {case}")).collect();
    let times = |time: f64| names.iter().map(|name| (name.as_str(), time)).collect::<Vec<_>>();
    let compare = |count: usize| {
        let mut b = times(100.0)[..count].to_vec();
        b[0].1 = 107.0;
        let a = place.report("a.json", &times(100.0)[..count], |_| {});
        let b = place.report("b.json", &b, |_| {});
        stdout(&place.weir(&["compare", &a, &b]))
    };
    assert!(compare(1).contains("1 case: 0 faster, 1 slower"), "{}", compare(1));
    let all = compare(40);
    assert!(all.contains("40 cases: 0 faster, 0 slower, 39 equivalent"), "{all}");
}

/// A run on a CPU in a slower state is normalised to the same speed before it is compared.
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
    let other = place.report("other.json", &[("one", 1.0)], |report| {
        report["schema"] = json!("weir.bench/7");
    });
    let output = place.weir(&["compare", &a, &other]);
    refused(&output, 1, "its schema is 'weir.bench/7', but 'weir.bench/1' is expected");
    let foreign = place.report("foreign.json", &[], |report| {
        report["schema"] = json!("weir.run/1");
    });
    refused(&place.weir(&["compare", &a, &foreign]), 1, "'weir.bench/1' is expected");
    let other = place.report("other.json", &[("two", 1.0)], |_| {});
    refused(&place.weir(&["compare", &a, &other]), 1, "they have no case in common");
    refused(&place.weir(&["compare", "nosuch", &a]), 1, "there is no saved run 'nosuch'");
    refused(&place.weir(&["compare", "./nosuch.json", &a]), 1, "No such file or directory");
}
