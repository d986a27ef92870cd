//! What `weir compare` makes of runs with few processes, of differences, ticks and directories; and
//! the samples that exports have.

use crate::common::history::{Place, report, stdout};
use crate::common::port::refused;
use crate::common::schema;
use serde_json::{Value, json};

/// Compares two runs of one case, each changed as told, and returns the case of the JSON.
fn compared(change_a: impl Fn(&mut Value), change_b: impl Fn(&mut Value)) -> Value {
    let place = Place::new();
    let a = place.report("a.json", &[("one", 100.0)], |report| change_a(&mut report["cases"][0]));
    let b = place.report("b.json", &[("one", 100.0)], |report| change_b(&mut report["cases"][0]));
    let json = place.weir(&["compare", &a, &b, "--json", "-"]);
    schema::check_text("weir.compare/1", &json.stdout)["cases"][0].take()
}

/// Keeps the batches of the first processes only, each of which takes this long.
fn few(case: &mut Value, processes: usize, time: f64) {
    (case["samples"], case["processes"]) = (json!(vec![time; 4 * processes]), json!(processes));
    (case["estimate"], case["low"], case["high"]) =
        (json!(time), json!(time * 0.97), json!(time * 1.03));
}

/// The drift between runs is all that a single process seems to have for an interval.
#[test]
fn a_single_process_is_not_called_slower() {
    let one = compared(|case| few(case, 1, 100.0), |case| few(case, 1, 150.0));
    assert_eq!(one["verdict"]["kind"], "inconclusive", "{one}");
    assert_eq!((&one["p"], &one["low"], &one["high"]), (&Value::Null, &Value::Null, &Value::Null));
    assert_eq!(one["verdict"]["text"], "1.500x: inconclusive");
}

/// Runs that were interrupted have two or three processes of a case: their ratio has an interval,
/// and they are brought to one speed of the reference loop as others are.
#[test]
fn few_processes_have_an_interval_and_are_normalised() {
    let slow_cpu = |case: &mut Value| {
        few(case, 3, 127.0);
        // That run was normalised to a step of its own.
        case["beside"]["reference_ns"] = json!(vec![1.25 * 1.27; 40]);
    };
    let one = compared(|case| few(case, 3, 100.0), slow_cpu);
    let [ratio, low, high] =
        ["ratio", "low", "high"].map(|name| one[name].as_f64().expect("a number"));
    assert!((ratio - 1.0).abs() < 1e-6, "{one}");
    assert!((0.9..0.97).contains(&low) && (1.03..1.1).contains(&high), "{one}");
    assert_eq!(one["verdict"]["kind"], "inconclusive", "{one}");
}

/// What was normalised in one run alone seemed to take longer by the CPU's speed.
#[test]
fn what_is_normalised_in_one_run_alone_is_compared_as_timed() {
    let slow_cpu = |case: &mut Value| {
        case["beside"]["reference_ns"] = json!(vec![1.25 * 1.27; 40]);
    };
    let one = compared(slow_cpu, |case| case["normalised"] = json!(false));
    assert_eq!(one["ratio"], json!(1.0), "{one}");
}

/// Turns a case into a difference, whose batches scatter by one around this.
fn difference(case: &mut Value, middle: f64) {
    let samples: Vec<f64> = (0..40).map(|at| middle + f64::from(at * 7 % 10) / 4.5 - 1.0).collect();
    (case["samples"], case["estimate"]) = (json!(samples), json!(middle));
    (case["low"], case["high"]) = (json!(middle - 0.5), json!(middle + 0.5));
    case["is_difference"] = json!(true);
}

/// By the ratio of its figures, 3, the second of these seemed to take longer.
#[test]
fn differences_below_nothing_are_judged_by_their_sign() {
    let one = compared(|case| difference(case, -10.0), |case| difference(case, -30.0));
    assert_eq!(one["verdict"], json!({ "kind": "faster", "text": "faster" }), "{one}");
    assert_eq!((&one["ratio"], &one["low"]), (&Value::Null, &Value::Null), "{one}");
    let b = one["b"].as_f64().expect("a number");
    assert!((b + 30.0).abs() < 0.5, "{one}");
}

/// The interval of one run reaches 0, that of the other does not: they do not differ.
#[test]
fn a_difference_is_taken_alike_in_both_runs() {
    let reaches_nothing = |case: &mut Value| {
        difference(case, 10.0);
        case["low"] = json!(-0.5);
    };
    let one = compared(|case| difference(case, 10.0), reaches_nothing);
    assert_eq!((&one["a"], &one["ratio"]), (&one["b"], &json!(1.0)), "{one}");
}

/// Most batches of a process see no tick of the kernel's clock, so a quarter of them says nothing.
#[test]
fn what_is_counted_in_ticks_is_compared_by_its_mean() {
    let ticks = |each: f64| {
        move |case: &mut Value| {
            let samples: Vec<f64> =
                (0..40).map(|at| if at % 4 == 3 { each } else { 0.0 }).collect();
            (case["samples"], case["quantity"]) = (json!(samples), json!("user"));
        }
    };
    let one = compared(ticks(400.0), ticks(800.0));
    assert_eq!((&one["a"], &one["b"]), (&json!(100.0), &json!(200.0)), "{one}");
}

/// What a figure was not made of is not given to other tools under its name.
#[test]
fn exports_have_the_samples_of_their_stratum() {
    let place = Place::new();
    let mut report = report(&[("one", 100.0)]);
    let case = &mut report["cases"][0];
    difference(case, -10.0);
    (case["placement"], case["stratum"]) = (json!("other-cpu"), json!("near"));
    (case["samples"][1], case["beside"]["label"][1]) = (json!(4_000.0), json!("slow+far"));
    place.keep("run", &report);
    let export =
        |format: &str| stdout(&place.weir(&["history", "export", "run", "--format", format]));
    let go = export("go");
    assert_eq!(go.lines().count(), 39, "{go}");
    assert!(!go.contains("4000"), "{go}");
    let hyperfine: Value = serde_json::from_str(&export("hyperfine")).expect("JSON");
    let result = &hyperfine["results"][0];
    assert_eq!(result["times"].as_array().map(Vec::len), Some(39));
    assert!(result["max"].as_f64().is_some_and(|max| (max + 9e-9).abs() < 1e-15), "{result}");
}

/// Disks differ: a run is measured again where it was, and another directory is told.
#[test]
fn the_directory_of_a_run_is_kept() {
    let place = Place::new();
    let run = |name: &str, directory: &str| {
        place.report(name, &[("one", 100.0)], |report| report["directory"] = json!(directory))
    };
    let (a, b) = (run("a.json", "/nosuch"), run("b.json", "/other"));
    let text = stdout(&place.weir(&["compare", &a, &b]));
    assert!(text.contains("differs: directory: /nosuch -> /other"), "{text}");
    refused(&place.weir(&["compare", &a]), 1, "cannot measure files in '/nosuch'");
}

/// The run was measured again first, which takes as long as it took then.
#[test]
fn a_bad_name_for_the_json_is_told_before_anything_is_measured() {
    let place = Place::new();
    let a = place.report("a.json", &[("one", 100.0)], |report| {
        // To measure there would fail with another error.
        report["directory"] = json!("/nosuch");
    });
    let output = place.weir(&["compare", &a, "--json", "missing/file"]);
    refused(&output, 1, "weir: cannot write 'missing/file': No such file");
    // A run that was to be measured again was emptied, and lost where that failed.
    let kept = std::fs::read(&a).expect("there");
    refused(&place.weir(&["compare", &a, "--json", &a]), 1, "it is also the input");
    assert!(std::fs::read(&a).expect("there") == kept);
}

/// No time is as long as that, and weir panicked.
#[test]
fn a_budget_that_no_run_has_is_cut() {
    let place = Place::new();
    let a = place.report("a.json", &[("one", 100.0)], |report| {
        (report["directory"], report["budget_s"]) = (json!("/nosuch"), json!(1e300));
    });
    refused(&place.weir(&["compare", &a]), 1, "cannot measure files in '/nosuch'");
}

/// The band was said to be 7.000000000000001 %.
#[test]
fn the_band_is_told_as_it_was_given() {
    let place = Place::new();
    let [a, b] = ["a.json", "b.json"].map(|name| place.report(name, &[("one", 100.0)], |_| {}));
    let text = stdout(&place.weir(&["compare", &a, &b, "--band", "7%"]));
    assert!(text.contains("1 equivalent within 7 %,"), "{text}");
}
