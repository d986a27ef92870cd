//! `weir sh`: bash with a report at the end, for use wherever a shell can be configured.

use super::outputs::Outputs;
use super::sentinel::Sentinel;
use super::watch::Watch;
use super::{judge, runner};
use crate::args::{LiveView, SAMPLE_MS, StallAfter};
use rustix::process::{Resource, getrlimit};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;
use weir_command::fault::{Fault, die, print_message};
use weir_command::status::unstarted_code;
use weir_command::sys::{closed_standard_descriptors, sigpipe_was_ignored};
use weir_command::units::parse;
use weir_doctor::ending::Ending;
use weir_measure::attribution::Sampler;
use weir_measure::programs::find_program;
use weir_measure::runner::{Forward, Job, Launch, StageSpec, StallNews, Watcher};
use weir_measure::sys::spawn::{Differences, exec_with};
use weir_sys::Pid;
use weir_sys::proc::{ProcContents, Stat, ancestors, is_own, words};

const BASH: &str = "bash";
/// The variable that names the `weir sh` that reports: its process, and when that started.
const REPORTING: &str = "WEIR_SH";
/// The variable that names the file of the report.
const REPORT: &str = "WEIR_REPORT";
/// The variable that has the time of the shortest run that is reported.
const LEAST: &str = "WEIR_MIN";

/// The variable that has the time after which a stall is told of.
const WHY_AFTER: &str = "WEIR_WHY_AFTER";

/// Signals that are passed on to bash.
const PASSED: [i32; 8] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH];

/// Runs bash with these words.
pub fn sh(words: Vec<OsString>) -> Result<ExitCode, Fault> {
    let closed = closed_standard_descriptors();
    let pipe_ignored = sigpipe_was_ignored();
    // The runner raises its own limit of open files.
    let file_limit = getrlimit(Resource::Nofile).current;
    let become_bash = |words: &[OsString]| {
        let differences = Differences { closed, file_limit, pipe_ignored };
        let error = exec_with(Command::new(BASH).args(words), differences);
        print_message(&format!("cannot start bash: {error}"));
        unstarted_code(&error)
    };
    if is_inner() || is_below_run() || is_interactive(&words) {
        return Ok(become_bash(&words));
    }
    let argv: Vec<OsString> = std::iter::once(BASH.into()).chain(words.iter().cloned()).collect();
    let label = argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let env = vec![(REPORTING.into(), own_name().into())];
    let launch = Launch::Exec { env, argv, text: None };
    let job = Job {
        stages: vec![StageSpec { label: label.clone(), launch, inserted: false }],
        script: true,
        script_pipelines: Some(crate::shell::pipelines),
        shell: BASH.into(),
        tick_ns: SAMPLE_MS * 1_000_000,
        closed,
        pipe_ignored,
        ..Job::default()
    };
    let outputs = Outputs::appended(weir_sys::places::variable(REPORT), least());
    // Before there is a second thread.
    let sentinel = Sentinel::start(&PASSED).ok();
    let signals: Vec<i32> = PASSED.into_iter().chain([SIGCONT]).collect();
    let watch = Watch::new(LiveView::Never, &job, &signals).without_another();
    let watch = watch.telling_stalls(why_after().0, closed[2]);
    let mut watch = ShWatch { watch, sentinel, failed: false };
    let run = runner::run(&job, &mut watch)
        .map_err(|error| Fault::failed(format!("cannot run bash: {error}")))?;
    let failed = watch.failed;
    let stall = watch.watch.stall.take();
    // The sentinel ends: nothing but bash's own children may keep the descriptors open from now on.
    drop(watch);
    if failed {
        // At the limit of processes no other one can be started, but this one can become bash.
        // There is no report then.
        return Ok(become_bash(&words));
    }
    let ending = run.ending.unwrap_or(Ending::Code(1));
    let report = judge(run, &label, ending.shell_status(), stall);
    outputs.append(&report);
    outputs.annotate(&report);
    Ok(match ending {
        Ending::Code(code) => ExitCode::from(code as u8),
        Ending::Signal(signal) => die(signal),
    })
}

/// Returns the time of the shortest run that is reported, if the user has set it.
fn least() -> Option<Duration> {
    let text = std::env::var(LEAST).ok().filter(|text| !text.is_empty())?;
    let time = parse::duration(&text);
    let tell_why = |why: &String| {
        print_message(&format!("{LEAST} is '{text}': {why}; the script runs anyway"))
    };
    time.inspect_err(tell_why).ok()
}

/// Returns after which time a stall is told of.
fn why_after() -> StallAfter {
    let text = std::env::var(WHY_AFTER).ok().filter(|text| !text.is_empty());
    let parsed = text.map(|text| StallAfter::parse(&text).map_err(|why| (text, why))).transpose();
    let tell_why = |(text, why): &(String, String)| {
        print_message(&format!("{WHY_AFTER} is '{text}': {why}; the script runs anyway"))
    };
    parsed.inspect_err(tell_why).ok().flatten().unwrap_or_default()
}

/// Watches while bash runs.
struct ShWatch {
    watch: Watch,
    sentinel: Option<Sentinel>,
    /// Whether bash could not be started.
    failed: bool,
}

impl Watcher for ShWatch {
    fn signals(&mut self) -> Vec<i32> {
        self.watch.signals()
    }

    /// Passes a signal to bash that was sent to this process alone. Bash has already got signals to the whole
    /// process group, such as an interrupt from the terminal.
    fn forward(&mut self, signal: i32) -> Forward {
        let by_itself = match &mut self.sentinel {
            Some(sentinel) => sentinel.got(signal),
            // The terminal sends most of these.
            None => matches!(signal, SIGINT | SIGQUIT | SIGWINCH),
        };
        if by_itself || signal == SIGCONT { Forward::Nobody } else { Forward::Stages }
    }

    fn over(&mut self) {
        self.watch.over();
    }

    fn failed(&mut self, _: usize, _: &str, reason: &str) {
        self.failed = true;
        // A missing bash is reported when this process tries to become it.
        if find_program(Path::new(BASH)).is_some() {
            print_message(&format!("cannot start another process: {reason}; bash runs unmeasured"));
        }
    }

    fn stall_after(&self) -> Option<Duration> {
        self.watch.stall_after()
    }

    fn stall(&mut self, news: StallNews) {
        self.watch.stall(news);
    }

    fn progress(&mut self, _: u64, _: &Sampler) {}
}

/// Returns the process and the time at which it started. Another process may get the same number later.
fn own_name() -> String {
    let pid = std::process::id();
    format!("{pid}:{}", Stat::of(pid as Pid).map_or(0, |stat| stat.started_ticks))
}

/// Whether the process runs that had this number and started at this time.
fn still_runs(pid: Pid, started_ticks: u64) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.is_still(started_ticks))
}

/// Returns whether a running `weir sh` reports what this process starts. A `weir sh` that has ended does not.
fn is_inner() -> bool {
    let Some(named) = std::env::var(REPORTING).ok() else { return false };
    let Some((pid, started)) = named.split_once(':') else { return false };
    let (Ok(pid), Ok(started)) = (pid.parse(), started.parse()) else { return false };
    still_runs(pid, started) || (started == 0 && Stat::of(1).is_none())
}

/// Returns whether a `weir run` is an ancestor of this process, and so reports what this process starts. It
/// sets no variable, since its commands would see one that a shell does not set.
fn is_below_run() -> bool {
    is_own() && ancestors(std::process::id() as Pid).any(is_run)
}

/// Returns whether a process is a `weir run`, from the words that started it.
fn is_run(pid: Pid) -> bool {
    let words = words(pid, 4096);
    let program = words.first().and_then(|word| word.rsplit('/').next());
    program == Some("weir") && words.get(1).is_some_and(|word| word == "run")
}

/// Returns whether bash will be interactive, by bash's own rules.
fn is_interactive(words: &[OsString]) -> bool {
    let mut words = words.iter().map(OsString::as_os_str);
    let (mut text, mut input, mut operand) = (false, false, false);
    while let Some(word) = words.next() {
        match word.as_encoded_bytes() {
            b"-" | b"--" => {
                operand = words.next().is_some();
                break;
            }
            b"--rcfile" | b"--init-file" => {
                words.next();
            }
            [b'-', b'-', ..] => {}
            [sign @ (b'-' | b'+'), letters @ ..] => {
                if *sign == b'-' && letters.contains(&b'i') {
                    return true;
                }
                text |= letters.contains(&b'c');
                input |= letters.contains(&b's');
                let named = letters.iter().filter(|letter| matches!(letter, b'o' | b'O')).count();
                for _ in 0..named {
                    words.next();
                }
            }
            _ => {
                operand = true;
                break;
            }
        }
    }
    !text && (input || !operand) && io::stdin().is_terminal() && io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_bash_decides_whether_it_is_interactive() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in ["-i", "-x -i -c :", "-xi x.sh", "-o pipefail -i", "--norc -i"] {
            assert!(is_interactive(&words(line)), "{line}");
        }
        for line in ["x.sh -i", "-o i x.sh", "-c -- -i", "-- -i", "-ec : -i", "--rcfile -i x.sh"] {
            assert!(!is_interactive(&words(line)), "{line}");
        }
    }

    #[test]
    fn a_name_of_a_process_that_has_ended_does_not_count() {
        let me = own_name();
        let (pid, started) = me.split_once(':').expect("two numbers");
        let started = started.parse().expect("a number");
        assert!(still_runs(pid.parse().expect("a number"), started));
        assert!(!still_runs(Pid::MAX, started) && !still_runs(1, started));
    }
}
