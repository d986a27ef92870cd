//! A stop of the job that comes between two steps of the runner.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Write};
use std::process::Command;
use std::time::{Duration, Instant};
use weir_measure::attribution::Sampler;
use weir_measure::runner::{Forward, Job, Launch, StageSpec, Watcher, run};

/// A number that no signal of this test has.
const MADE_UP: i32 = 1;
/// How long the stop lasts. A sample that meets a process that much late is not of it.
const STOP: Duration = Duration::from_secs(1);

/// Stops the stage and the process that it starts, right after the runner has heard of signals. The
/// runner hears of the end of the stop only afterwards, as if it had been stopped too.
struct Stopper {
    begin: Box<dyn Write>,
    shell: Option<Pid>,
    signals: Vec<i32>,
}

impl Stopper {
    fn stop(&mut self, shell: Pid) {
        self.begin.write_all(b"now\n").expect("the stage reads");
        let child = || {
            let path = format!("/proc/{0}/task/{0}/children", shell.as_raw_pid());
            let text = std::fs::read_to_string(path).ok()?;
            Pid::from_raw(text.split_whitespace().next()?.parse().ok()?)
        };
        let start = Instant::now();
        let child = loop {
            assert!(start.elapsed() < Duration::from_secs(10), "the stage starts nothing");
            // A shell that has not yet let its child go (vfork) stops only afterwards.
            if let Some(child) = child().filter(|child| is_sleep(*child)) {
                break child;
            }
            std::thread::yield_now();
        };
        for pid in [shell, child] {
            kill_process(pid, Signal::STOP).expect("sent");
        }
        // sleep: the length of the stop is what is measured.
        std::thread::sleep(STOP);
        for pid in [shell, child] {
            kill_process(pid, Signal::CONT).expect("sent");
        }
    }
}

fn is_sleep(pid: Pid) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid()));
    name.is_ok_and(|name| name.trim_end() == "sleep")
}

impl Watcher for Stopper {
    fn signals(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.signals)
    }

    fn forward(&mut self, signal: i32) -> Forward {
        assert_eq!(signal, MADE_UP);
        let shell = self.shell.expect("its signal comes after it is known");
        self.stop(shell);
        self.signals = vec![Signal::CONT.as_raw()];
        Forward::Nobody
    }

    fn failed(&mut self, _: usize, label: &str, reason: &str) {
        panic!("{label}: {reason}");
    }

    fn progress(&mut self, _: u64, sampler: &Sampler) {
        if self.shell.is_none() {
            self.shell = Pid::from_raw(sampler.population.groups[0].root.pid);
            self.signals = vec![MADE_UP];
        }
    }
}

/// The runner looked at the clock once more before it looked at processes. Where the job had been
/// stopped in between, a process seemed to start a whole stop after its own end.
#[test]
fn a_stop_between_hearing_and_looking_is_in_no_time() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let fifo = directory.path().join("begin");
    assert!(Command::new("mkfifo").arg(&fifo).status()?.success());
    let begin = std::fs::File::options().read(true).write(true).open(&fifo)?;
    let text = format!("read now <'{}'; sleep .1; sleep .1", fifo.display());
    let argv = ["sh".into(), "-c".into(), text.into()].into();
    let launch = Launch::Exec { env: Vec::new(), argv, text: None };
    let job = Job {
        stages: vec![StageSpec { label: "sh".to_owned(), launch, inserted: false }],
        script: true,
        shell: "sh".into(),
        pipe_bytes: Some(65_536),
        tick_ns: 10_000_000,
        ..Job::default()
    };
    let mut stopper = Stopper { begin: Box::new(begin), shell: None, signals: Vec::new() };
    let found = run(&job, &mut stopper)?;
    let stop_ns = STOP.as_nanos() as u64;
    assert!(found.stopped_ns >= stop_ns, "{}", found.stopped_ns);
    assert!(found.wall_ns < stop_ns, "{}", found.wall_ns);
    assert!(!found.groups.is_empty());
    for group in &found.groups {
        assert!(group.start_ns <= group.end_ns && group.end_ns <= found.wall_ns, "{group:?}");
        let ordered = |span: &weir_doctor::graph::WallSpan| span.start_ns <= span.end_ns;
        assert!(group.spans.iter().all(ordered), "{group:?}");
    }
    Ok(())
}
