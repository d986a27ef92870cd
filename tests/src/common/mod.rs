//! What the end-to-end tests share: running weir on a real pipeline and reading its report.

mod binary;
pub mod buffer;
pub mod hogs;
pub mod killed;
pub mod net;
pub mod port;
pub mod quota;
pub mod schema;
pub mod tftp;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use weir_measure::programs::find_program;

pub use binary::Binary;

/// The command under test.
pub const WEIR: Binary = Binary("weir");

static TURNS: RwLock<()> = RwLock::new(());

/// Pipelines that are timed run one at a time: two at once would wait for each other's CPUs.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    TURNS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Timed pipelines that mostly sleep run beside each other, and not beside one that runs alone.
pub fn among_sleepers() -> RwLockReadGuard<'static, ()> {
    TURNS.read().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// How long the last runs of this test waited for CPUs that others had taken.
    static CROWDED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Checks a truth about timed pipelines, one test at a time. It is true by construction on a host
/// that does nothing else. If it fails, and the runs waited for CPU time that others took (or that
/// is seen right afterwards), the test is skipped and says why.
pub fn truth(check: impl FnOnce()) {
    let _alone = alone();
    truth_here(check);
}

/// The same for pipelines that mostly sleep, several tests at a time.
pub fn truth_of_sleepers(check: impl FnOnce()) {
    let _among = among_sleepers();
    truth_here(check);
}

fn truth_here(check: impl FnOnce()) {
    CROWDED.set(None);
    let Err(failure) = catch_unwind(AssertUnwindSafe(check)) else { return };
    let noted = CROWDED.take();
    weir_run(&["perl -e 'while((times)[0]<.3){$x++for 1..1000}' | cat"]);
    let Some(busy) = noted.or(CROWDED.take()) else { resume_unwind(failure) };
    eprintln!("SKIPPED: the host is busy: {busy}");
}

/// How long a run waited for CPUs that others had taken, by weir's own figures.
fn crowded(json: &Value) -> Option<String> {
    let of = |value: &Value| value.as_f64().unwrap_or(0.0);
    let others = of(&json["host"]["others_cpus"]) + of(&json["host"]["steal_cpus"]);
    let waited = json["stages"].as_array()?.iter().map(|stage| of(&stage["runq_s"])).sum::<f64>();
    let share = waited / of(&json["wall_s"]).max(1e-9);
    let many = others >= 0.25 && (share >= 0.05 || of(&json["host"]["idle_cpus"]) < 0.3);
    many.then(|| format!("others used {others:.2} CPUs, stages waited {waited:.2} s for one"))
}

/// Writes a program that can be started at once: another process writes it, as [`copy_program`] has it.
pub fn write_program(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    let mut command = Command::new("sh");
    command.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path.as_ref());
    let mut child = command.stdin(Stdio::piped()).spawn().expect("sh starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(text.as_ref()).expect("written");
    drop(stdin);
    assert!(child.wait().expect("it ends").success(), "{} is written", path.as_ref().display());
}

/// Copies a program, with its mode, to a place from which it can be started at once.
///
/// Another process copies it: while this one had the file open for writing, a child of another test
/// could inherit it, and the kernel would refuse to start the program ("text file busy").
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let status = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(status.expect("cp starts").success(), "{} is copied", from.as_ref().display());
}

/// Seconds after which a program that still runs is killed, so that a test fails rather than hangs.
const MOST_S: i64 = 120;

/// Kills the process if it runs longer than that.
pub fn bound(child: &Child) {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).expect("it runs");
    std::thread::spawn(move || {
        let time = Timespec { tv_sec: MOST_S, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&time));
        if ended == Ok(0) {
            eprintln!("killed after {MOST_S} seconds");
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    });
}

/// A bash script that is killed, with everything it started, if it runs too long.
pub fn bounded_bash(script: &str) -> [String; 7] {
    let words = ["timeout", "-k", "5", "", "bash", "-c", script];
    let mut words = words.map(String::from);
    words[3] = MOST_S.to_string();
    words
}

/// A run of weir and its report.
pub struct Ran {
    /// The status and the output of weir itself.
    pub output: Output,
    /// Its JSON report.
    pub json: Value,
}

/// Runs `weir run --json FILE ARGS`, standard input empty.
pub fn weir_run(args: &[&str]) -> Ran {
    let state = tempfile::tempdir().expect("a directory");
    weir_run_in(state.path(), args)
}

/// Runs it with a given directory for what weir remembers from run to run.
pub fn weir_run_in(state: &Path, args: &[&str]) -> Ran {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("report.json");
    let mut command = Command::new(WEIR);
    command.args(["run", "--json"]).arg(&file).args(args);
    command.env("XDG_STATE_HOME", state).env_remove("WEIR_ELASTIC").env_remove("COLUMNS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("weir starts");
    bound(&child);
    let output = child.wait_with_output().expect("weir ends");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let json: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    // Whatever was run, the report holds what programs may rely on.
    if json["schema"] == "weir.run/1" {
        schema::check("weir.run/1", &json);
        CROWDED.with_borrow_mut(|noted| *noted = noted.take().or_else(|| crowded(&json)));
    }
    Ran { output, json }
}

/// Runs one pipeline given as text.
pub fn pipeline(text: &str) -> Ran {
    let ran = weir_run(&[text]);
    assert_eq!(ran.json["schema"], "weir.run/1", "no report for {text}: {}", ran.stderr());
    ran
}

/// Whether the programs are installed. If not, prints that the test is skipped.
pub fn have(programs: &[&str]) -> bool {
    let lacks = |program: &&&str| find_program(Path::new(**program)).is_none();
    let missing: Vec<_> = programs.iter().filter(lacks).collect();
    if !missing.is_empty() {
        eprintln!("SKIPPED: {missing:?} not installed");
    }
    missing.is_empty()
}

/// The distribution's own Python, if it is there. The one that PATH finds may be a script of pyenv,
/// which becomes Python only after a second.
pub fn python() -> &'static str {
    let own = "/usr/bin/python3";
    if Path::new(own).is_file() { own } else { "python3" }
}

impl Ran {
    /// Standard output as text.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Standard error as text: messages of the stages, and the report.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Exit status; -1 when killed.
    pub fn code(&self) -> i32 {
        self.output.status.code().unwrap_or(-1)
    }

    /// A figure of stage `index` (from 1).
    pub fn stage(&self, index: usize, name: &str) -> f64 {
        let value = &self.json["stages"][index - 1][name];
        value.as_f64().unwrap_or_else(|| panic!("stage {index} has no {name}: {}", self.json))
    }

    /// The stage (from 1) that runs this program. In a script stages have no fixed places: the
    /// shell is a stage too if it was busy, or waited long for a CPU.
    pub fn running(&self, program: &str) -> usize {
        let stages = self.json["stages"].as_array().expect("stages");
        let is_it = |stage: &serde_json::Value| {
            stage["command"].as_str().is_some_and(|command| command.starts_with(program))
        };
        stages.iter().position(is_it).unwrap_or_else(|| panic!("{}", self.stderr())) + 1
    }

    /// A time of stage `index` as a share of its wall time.
    pub fn share(&self, index: usize, name: &str) -> f64 {
        self.stage(index, name) / self.stage(index, "wall_s").max(1e-9)
    }

    /// Asserts that a time of a stage is at least this share of its wall time.
    pub fn at_least(&self, index: usize, name: &str, share: f64) {
        let found = self.share(index, name);
        assert!(found >= share, "stage {index}: {name} is {found:.2} of wall\n{}", self.stderr());
    }

    /// The stage the verdict names, 0 for none.
    pub fn culprit(&self) -> u64 {
        let verdict = &self.json["verdict"];
        assert_eq!(verdict["kind"] == "stage", verdict["stage"].is_u64(), "{verdict}");
        verdict["stage"].as_u64().unwrap_or(0)
    }

    /// The reason of the verdict.
    pub fn reason(&self) -> &str {
        self.json["verdict"]["reason"].as_str().unwrap_or("none")
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        self.json["stages"].as_array().map_or(0, Vec::len)
    }

    /// Number of pieces of advice of this kind.
    pub fn advices(&self, kind: &str) -> usize {
        let all = self.json["advice"].as_array().map_or(&[][..], Vec::as_slice);
        all.iter().filter(|advice| advice["kind"] == kind).count()
    }
}

/// Looks again and again until the condition holds, for at most half a minute.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed().as_secs() < 30, "{what} within half a minute");
        std::thread::yield_now();
    }
}
