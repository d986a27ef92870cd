//! Stops of a job, whatever ends it: the time of a stop counts for nothing.

use crate::common::{WEIR, bound};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long the stops last. A job that sleeps for a second is sooner over.
const STOP: Duration = Duration::from_secs(3);

/// weir as the leader of its own process group, as an interactive shell starts it.
struct Job {
    begun: Instant,
    child: Child,
    output: BufReader<ChildStdout>,
    report: tempfile::NamedTempFile,
}

impl Job {
    fn start(text: &str) -> Job {
        let report = tempfile::NamedTempFile::new().expect("a file");
        let mut command = Command::new(WEIR);
        command.args(["run", "-q", "--json"]).arg(report.path()).arg(text).process_group(0);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn().expect("weir starts");
        bound(&child);
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Job { begun, child, output, report }
    }

    /// Starts a pipeline that prints a line once it runs.
    fn up(text: &str) -> Job {
        let mut job = Job::start(text);
        let mut line = String::new();
        job.output.read_line(&mut line).expect("a line");
        assert_eq!(line, "up\n");
        job
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until weir is stopped, and lets it be so for a while.
    fn rest(&self) {
        let pid = self.child.id();
        // In state D it waits for a stage that was stopped before its exec (vfork).
        await_that(|| matches!(state(pid), Some('T' | 'D')), "weir is not stopped");
        // sleep: the length of the stop is what is measured.
        std::thread::sleep(STOP);
    }

    fn end(mut self) -> Ended {
        let status = self.child.wait().expect("ends");
        let all = self.begun.elapsed();
        let text = std::fs::read_to_string(self.report.path()).unwrap_or_default();
        Ended { status, all, json: serde_json::from_str(&text).unwrap_or_default() }
    }
}

/// A job that has ended.
struct Ended {
    status: ExitStatus,
    /// The time from before its start to after its end.
    all: Duration,
    json: Value,
}

/// The state of a process, as `/proc` shows it.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

fn await_that(mut holds: impl FnMut() -> bool, otherwise: &str) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "{otherwise}");
        std::thread::yield_now();
    }
}

/// The wall times of the stages, which their parts make up.
fn walls(json: &Value) -> Vec<f64> {
    let parts = ["cpu_s", "runq_s", "blocked_in_s", "blocked_out_s", "blocked_other_s"];
    let stages = json["stages"].as_array().into_iter().flatten();
    stages.map(|stage| parts.iter().filter_map(|part| stage[part].as_f64()).sum()).collect()
}

impl Ended {
    /// Checks that the run was stopped for that long, and that no time has the stop in it.
    fn is_without_the_stop(&self) {
        let json = &self.json;
        let stopped = json["stopped_s"].as_f64().expect("a time");
        assert!(stopped > STOP.as_secs_f64() * 0.9, "{stopped} s: {json}");
        // The job's time and the stop passed one after the other.
        let most = (self.all - STOP).as_secs_f64();
        let whole = json["wall_s"].as_f64().expect("a time");
        let mut all = walls(json).into_iter().chain([whole]);
        assert!(all.all(|wall| wall <= most), "{most} s at most: {json}");
    }
}

/// The first stage's time runs out while the job is stopped: it ends as the job continues, and can
/// no longer tell that it was continued. It once had the whole stop in its wall time.
#[test]
fn a_stage_that_ends_as_the_job_continues_has_no_part_of_the_stop() {
    let first = "perl -e '$|=1; alarm 1; print \"up\\n\"; sleep 60'";
    let job = Job::up(&format!("{first} | sh -c 'read up; echo $up; sleep 1; sleep 1'"));
    kill_process_group(job.pid(), Signal::STOP).expect("sent");
    job.rest();
    kill_process_group(job.pid(), Signal::CONT).expect("sent");
    let ended = job.end();
    assert!(ended.status.success(), "{}", ended.status);
    ended.is_without_the_stop();
}

/// What a shell's `kill %1` does to a stopped job: all stages end before they continue.
#[test]
fn a_job_that_is_killed_while_it_is_stopped_has_no_part_of_the_stop() {
    // The first stage is started last.
    let first = "perl -e '$|=1; print \"up\\n\"; sleep 60'";
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let job = Job::up(&format!("{first} | perl -e '$|=1; print scalar <>; sleep 60'"));
        kill_process_group(job.pid(), Signal::STOP).expect("sent");
        job.rest();
        kill_process_group(job.pid(), signal).expect("sent");
        kill_process_group(job.pid(), Signal::CONT).expect("sent");
        let ended = job.end();
        assert_eq!(ended.status.signal(), Some(signal.as_raw()), "{}", ended.json);
        ended.is_without_the_stop();
    }
}

/// The last stage is started first. It stops the job while weir starts the others: their times once
/// began at the end of the stop and ended before it, and were 0.
#[test]
fn a_job_that_is_stopped_while_it_is_started_keeps_its_times() {
    let works = "perl -e 'while((times)[0]<.3){$x++for 1..1000}'";
    let job = Job::start(&format!("{works} | {works} | {{ kill -STOP 0; {works}; }}"));
    job.rest();
    kill_process_group(job.pid(), Signal::CONT).expect("sent");
    let ended = job.end();
    assert!(ended.status.success(), "{}", ended.status);
    ended.is_without_the_stop();
    // No stage can have used more CPU time than its wall time.
    assert!(walls(&ended.json).into_iter().all(|wall| wall >= 0.28), "{}", ended.json);
}

#[test]
fn a_stop_of_weir_alone_is_no_stop_of_the_job() {
    let job = Job::up("perl -e '$|=1; print \"up\\n\"; sleep 1' | cat");
    kill_process(job.pid(), Signal::STOP).expect("sent");
    job.rest();
    kill_process(job.pid(), Signal::CONT).expect("sent");
    let Ended { status, json, .. } = job.end();
    assert!(status.success(), "{status}");
    assert_eq!(json["stopped_s"], 0.0, "{json}");
    // The kernel told when the stages ended, where it tells of processes.
    let told = json["started"]["evidence"] == "exact";
    assert!(!told || walls(&json).iter().all(|wall| *wall < STOP.as_secs_f64()), "{json}");
}

/// The sleeper's parent ends before weir looks, so that no look finds the sleeper: it once outlived
/// the run, although the kernel had told of it.
#[test]
fn a_termination_reaches_a_process_whose_parent_has_ended() {
    let sleeper = "71.53125";
    let left = format!("sh -c '(sleep {sleeper} >/dev/null 2>&1 &); echo up; sleep 72' | cat");
    for text in [left, format!("sh -c '(sleep {sleeper} >/dev/null 2>&1 &)'; echo up; sleep 72")] {
        let job = Job::up(&text);
        let sleeping = || pids(sleeper).next().is_some();
        await_that(sleeping, "it does not sleep");
        kill_process(job.pid(), Signal::TERM).expect("sent");
        let Ended { status, json, .. } = job.end();
        assert_eq!(status.signal(), Some(15), "{json}");
        if json["started"]["evidence"] != "exact" {
            pids(sleeper).for_each(|pid| kill_process(pid, Signal::KILL).expect("sent"));
            eprintln!("SKIPPED: the kernel tells no process events");
            return;
        }
        await_that(|| !sleeping(), "the sleeper is left");
    }
}

/// The processes that were started with this last argument.
fn pids(argument: &str) -> impl Iterator<Item = Pid> {
    let wanted = format!("sleep\0{argument}\0");
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(move |entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        Pid::from_raw(pid).filter(|_| words == wanted.as_bytes())
    })
}
