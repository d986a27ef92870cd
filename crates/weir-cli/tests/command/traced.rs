//! `--trace`: times by state from the kernel's own events, and samples where these cannot be had.

use crate::common::{WEIR, have, schema, weir_run};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Whether the run was traced; prints why not.
fn is_traced(report: &Value) -> bool {
    let trace = &report["trace"];
    assert!(trace.is_object(), "{report}");
    match trace["refused"].as_str() {
        Some(why) => eprintln!("SKIPPED: {why}"),
        None => assert!(trace["events"].as_u64() > Some(0), "{trace}"),
    }
    trace["refused"].is_null()
}

/// A stage sleeps half a second in a child, the next waits for it: the parts add up to the wall
/// time, and each wait is what it was.
#[test]
fn a_traced_run_has_the_waits_of_its_stages() {
    // sleep: what is waited for is time.
    let ran = weir_run(&["--trace", "--verbose", "(sleep 0.5; echo a) | cat"]);
    assert_eq!((ran.code(), ran.stdout().as_str()), (0, "a\n"), "{}", ran.stderr());
    schema::check("weir.run/1", &ran.json);
    if !is_traced(&ran.json) {
        return assert!(ran.stderr().contains("sampled, not traced: "), "{}", ran.stderr());
    }
    assert!(ran.stderr().contains("events of the scheduler"), "{}", ran.stderr());
    let slept = ran.json["stages"][0]["blocked_other"]["sleep_s"].as_f64().expect("a time");
    // They were "sampled".
    let evidence = &ran.json["stages"][0]["evidence"];
    assert_eq!(
        (&evidence["blocked"], &evidence["cpu_and_runq"]),
        (&"traced".into(), &"traced".into())
    );
    assert!(slept >= 0.45, "{}", ran.json["stages"][0]);
    assert!(ran.stage(2, "blocked_in_s") >= 0.45, "{}", ran.json["stages"][1]);
    for stage in 1..=2 {
        let parts = ["cpu_s", "runq_s", "blocked_in_s", "blocked_out_s", "blocked_other_s"];
        let sum: f64 = parts.iter().map(|part| ran.stage(stage, part)).sum();
        assert!((sum - ran.stage(stage, "wall_s")).abs() < 0.001, "{}", ran.json["stages"]);
    }
}

/// Each command of a script has its own waits, although none was there at the first tick.
#[test]
fn what_a_script_starts_is_traced_by_itself() {
    // sleep: what is waited for is time.
    let ran = weir_run(&["--trace", "true; sleep 0.4; (sleep 0.3; echo b) | cat; true"]);
    assert_eq!((ran.code(), ran.stdout().as_str()), (0, "b\n"), "{}", ran.stderr());
    schema::check("weir.run/1", &ran.json);
    if is_traced(&ran.json) {
        let waited = ran.stage(ran.running("cat"), "blocked_in_s");
        assert!(waited >= 0.2, "{}", ran.stderr());
    }
}

#[test]
fn without_the_right_to_trace_it_samples_and_says_why() {
    if !have(&["setpriv"]) {
        return;
    }
    let mut command = Command::new("setpriv");
    command.args(["--inh-caps=-all", "--bounding-set=-all", WEIR, "run", "--trace", "true | cat"]);
    let ran = command.stdin(Stdio::null()).output().expect("setpriv");
    let said = String::from_utf8_lossy(&ran.stderr);
    if said.starts_with("setpriv: ") {
        return eprintln!("SKIPPED: {said}");
    }
    assert!(ran.status.success(), "{said}");
    let lines = said.lines().filter(|line| line.starts_with("sampled, not traced: "));
    assert_eq!(lines.count(), 1, "{said}");
}

/// A process that waits all the time while it is watched makes no event: a look tells its state.
#[test]
fn a_watched_process_that_never_moves_is_known_all_the_same() {
    // With the pipes of the tests as its own it would have all their processes watched.
    let mut sleep = Command::new("sleep");
    sleep.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut sleep = sleep.spawn().expect("sleep");
    let mut watch = Command::new(WEIR);
    watch.args(["watch", &sleep.id().to_string(), "--for", "300ms", "--trace", "--json", "-"]);
    let ran = watch.output().expect("weir");
    sleep.kill().and_then(|()| sleep.wait()).expect("it ends");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let report = schema::check_text("weir.run/1", &ran.stdout);
    assert!(report["trace"].is_object(), "{report}");
    let stage = &report["stages"][0];
    let (slept, wall) = (stage["blocked_other"]["sleep_s"].as_f64(), stage["wall_s"].as_f64());
    assert!(slept.expect("a time") > 0.9 * wall.expect("a time"), "{stage}");
}
