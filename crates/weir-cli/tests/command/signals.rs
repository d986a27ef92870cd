//! Signals and job control: what reaches the stages, and how weir ends.

use crate::common::{WEIR, bound, have};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// weir as the leader of its own process group, as an interactive shell starts it. The first line
/// that the pipeline prints shows that it runs.
struct Job {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    report: tempfile::NamedTempFile,
}

impl Job {
    fn start(text: &str) -> Job {
        let report = tempfile::NamedTempFile::new().expect("a file");
        let mut child = Command::new(WEIR)
            .args(["run", "--json"])
            .arg(report.path())
            .arg(text)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("weir starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "up\n");
        Job { child, output, report }
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for the end, and returns the rest of what was printed on both outputs.
    fn end(mut self) -> (std::process::ExitStatus, String, String, serde_json::Value) {
        let (mut out, mut err) = (String::new(), String::new());
        self.output.read_to_string(&mut out).expect("read");
        self.child.stderr.take().expect("piped").read_to_string(&mut err).expect("read");
        let status = self.child.wait().expect("ends");
        let text = std::fs::read_to_string(self.report.path()).unwrap_or_default();
        (status, out, err, serde_json::from_str(&text).unwrap_or_default())
    }
}

/// A stage that prints a line once it can be interrupted. (A shell that is just starting a child
/// has its own handlers for a moment, and loses an interrupt that comes then.)
const SLEEPER: &str = "perl -e '$|=1; print \"up\\n\"; sleep 60'";

#[test]
fn an_interrupt_reaches_the_stages_and_weir_dies_of_it_after_its_report() {
    let job = Job::start(&format!("true; {SLEEPER}; true"));
    kill_process_group(job.group(), Signal::INT).expect("sent");
    let (status, _, said, _) = job.end();
    assert_eq!(status.signal(), Some(2), "{said}");
    let job = Job::start(&format!("{SLEEPER} | cat"));
    kill_process_group(job.group(), Signal::INT).expect("sent");
    let (status, _, said, json) = job.end();
    assert_eq!(status.signal(), Some(2), "{said}");
    assert!(said.contains("SIGINT"), "{said}");
    assert_eq!(json["stages"][0]["exit"]["signal"], 2);
}

#[test]
fn a_stage_that_handles_the_interrupt_decides_itself() {
    let script =
        "perl -e '$|=1; $SIG{INT}=sub{print \"caught\\n\"; exit 0}; print \"up\\n\"; sleep 60'";
    let job = Job::start(script);
    kill_process_group(job.group(), Signal::INT).expect("sent");
    let (status, out, said, _) = job.end();
    assert_eq!((status.code(), out.as_str()), (Some(0), "caught\n"), "{said}");
}

#[test]
fn a_termination_of_weir_ends_all_that_it_started() {
    let parent =
        "perl -e '$|=1; if(!fork){print \"up\\n\"; sleep 61; print \"no\\n\"} else {wait}'";
    let job = Job::start(&format!("{parent} | cat"));
    kill_process(job.group(), Signal::TERM).expect("sent");
    let (status, out, said, json) = job.end();
    assert_eq!((status.signal(), out.as_str()), (Some(15), ""), "{said}");
    assert_eq!(json["stages"][0]["exit"]["signal"], 15, "{said}");
}

#[test]
fn what_was_ignored_when_weir_started_stays_ignored() {
    if !have(&["sh"]) {
        return;
    }
    let script = format!("trap '' INT; exec {WEIR} run -q 'grep SigIgn /proc/self/status | cat'");
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh");
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    let mask = line.trim().rsplit('\t').next().map(|hex| u64::from_str_radix(hex, 16));
    assert_eq!(mask.expect("a mask").expect("hexadecimal") & 2, 2, "{line}");
}

/// What nohup starts once died of HUP, since weir listened to it although it was ignored.
#[test]
fn a_watch_continues_at_a_hangup_that_was_ignored_and_ends_at_an_interrupt() {
    if !have(&["sh", "sleep"]) {
        return;
    }
    let mut watched = Command::new("sleep").arg("100").spawn().expect("sleep starts");
    let options = format!("{} --interval 20ms --json -", watched.id());
    let script = format!("trap '' HUP; exec {WEIR} watch {options}");
    let mut weir = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn();
    let weir = weir.as_mut().expect("sh");
    bound(weir);
    let mut reports = BufReader::new(weir.stdout.take().expect("piped")).lines();
    let mut is_reported = || reports.next().is_some_and(|report| report.is_ok());
    assert!(is_reported(), "weir listens to signals before its first report");
    kill_process(Pid::from_child(weir), Signal::HUP).expect("sent");
    // At a signal that it heeds, weir writes the report at hand and ends.
    let goes_on = (0..20).all(|_| is_reported());
    kill_process(Pid::from_child(weir), Signal::INT).expect("sent");
    while is_reported() {}
    let status = weir.wait().expect("ends");
    watched.kill().and_then(|()| watched.wait()).expect("it was there");
    assert!(goes_on && status.success(), "{status}");
}

#[test]
fn a_caller_that_ignores_its_children_does_not_make_weir_hang() {
    let script = format!("trap '' CHLD; exec {WEIR} run -q 'echo one | cat; exit 3'");
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh");
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"one\n"[..], Some(3)));
}

#[test]
fn stages_keep_their_own_limit_of_open_files() {
    let script = format!("ulimit -S -n 77; {WEIR} run -q 'ulimit -n | cat | cat'");
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "77\n");
}

#[test]
fn while_the_job_is_stopped_the_clock_stands_still() {
    let job = Job::start(&format!("{SLEEPER} | cat"));
    let start = Instant::now();
    kill_process_group(job.group(), Signal::STOP).expect("sent");
    await_state(job.child.id(), 'T');
    let pause = Duration::from_millis(1500);
    // sleep: the length of the stop is what is measured.
    std::thread::sleep(pause);
    kill_process_group(job.group(), Signal::CONT).expect("sent");
    // A process that dies before weir gets a CPU again looks like one that was never continued.
    await_state(job.child.id(), 'S');
    // When weir was stopped in the middle of a sample, it once took the stop for the cost of the
    // sample, and took no sample for a minute.
    // sleep: lets weir run on for a while before it is ended.
    std::thread::sleep(Duration::from_millis(100));
    kill_process_group(job.group(), Signal::INT).expect("sent");
    let (_, _, said, json) = job.end();
    let elapsed = start.elapsed().as_secs_f64();
    let (wall, stopped) = (json["wall_s"].as_f64(), json["stopped_s"].as_f64());
    let (wall, stopped) = (wall.expect("wall"), stopped.expect("stopped"));
    assert!(stopped > 1.2, "{stopped} s of 1.5 s: {said}");
    assert!(wall < elapsed - 1.2, "{wall} of {elapsed}");
    assert!(said.contains("not counting"), "{said}");
}

#[test]
fn a_stage_stopped_alone_is_shown_as_stopped() {
    let job = Job::start("sh -c 'echo up; kill -STOP $$; echo on' | cat");
    // sleep: how long the stage stays stopped is what is measured.
    std::thread::sleep(Duration::from_millis(600));
    let stage = stage_of(job.child.id());
    kill_process(stage, Signal::CONT).expect("sent");
    let (status, out, said, json) = job.end();
    assert_eq!((status.code(), out.as_str()), (Some(0), "on\n"), "{said}");
    let stopped = json["stages"][0]["blocked_other"]["stopped_s"].as_f64();
    assert!(stopped > Some(0.3), "{json}");
}

/// Waits, for at most ten seconds, until the process is in this state.
fn await_state(pid: u32, wanted: char) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(wanted)) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("process {pid} does not come to state {wanted}");
}

/// The child of weir that is stopped.
fn stage_of(weir: u32) -> Pid {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let stopped = entries.flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit(')').next()?.split_ascii_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?);
        (state == "T" && parent == weir.to_string()).then_some(pid)
    });
    Pid::from_raw(stopped.expect("a stopped stage")).expect("positive")
}

/// Under nohup, and in the background of a script, signals are ignored, and the processes of these
/// tests would inherit that. So `.cargo/config.toml` makes cargo run them with the defaults.
#[test]
fn tests_run_with_default_signals() {
    if std::env::var_os("CARGO").is_none() {
        eprintln!("SKIPPED: not started by cargo");
        return;
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    let ignored = u64::from_str_radix(ignored.trim(), 16).expect("a number");
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let bit = ignored >> (signal.as_raw() - 1) & 1;
        assert_eq!(bit, 0, "{signal:?} is ignored: {ignored:x}");
    }
}
