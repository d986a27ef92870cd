//! `weir bench` from outside: what it refuses, what it writes, that it leaves nothing behind, and
//! that every suite's cases do something.

use crate::common::cells::{does_something, request, start_cell, start_cell_to};
use crate::common::hogs::Hogs;
use crate::common::port::{self, said};
use crate::common::{WEIR_BENCH, alone, have, quota, schema};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use weir_bench::engine::case::{Group, Sides, Suite};
use weir_bench::engine::params::{Load, Placement};
use weir_bench::engine::place::Topology;
use weir_bench::engine::record::Report;

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(WEIR_BENCH);
    command.args(args).stdin(Stdio::null()).output().expect("weir starts")
}

fn refused(args: &[&str], status: i32, expected: &str) {
    port::refused(&bench(args), status, expected);
}

/// Where an earlier run had measured that, it was said before the run and after two processes.
#[test]
fn a_budget_that_is_too_short_is_told_once() {
    let state = tempfile::tempdir().expect("a directory");
    for run in ["the first", "the second"] {
        let mut weir = Command::new(WEIR_BENCH);
        weir.args(["limits/memcpy 64 MiB", "--budget", "0.5s", "--quiet"]);
        let output = weir.env("XDG_STATE_HOME", state.path()).output().expect("weir starts");
        // On a fast host it may be long enough.
        let told = said(&output).matches("that an interval needs").count();
        assert!(told <= 1 && output.status.success(), "{run}: {}", said(&output));
    }
}

/// A quick run of a small suite.
const QUICK: [&str; 3] = ["joy-syscall", "--budget", "2.5s"];

#[test]
fn wrong_usage_is_told_in_a_sentence() {
    refused(&["joy-ipcc"], 2, "weir: there is no suite 'joy-ipcc'; did you mean 'joy-ipc'?");
    refused(&["qqq"], 2, "weir: there is no suite 'qqq'; weir bench --list names them");
    refused(&["nosuch"], 2, "weir: there is no suite 'nosuch'; weir bench --list names them");
    refused(&["futex"], 2, "there is no suite 'futex'; --filter 'futex' runs the ");
    let meant = "no case of joy-ipc matches 'two-way weir-recrd 4 B'; \
         did you mean 'two-way weir-record 4 B'?";
    refused(&["limits", "joy-ipc/two-way weir-recrd 4 B"], 2, meant);
    let named = "no case of joy-ipc matches 'qqq'; weir bench --list joy-ipc names them";
    refused(&["joy-ipc/qqq"], 2, named);
    refused(&["joy-ipc/("], 2, "weir: '(' is not a regular expression: found open group");
    refused(&["--filter", "nosuch"], 2, "weir: no case matches nosuch");
    refused(&["--list", "--filter", "nosuch"], 2, "weir: no case matches nosuch");
    refused(&["--json"], 2, "a value is required for '--json <FILE>'");
    refused(
        &["joy-syscall", "--budget", "1ms"],
        2,
        "cases in fresh processes, which need at least ",
    );
    refused(
        &["limits/system", "--budget", "1ms"],
        2,
        "the budget is too small for 1 case in fresh processes, which need at least ",
    );
    refused(&["--budget", "soon"], 2, "not a time; write 20s, 500ms or 5m");
    refused(&["joy-syscall", "--placement", "other-cpu"], 2, "possible: same-cpu, free");
    refused(&["--load", "heavy"], 2, "possible values: none, cpu, copy, memory");
    let missing = "weir: cannot measure files in '/nosuch': No such file or directory";
    refused(&["limits", "--dir", "/nosuch"], 1, missing);
    refused(&["limits", "--dir", "/dev/null"], 1, "not a directory");
}

#[test]
fn a_cpu_outside_of_the_mask_is_refused_and_the_default_set_continues_without() {
    if !have(&["taskset"]) {
        return;
    }
    let first = Topology::read().allowed()[0].to_string();
    let on_one = |args: &[&str]| {
        let mut command = Command::new("taskset");
        command.args(["-c", &first, WEIR_BENCH]).args(args).stdin(Stdio::null());
        command.output().expect("taskset starts")
    };
    let output = on_one(&["joy-switch", "--placement", "other-cpu"]);
    assert_eq!(output.status.code(), Some(2));
    let why = format!(
        "weir: cannot measure at other-cpu: this process may use CPU {first}: two are needed"
    );
    assert!(said(&output).contains(&why), "{}", said(&output));
    let why = format!(
        "weir: nothing was measured at other-cpu: this process may use CPU {first}: two are needed"
    );
    port::refused(&on_one(&["limits/cache-line"]), 1, &why);
    // What has no placement was said to take 0s.
    let list = on_one(&["--list", "port-writers"]).stdout;
    let list = String::from_utf8_lossy(&list).into_owned();
    assert!(list.contains("cannot be measured here") && !list.contains("about 0s"), "{list}");
    let _alone = alone();
    let cases = ["limits/system call", "limits/cache-line"];
    let output = on_one(&[&cases, ["--budget", "1s", "--json=-", "-q"].as_slice()].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = Report::from_json(&String::from_utf8_lossy(&output.stdout)).expect("a report");
    assert!(
        report.notes.iter().any(|note| note.text.contains("nothing was measured at other-cpu"))
    );
    assert!(report.cases.iter().all(|case| case.placement == Placement::SameCpu));
}

#[test]
fn the_list_names_every_suite_and_its_cases() {
    let output = bench(&["--list"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for suite in weir_bench::catalogue() {
        assert!(text.contains(suite.name), "{text}");
    }
    assert!(text.contains(" time  what"), "{text}");
    let output = bench(&["--list", "--json", "-", "joy-ipc/posix-mq", "limits"]);
    let list = schema::check_text("weir.bench.list/1", &output.stdout);
    let suites = list["suites"].as_array().expect("suites");
    let names: Vec<_> = suites.iter().map(|suite| suite["suite"].as_str()).collect();
    assert_eq!(names, [Some("limits"), Some("joy-ipc")]);
    assert!(suites.iter().all(|suite| suite["expected_s"].as_f64() > Some(1.0)));
    let picked = suites[1]["cases"].as_array().expect("cases");
    assert!(!picked.is_empty());
    assert!(picked.iter().all(|case| case["params"]["mechanism"] == "posix-mq"));
    let output = bench(&["--list", "joy-syscall"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("read of 1 byte"));
}

/// The asking side of round trips once opened its ends when its case was made. That started a
/// thread, and the process could then not fork the sides of the cases that were made after it.
#[test]
fn no_case_of_round_trips_keeps_another_from_being_made() {
    let cases = "joy-ipc/two-way weir-record (4|48|64|512) B";
    let output = bench(&["-p", "same-cpu", "-b", "1s", "--json", "-", cases]);
    let report = schema::check_text("weir.bench/1", &output.stdout);
    let text = report.to_string();
    assert!(!text.contains("os error 16"), "{text}");
    let names = report["cases"].as_array().expect("cases").iter();
    assert_eq!(names.filter(|case| case["suite"] == "joy-ipc").count(), 4, "{text}");
}

#[test]
fn the_report_has_what_the_schema_promises() {
    let _alone = alone();
    let output = bench(&[QUICK.as_slice(), &["--json", "-", "--quiet", "--seed", "7"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let json = schema::check_text("weir.bench/1", &output.stdout);
    assert_eq!((&json["seed"], &json["interrupted"]), (&7.into(), &false.into()));
    assert_eq!(json["suites_asked"], serde_json::json!(["joy-syscall"]));
    assert!(json["host"]["kernel"].as_str().is_some_and(|kernel| kernel.starts_with("Linux")));
    assert!(json["self_test"]["sentence"].as_str().is_some_and(|text| text.contains("resolves")));
    let cases = json["cases"].as_array().expect("cases");
    assert!(cases.len() > 10);
    for case in cases {
        let (low, high) = (case["low"].as_f64(), case["high"].as_f64());
        let estimate = case["estimate"].as_f64();
        assert!(low <= estimate && estimate <= high, "{case}");
        let n = case["batches"].as_u64().expect("a number");
        assert_eq!(case["samples"].as_array().map(|samples| samples.len() as u64), Some(n));
        assert!(case["processes"].as_u64() >= Some(6), "{case}");
        assert_eq!((&case["unit"], &case["placement"]), (&"ns".into(), &"same-cpu".into()));
        assert!(case["params"].is_object() && case.get("line_rtt_ns").is_some());
    }
    let read = cases.iter().find(|case| case["case"] == "read of 4096 bytes").expect("there");
    assert_eq!(read["params"]["chunk_bytes"], 4096);
}

#[test]
fn what_cannot_be_written_is_named_after_the_figures_were_shown() {
    let _alone = alone();
    let full = bench(&["joy-syscall/read of 1 byte$", "-b", "0.6s", "--json=/dev/full"]);
    assert_eq!(full.status.code(), Some(1));
    assert!(said(&full).contains("weir: cannot write '/dev/full': No space left on device"));
    assert!(String::from_utf8_lossy(&full.stdout).contains("read of 1 byte"), "nothing shown");
}

#[test]
fn what_could_not_be_written_is_refused_before_anything_is_measured() {
    for option in ["--json=/nonexistent/report.json", "--html=/proc/report.html", "--html=/proc"] {
        let refused = bench(&[QUICK.as_slice(), &[option]].concat());
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        assert!(said(&refused).starts_with("weir: cannot write '/"), "{}", said(&refused));
        assert!(refused.stdout.is_empty(), "measured all the same");
    }
}

/// The look whether the report can be written removed the link, and left an empty file.
#[test]
fn a_link_to_a_file_that_is_not_there_yet_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let [file, link] = ["file", "link"].map(|name| directory.path().join(name));
    std::os::unix::fs::symlink(&file, &link).expect("linked");
    let json = format!("--json={}", link.display());
    refused(&["joy-syscall", "--budget", "1ms", &json], 2, "cases in fresh processes");
    assert!(link.is_symlink() && !file.exists());
}

/// Direct children of a process.
fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    text.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// What the kernel says of a process; nothing once it is gone.
fn stat(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()
}

fn is_running(pid: u32) -> bool {
    let stat = stat(pid);
    !stat.is_empty() && !stat.contains(") Z ")
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        // sleep: between two looks at /proc.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A run across CPUs that has started a cell, which has started the other side.
fn started() -> (Child, Vec<u32>) {
    let mut command = Command::new(WEIR_BENCH);
    command.args(["joy-switch", "--budget", "60s"]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).env("TMPDIR", "/tmp");
    let weir = command.spawn().expect("weir starts");
    let mut family = Vec::new();
    wait_until("a cell has children", || {
        let cells = children(weir.id());
        family = cells.iter().flat_map(|cell| children(*cell)).chain(cells.clone()).collect();
        family.len() > cells.len()
    });
    (weir, family)
}

#[test]
fn killed_in_the_middle_it_leaves_no_process() {
    let (mut weir, family) = started();
    weir.kill().expect("killed");
    weir.wait().expect("reaped");
    wait_until("all its processes are gone", || !family.iter().any(|pid| is_running(*pid)));
}

#[test]
fn interrupted_it_says_so_and_leaves_no_process() {
    let (weir, family) = started();
    weir_measure::sys::signals::send(weir.id() as i32, 2).expect("sent");
    let output = weir.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(said(&output).contains("weir: interrupted"), "{}", said(&output));
    wait_until("all its processes are gone", || !family.iter().any(|pid| is_running(*pid)));
}

/// Ctrl-C after some passes: weir reports what it has measured, and says that it is incomplete.
#[test]
fn interrupted_later_it_keeps_what_was_measured() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("report.json");
    let mut command = Command::new(WEIR_BENCH);
    command.args(["joy-syscall/read", "--budget", "6s", "--json"]).arg(&file);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let weir = command.spawn().expect("weir starts");
    let mut seen = std::collections::BTreeSet::new();
    wait_until("five cells have been there", || {
        seen.extend(children(weir.id()));
        seen.len() > 5
    });
    weir_measure::sys::signals::send(weir.id() as i32, 2).expect("sent");
    let output = weir.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains("weir: interrupted: the report holds what was measured"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("interrupted after ") && text.contains("read of 1 byte"), "{text}");
    let json = schema::check_text("weir.bench/1", &std::fs::read(&file).expect("written"));
    assert_eq!(json["interrupted"], true);
    let cases = json["cases"].as_array().expect("cases");
    assert!(!cases.is_empty() && cases.iter().all(|case| case["processes"].as_u64() >= Some(2)));
}

/// What nohup starts once ended at HUP, since weir listened to it although it was ignored.
#[test]
fn at_a_hangup_that_was_ignored_it_continues_and_the_next_interrupt_is_the_first() {
    let _alone = alone();
    let script = format!("trap '' HUP; exec '{WEIR_BENCH}' joy-syscall/read --budget 6s");
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut weir = command.spawn().expect("sh starts");
    let mut seen = std::collections::BTreeSet::new();
    for (signal, cells) in [(1, 5), (2, 8)] {
        wait_until("more cells have been there", || {
            seen.extend(children(weir.id()));
            assert_eq!(weir.try_wait().expect("looked"), None, "it has ended");
            seen.len() > cells
        });
        weir_measure::sys::signals::send(weir.id() as i32, signal).expect("sent");
    }
    let output = weir.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains("weir: interrupted: the report holds what was measured"));
}

/// Two hogs use the CPUs: the report must not say "load none" and a quiet host, but a busy one.
#[test]
fn what_others_do_with_the_cpus_is_seen_and_told() {
    let _alone = alone();
    let hogs = Hogs::start(2);
    let output = bench(&["joy-syscall/getppid$", "-b", "1s", "--json", "/dev/stderr"]);
    drop(hogs);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("weir: the host is busy: others used "), "{text}");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("CPUs while it ran (busy: figures of a busy host)"), "{shown}");
    let json = text.lines().find(|line| line.starts_with('{')).expect("a report");
    let json = schema::check_text("weir.bench/1", json.as_bytes());
    let state = &json["host"]["state"];
    assert_eq!((&json["load"], &state["busy"]), (&"none".into(), &true.into()));
    for when in ["before", "during"] {
        assert!(state[when]["others_cpus"].as_f64() > Some(0.5), "{when}: {state}");
    }
}

#[test]
fn every_suite_does_something() {
    let _alone = alone();
    // All groups of the other two have tests of their own.
    let others = |suite: &Suite| !matches!(suite.name, "allen-echo" | "joy-switch");
    for suite in weir_bench::catalogue().into_iter().filter(others) {
        // The first and the last, which is the same where there is one.
        let last = suite.groups.len() - 1;
        does_something(&suite, (0..=last).step_by(last.max(1)));
    }
}

/// The groups differ in what answers, and in what it is asked for.
#[test]
fn every_group_of_allen_echo_does_something() {
    let _alone = alone();
    let suite = weir_bench::allen_echo::suite();
    does_something(&suite, 0..suite.groups.len());
}

/// Some of them start a thousand processes.
#[test]
fn every_group_of_joy_switch_does_something() {
    let _alone = alone();
    let suites = weir_bench::catalogue();
    let suite = suites.iter().find(|suite| suite.name == "joy-switch").expect("there is one");
    does_something(suite, 0..suite.groups.len());
}

/// A switch has its names in a directory beside other temporary files, and is a process of its own.
#[test]
fn a_cell_that_is_killed_leaves_no_switch() {
    killed_it_leaves_nothing(&weir_bench::allen_echo::suite(), "icmp, weir");
}

/// A server of files continued for ever.
#[test]
fn a_cell_that_is_killed_leaves_no_server() {
    killed_it_leaves_nothing(&weir_bench::net_tftp::suite(), "weir tftp 512 B, from weir");
}

fn killed_it_leaves_nothing(suite: &Suite, name: &str) {
    let _alone = alone();
    let has_it = |group: &Group| group.cases.iter().any(|case| case.name == name);
    let group = suite.groups.iter().position(has_it).expect("there is one");
    let directory = tempfile::tempdir().expect("a directory");
    let mut request = request(suite, group, directory.path(), 60_000_000_000);
    request.cases = vec![name.to_owned()];
    let mut child = start_cell(&request);
    let (mut family, mut line) = (Vec::new(), String::new());
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    // When the first line is printed, all hosts are up or left out.
    lines.read_line(&mut line).expect("a line");
    let mut next = vec![child.id()];
    while let Some(pid) = next.pop() {
        next.extend(children(pid));
        family.extend(children(pid));
    }
    if family.is_empty() {
        eprintln!("SKIPPED: {line}");
    }
    child.kill().expect("killed");
    child.wait().expect("reaped");
    wait_until("all its processes are gone", || !family.iter().any(|pid| is_running(*pid)));
}

/// The readers of two cases looked without end, also while others were timed on their CPU: a record
/// pipe beside the bare lanes seemed to take twice as long.
#[test]
fn between_two_batches_the_other_sides_of_all_cases_sleep() {
    let _alone = alone();
    let Ok(cpus) = Topology::read().find(Placement::OtherCpu) else {
        eprintln!("SKIPPED: there is one CPU");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    // In these suites sides spin, and a round is soon over.
    let spins = |suite: &Suite| matches!(suite.name, "limits" | "joy-ipc");
    for suite in weir_bench::catalogue().into_iter().filter(spins) {
        let has_two_sides = |group: &usize| suite.groups[*group].sides == Sides::Two;
        for group in (0..suite.groups.len()).filter(has_two_sides) {
            let mut request = request(&suite, group, directory.path(), 600_000_000_000);
            (request.site.placement, request.site.cpus) = (Placement::OtherCpu, cpus.clone());
            request.counts = vec![Some(16); request.cases.len()];
            // Nobody reads what the cell writes. So it soon waits for room, after a round.
            let (_unread, output) = rustix::pipe::pipe().expect("a pipe");
            rustix::pipe::fcntl_setpipe_size(&output, 4096).expect("made small");
            let mut cell = start_cell_to(&request, output.into());
            let mut asleep = 0;
            wait_until("all sleep", || {
                // It ends if the host lacks what all of its cases need.
                if cell.try_wait().expect("asked").is_some() {
                    return true;
                }
                let family = children(cell.id());
                let all = family.iter().chain([&cell.id()]).all(|pid| stat(*pid).contains(") S "));
                asleep = if all && !family.is_empty() { asleep + 1 } else { 0 };
                asleep == 50
            });
            cell.kill().expect("killed");
            cell.wait().expect("reaped");
        }
    }
}

/// The writer and the reader of the second pair shared a CPU, whatever the placement.
#[test]
fn both_pairs_of_bbn_loaded_are_where_the_placement_says() {
    let Ok(cpus) = Topology::read().find(Placement::OtherCpu) else { return };
    let suites = weir_bench::catalogue();
    let suite = suites.iter().find(|suite| suite.name == "bbn-loaded").expect("there is one");
    let mut request = request(suite, 0, &std::env::temp_dir(), 600_000_000_000);
    request.cases = vec![String::from("two pairs and a copy, 64 B")];
    (request.site.placement, request.site.cpus) = (Placement::OtherCpu, cpus);
    let mut cell = start_cell(&request);
    let is_apart =
        |writer: &u32| children(*writer).iter().any(|it| cpus_of(*it) != cpus_of(*writer));
    wait_until("the second pair is apart", || children(cell.id()).iter().any(is_apart));
    let _ = (cell.kill(), cell.wait());
}

/// The CPUs on which a process may run, as the kernel lists them.
fn cpus_of(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_owned()
}

/// Starts a cell of a system call beside a load.
fn start_beside(load: Load, time_ns: u64) -> Child {
    let suites = weir_bench::catalogue();
    let suite = suites.iter().find(|suite| suite.name == "joy-syscall").expect("there is one");
    let mut request = request(suite, 0, &std::env::temp_dir(), time_ns);
    (request.cases, request.site.load) = (vec![String::from("no such call")], load);
    start_cell(&request)
}

/// `--load cpu` loaded the measured CPU alone, and the other loads were on that CPU too.
#[test]
fn a_load_is_on_each_cpu_or_wherever_the_kernel_puts_it() {
    let each: Vec<String> = Topology::read().allowed().iter().map(usize::to_string).collect();
    let all = cpus_of(std::process::id());
    for (load, expected) in [(Load::Cpu, each), (Load::Memory, vec![all])] {
        let mut cell = start_beside(load, 600_000_000_000);
        let found = || children(cell.id()).into_iter().map(cpus_of).collect::<Vec<_>>();
        wait_until("the load is where it belongs", || found() == expected);
        let _ = (cell.kill(), cell.wait());
    }
}

/// Figures named a load that the kernel had killed, and later still those of the round in which it was.
#[test]
fn a_load_that_has_ended_is_told() {
    let suites = weir_bench::catalogue();
    let suite = suites.iter().find(|suite| suite.name == "buffers").expect("there is one");
    let mut request = request(suite, 1, &std::env::temp_dir(), 1_000_000_000);
    // A batch of it takes more than a second.
    (request.cases, request.site.load) = (vec![String::from("bursts, pipe")], Load::Cpu);
    let cell = start_cell(&request);
    let mut load = Vec::new();
    wait_until("the load runs", || {
        load = children(cell.id());
        !load.is_empty()
    });
    weir_measure::sys::signals::send(load[0] as i32, 9).expect("sent");
    let output = cell.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("what ran beside it has ended") && !text.contains("Batch"), "{text}");
}

/// Figures of a group that had used up its quota were those of a free host.
#[test]
fn a_bench_says_what_a_quota_took() {
    let _alone = alone();
    let Some(group) = quota::Group::make() else {
        eprintln!("SKIPPED: no control group with a CPU quota can be made here");
        return;
    };
    let mut inside = group.command(WEIR_BENCH);
    inside.args(["-b", "4s", "joy-syscall/getppid.*", "--json", "-"]);
    let output = inside.output().expect("bash");
    let report: weir_bench::engine::record::Report =
        serde_json::from_slice(&output.stdout).expect("a report");
    let state = report.host.state;
    let during = state.during.expect("watched");
    assert!(during.throttled_cpus > 0.0, "{during:?}");
    assert!(state.text.contains("a CPU quota took"), "{}", state.text);
}
