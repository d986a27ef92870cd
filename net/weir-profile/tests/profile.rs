//! A program with a profile, observed from outside: the example `profiled`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use weir_profile::{LEASE, Observed, ProfileReport};
use weir_sys::proc::{ProcContents, Stat};

/// Longest that anything may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// The program, which takes orders line by line.
struct Profiled {
    child: Child,
    tell: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Profiled {
    fn start(threads: usize) -> Profiled {
        let own = std::env::current_exe().expect("a program");
        let built = own.ancestors().nth(2).expect("a directory").join("examples/profiled");
        let hint = "`cargo test -p weir-measure` builds it, `--test profile` alone does not";
        assert!(built.exists(), "{} is missing: {hint}", built.display());
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("profile");
        let mut child = Command::new(built)
            .arg(&path)
            .arg(threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let tell = child.stdin.take();
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let mut profiled = Profiled { child, tell, said, path, _directory: directory };
        assert_eq!(profiled.heard(), "ready");
        profiled
    }

    fn heard(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("heard");
        line.trim().to_owned()
    }

    fn begin(&mut self, rounds: u64) {
        writeln!(self.tell.as_mut().expect("open"), "{rounds}").expect("told");
    }

    /// Lets every thread do this many rounds.
    fn rounds(&mut self, rounds: u64) {
        self.begin(rounds);
        assert_eq!(self.heard(), "done");
    }

    /// Waits until its first thread sleeps: after its answer, it sleeps only where it listens.
    fn until_it_listens(&self) {
        let begun = Instant::now();
        let state = || Stat::of(self.child.id() as i32).expect("it lives").state;
        while state() != b'S' {
            assert!(begun.elapsed() < DEADLINE, "it listens");
            std::thread::yield_now();
        }
    }

    fn observe(&self) -> Observed {
        Observed::open(&self.path).expect("opened")
    }
}

impl Drop for Profiled {
    fn drop(&mut self) {
        drop(self.tell.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn calls(report: &ProfileReport) -> [u64; 4] {
    let spans = ["packet", "check"].map(|name| report.subroutine(name));
    let calls = ["write", "read"].map(|name| report.call(name));
    let [packet, check] = spans.map(|row| row.map_or(0, |row| row.calls));
    let [write, read] = calls.map(|row| row.map_or(0, |row| row.calls));
    [packet, check, write, read]
}

/// A profile of some rounds.
fn profile_of(program: &mut Profiled, rounds: u64) -> ProfileReport {
    let mut observed = program.observe();
    observed.renew().expect("on");
    let before = observed.snapshot().expect("looked");
    program.rounds(rounds);
    let after = observed.snapshot().expect("looked");
    ProfileReport::between(&before, &after).expect("in order")
}

#[test]
fn every_call_is_counted_once_in_one_thread_and_in_two() {
    for threads in [1, 2] {
        let mut program = Profiled::start(threads);
        let report = profile_of(&mut program, 1000);
        let all = 1000 * threads as u64;
        assert_eq!(calls(&report), [all, 3 * all, all, all], "{report}");
        assert_eq!((report.process.as_str(), report.gone), ("profiled", false));
        let second = profile_of(&mut program, 10);
        assert_eq!(calls(&second)[0], 10 * threads as u64, "only what came since\n{second}");
    }
}

#[test]
fn rows_add_up_to_no_more_than_the_threads_had() {
    let mut program = Profiled::start(2);
    let report = profile_of(&mut program, 20_000);
    let (total, cpu) = (report.total(), report.cpu.expect("it lives"));
    // Clocks of two kinds are compared: a hundredth.
    let slack = |ns: u64| ns + ns / 100;
    let had = report.interval_ns * report.threads as u64;
    assert!(total.cpu_ns() + total.wait_ns <= slack(had), "of {had} ns\n{report}");
    // This holds however many others want the CPUs. (Very short times without one are not noticed.)
    let most = cpu.total_ns + cpu.total_ns / 10;
    assert!(report.explained_ns() <= most, "of {most} ns\n{report}");
    let rest = report.not_explained_ns().expect("known");
    assert_eq!(rest, cpu.total_ns as i64 - report.explained_ns() as i64);
    let rows = ["packet", "check"].map(|name| report.subroutine(name).expect("called"));
    let [write, read] = ["write", "read"].map(|name| report.call(name).expect("called"));
    // Each is rounded to a nanosecond separately.
    let apart = rows[0].system_ns.abs_diff(write.system_ns + read.system_ns);
    assert!(apart <= 2, "its calls are its own\n{report}");
    assert_eq!(rows[1].system_ns, 0);
    assert!(rows.iter().all(|row| row.user_ns > 0) && write.system_ns > 0, "{report}");
}

#[test]
fn waiting_is_counted_apart_from_cpu_time() {
    let mut program = Profiled::start(1);
    let mut observed = program.observe();
    // It listens already, which is not counted.
    program.until_it_listens();
    observed.renew().expect("on");
    let before = observed.snapshot().expect("looked");
    program.rounds(1);
    program.until_it_listens();
    let waited = Instant::now();
    // sleep: the time that passes is what is counted.
    std::thread::sleep(Duration::from_millis(100));
    let waited_ns = waited.elapsed().as_nanos() as u64;
    program.rounds(1);
    let report =
        ProfileReport::between(&before, &observed.snapshot().expect("looked")).expect("in order");
    let (listen, cpu) = (report.call("listen").expect("called"), report.cpu.expect("it lives"));
    // And perhaps the call that it is in now.
    assert!((1..=2).contains(&listen.calls), "{report}");
    assert!(listen.wait_ns + listen.system_ns >= waited_ns - waited_ns / 100, "{report}");
    assert!(listen.system_ns <= cpu.total_ns, "{report}");
    assert!(report.explained_ns() + listen.wait_ns <= 2 * report.interval_ns, "{report}");
    let outside = report.subroutine("(outside)").expect("it listens outside of all spans");
    assert!(outside.wait_ns >= listen.wait_ns && outside.user_ns == 0, "{report}");
    assert!(report.subroutine("(the profile)").is_some_and(|row| row.system_ns > 0), "{report}");
}

#[test]
fn off_nothing_is_counted_and_a_lease_ends_by_itself() {
    let mut program = Profiled::start(1);
    let mut observed = program.observe();
    program.rounds(100);
    let report = ProfileReport::whole(&observed.snapshot().expect("looked")).expect("sound");
    assert_eq!((report.subroutines.len(), report.calls.len()), (0, 0), "{report}");
    observed.renew().expect("on");
    let begun = Instant::now();
    program.rounds(10);
    let counted =
        calls(&ProfileReport::whole(&observed.snapshot().expect("looked")).expect("sound"));
    assert_eq!(counted[0], 10);
    // The observer stops, as if killed. A later one finds the profile off.
    drop(observed);
    let observed = program.observe();
    loop {
        let before = observed.snapshot().expect("looked");
        program.rounds(10);
        let after = observed.snapshot().expect("looked");
        let report = ProfileReport::between(&before, &after).expect("in order");
        if calls(&report) == [0; 4] {
            break;
        }
        assert!(begun.elapsed() < LEASE + DEADLINE, "it goes off\n{report}");
    }
    assert!(begun.elapsed() >= LEASE, "not before its time");
}

#[test]
fn observers_do_not_switch_each_other_off() {
    let mut program = Profiled::start(1);
    let (mut first, mut second) = (program.observe(), program.observe());
    first.renew().expect("on");
    second.renew().expect("on");
    let (begun, before) = (Instant::now(), second.snapshot().expect("looked"));
    drop(first);
    let mut rounds = 0;
    while begun.elapsed() < LEASE + LEASE / 4 {
        second.renew().expect("on");
        program.rounds(1);
        rounds += 1;
    }
    let report =
        ProfileReport::between(&before, &second.snapshot().expect("looked")).expect("in order");
    assert_eq!(calls(&report), [rounds, 3 * rounds, rounds, rounds], "{report}");
    assert_eq!(report.notes, [""; 0]);
}

#[test]
fn what_a_killed_program_counted_is_still_there() {
    let mut program = Profiled::start(2);
    let mut observed = program.observe();
    observed.renew().expect("on");
    let before = observed.snapshot().expect("looked");
    program.rounds(500);
    program.child.kill().expect("killed");
    program.child.wait().expect("reaped");
    let after = observed.snapshot().expect("looked");
    assert!(after.is_gone());
    let (between, whole) = (ProfileReport::between(&before, &after), ProfileReport::whole(&after));
    let (between, whole) = (between.expect("in order"), whole.expect("sound"));
    assert_eq!((calls(&between), calls(&whole)), ([1000, 3000, 1000, 1000], calls(&between)));
    let pid = program.child.id();
    assert_eq!(between.notes, [format!("process {pid} is gone")]);
    assert_eq!((between.cpu, whole.gone), (None, true));
    assert!(program.observe().snapshot().expect("opened anew").is_gone());
}

#[test]
fn a_program_that_is_killed_while_it_counts_leaves_a_sound_table() {
    let mut program = Profiled::start(2);
    let mut observed = program.observe();
    observed.renew().expect("on");
    let before = observed.snapshot().expect("looked");
    program.begin(u64::MAX);
    let begun = Instant::now();
    let running = |observed: &Observed| {
        let report = ProfileReport::between(&before, &observed.snapshot().expect("looked"));
        calls(&report.expect("in order"))[0] > 1000
    };
    while !running(&observed) {
        assert!(begun.elapsed() < DEADLINE, "it counts");
        observed.renew().expect("on");
    }
    program.child.kill().expect("killed");
    program.child.wait().expect("reaped");
    let report =
        ProfileReport::between(&before, &observed.snapshot().expect("looked")).expect("sound");
    let [packets, checks, writes, reads] = calls(&report);
    // Each thread was somewhere within one round.
    assert!(packets > 1000 && (packets * 3).abs_diff(checks) <= 6, "{report}");
    assert!(packets.abs_diff(writes) <= 2 && writes.abs_diff(reads) <= 2, "{report}");
}

#[test]
fn the_file_is_its_user_s_alone_and_goes_with_the_program() {
    use std::os::unix::fs::PermissionsExt;
    let mut program = Profiled::start(1);
    let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&program.path), 0o600);
    let observed = program.observe();
    drop(program.tell.take());
    assert!(program.child.wait().expect("it ends").success());
    assert!(!program.path.exists());
    assert!(observed.snapshot().expect("still open").is_gone());
}
