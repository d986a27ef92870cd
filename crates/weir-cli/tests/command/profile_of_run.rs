//! `weir run --profile`: programs whose hot function is known by construction.
//!
//! The program is this test's own file: [`the_program_that_computes`] computes in one function when
//! it is asked to. It is not stripped, so its functions have names.

use crate::common::{Ran, have, schema, truth, weir_run};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const ASKED: &str = "WEIR_TEST_COMPUTES_S";
/// Whether the program removes its own file before.
const REMOVES: &str = "WEIR_TEST_REMOVES_ITSELF";

#[inline(never)]
fn the_hot_function_of_this_test(seconds: f64) -> u64 {
    let begun = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let mut sum = 0_u64;
    loop {
        // No call within: a build for tests inlines none.
        let mut at = 0_u64;
        while at < 4_000_000 {
            sum = (sum ^ at) >> 1;
            at += 1;
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let used = (now.tv_sec - begun.tv_sec) as f64 + (now.tv_nsec - begun.tv_nsec) as f64 / 1e9;
        if used >= seconds {
            return std::hint::black_box(sum);
        }
    }
}

/// Computes if it is asked to; in a run of the tests it is not.
#[test]
fn the_program_that_computes() {
    if let Some(seconds) = std::env::var(ASKED).ok().and_then(|text| text.parse().ok()) {
        if std::env::var_os(REMOVES).is_some() {
            std::fs::remove_file(own()).expect("removed");
        }
        the_hot_function_of_this_test(seconds);
    }
}

/// The words that compute for so long, as a shell takes them.
fn computes(program: &Path, seconds: f64) -> String {
    let program = program.display();
    let test = concat!(module_path!(), "::the_program_that_computes");
    let test = test.split_once("::").expect("the test program's own name").1;
    format!("env {ASKED}={seconds} '{program}' --exact {test} --test-threads 1")
}

fn own() -> std::path::PathBuf {
    std::env::current_exe().expect("this test")
}

/// The samples of a stage; `None` where none can be taken here.
fn sampled(ran: &Ran, stage: Option<u64>) -> Option<Value> {
    let profile = &ran.json["profile"];
    assert!(profile.is_object(), "{}", ran.stderr());
    if let Some(why) = profile["refused"].as_str() {
        eprintln!("SKIPPED: {why}");
        assert!(ran.stderr().contains("no functions: "), "{}", ran.stderr());
        return None;
    }
    let stages = profile["stages"].as_array().expect("stages");
    Some(stages.iter().find(|one| one["stage"].as_u64() == stage).cloned().expect("the stage"))
}

fn share_of(hot: &Value, name: &str) -> f64 {
    let functions = hot["functions"].as_array().expect("functions");
    let named = |one: &&Value| one["name"].as_str().is_some_and(|found| found.contains(name));
    functions.iter().filter(named).filter_map(|one| one["share"].as_f64()).sum()
}

#[test]
fn the_function_that_computes_is_named_with_its_share_and_its_file() {
    truth(|| {
        let text = format!("{} | cat", computes(&own(), 0.8));
        let ran = weir_run(&["--profile", &text]);
        assert_eq!(ran.code(), 0, "{}", ran.stderr());
        let Some(hot) = sampled(&ran, Some(1)) else { return };
        let (said, samples) = (ran.stderr(), hot["samples"].as_u64().expect("samples"));
        assert!(share_of(&hot, "the_hot_function_of_this_test") > 0.8, "{said}\n{hot}");
        // Samples are CPU time: 499 for each second of it.
        let cpu_s = ran.stage(1, "user_s") + ran.stage(1, "sys_s");
        let expected = cpu_s * 499.0;
        assert!((samples as f64 - expected).abs() < 0.15 * expected + 5.0, "{samples} {expected}");
        let first = &hot["functions"][0];
        let file = own().file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!((first["in"].as_str(), &first["kernel"]), (Some(file.as_str()), &false.into()));
        assert!(said.contains(&format!("n = {samples} samples on a CPU")), "{said}");
        assert!(said.contains("the_hot_function_of_this_test "), "{said}");
        assert_eq!(ran.culprit(), 1, "{said}");
    });
}

#[test]
fn what_a_stage_starts_counts_as_the_stage_and_a_script_counts_as_a_whole() {
    let hot = computes(&own(), 0.4);
    let text = format!("sh -c \"{hot}; exec {hot}\" | cat");
    let ran = weir_run(&["--profile", &text]);
    if let Some(hot) = sampled(&ran, Some(1)) {
        assert!(share_of(&hot, "the_hot_function_of_this_test") > 0.8, "{hot}");
        // Also one that was started before its parent could be sampled; and none counts twice.
        let samples = hot["samples"].as_u64().expect("samples") as f64;
        let expected = 499.0 * (ran.stage(1, "user_s") + ran.stage(1, "sys_s"));
        assert!((samples - expected).abs() < 0.2 * expected, "{samples} {expected}: {hot}");
    }
    let ran = weir_run(&["--profile", &format!("for i in 1 2; do {hot}; done")]);
    if let Some(hot) = sampled(&ran, None) {
        assert!(share_of(&hot, "the_hot_function_of_this_test") > 0.8, "{hot}");
        assert!(ran.stderr().contains("where in all that the script started"), "{}", ran.stderr());
    }
}

/// It was sampled, and nothing was said of it.
#[test]
fn a_brief_report_has_the_functions_that_were_asked_for() {
    let text = format!("{} | cat", computes(&own(), 0.2));
    let said = weir_run(&["--brief", "--profile", &text]).stderr();
    assert!(said.contains("where in 1 ") || said.contains("no functions: "), "{said}");
    assert!(!said.contains("  time "), "{said}");
}

#[test]
fn what_the_kernel_does_for_a_stage_is_named_too() {
    let ran =
        weir_run(&["--profile", "dd if=/dev/zero of=/dev/null bs=1M count=8000 2> /dev/null"]);
    let Some(hot) = sampled(&ran, Some(1)) else { return };
    if ran.json["profile"]["kernel"] == false {
        assert!(ran.stderr().contains("functions of the kernel were not sampled"));
        return;
    }
    let functions = hot["functions"].as_array().expect("functions");
    let kernel = functions.iter().filter(|one| one["kernel"] == true);
    let share: f64 = kernel.filter_map(|one| one["share"].as_f64()).sum();
    assert!(share > 0.6, "{hot}");
}

#[test]
fn a_program_without_symbols_is_one_row_and_the_report_says_what_would_help() {
    if !have(&["strip"]) {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let stripped = place.path().join("stripped");
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(own()).status().expect("strip");
    assert!(status.success());
    let ran = weir_run(&["--profile", &computes(&stripped, 0.4)]);
    let Some(hot) = sampled(&ran, Some(1)) else { return };
    let first = &hot["functions"][0];
    assert_eq!((first["name"].as_str(), first["in"].as_str()), (None, Some("stripped")), "{hot}");
    assert!(hot["unnamed_samples"].as_u64() >= first["samples"].as_u64(), "{hot}");
    let said = ran.stderr();
    assert!(said.contains("(no symbol)") && said.contains("code without symbols"), "{said}");
}

#[test]
fn a_program_that_is_removed_while_it_runs_keeps_its_names() {
    let place = tempfile::tempdir().expect("a directory");
    let copy = place.path().join("copy");
    crate::common::copy_program(own(), &copy);
    let text = format!("{REMOVES}=1 {} | cat", computes(&copy, 0.6));
    let ran = weir_run(&["--profile", &text]);
    assert!(!copy.exists(), "it removed itself");
    let Some(hot) = sampled(&ran, Some(1)) else { return };
    assert!(share_of(&hot, "the_hot_function_of_this_test") > 0.5, "{hot}");
}

#[test]
fn code_that_node_writes_is_named_by_its_list() {
    if !have(&["node"]) {
        return;
    }
    let text = "function warm(n){let s=0;for(let i=0;i<n;i++)s=(s*31+i)|0;return s} \
                let t=process.cpuUsage().user,r=0; \
                while(process.cpuUsage().user-t<600000)r+=warm(100000); require('fs').writeSync(1,r+'');\
                require('fs').writeSync(2,'PID '+process.pid+'\\n')";
    // It logs where it stands, if it is not told otherwise.
    let place = tempfile::tempdir().expect("a directory");
    let log =
        format!("--no-logfile-per-isolate --logfile='{}'", place.path().join("log").display());
    let text = format!("node --perf-basic-prof {log} -e \"{text}\"");
    let ran = weir_run(&["--profile", &text]);
    let said = ran.stderr();
    let pid = said.lines().find_map(|line| line.strip_prefix("PID ")).map(str::to_owned);
    let found = sampled(&ran, Some(1));
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", pid.expect("its number")));
    let Some(hot) = found else { return };
    assert!(share_of(&hot, "warm") > 0.5, "{hot}");
}

#[test]
fn where_nothing_may_be_sampled_the_run_is_as_without() {
    if !have(&["setpriv"]) || !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: needs root and setpriv");
        return;
    }
    // A user without rights: by kernel.perf_event_paranoid its own functions, or none at all.
    let place = tempfile::tempdir().expect("a directory");
    let copy = place.path().join("weir");
    crate::common::copy_program(crate::common::WEIR, &copy);
    let allow = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("a mode");
    };
    allow(place.path());
    allow(&copy);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
    command.arg(&copy).args(["run", "--profile", "--json", "-", "--quiet"]);
    command.args(["sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 7'"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("setpriv");
    crate::common::bound(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(7));
    let json = schema::check_text("weir.run/1", &output.stdout);
    let profile = &json["profile"];
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid: i32 = paranoid.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(2);
    assert_eq!(profile["refused"].is_string(), paranoid > 2, "{profile}");
    assert_eq!(profile["kernel"], paranoid < 2, "{profile}");
    if paranoid == 2 {
        assert!(profile["gaps"][0].as_str().is_some_and(|gap| gap.contains("paranoid is 2")));
        assert!(profile["stages"][0]["samples"].as_u64() > Some(20), "{profile}");
    }
}

#[test]
fn a_comparison_takes_no_profile() {
    let ran = weir_run(&["--profile", "--compare", "true", "false"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr().contains("cannot be used with"), "{}", ran.stderr());
}
