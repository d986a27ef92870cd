//! A run that stands still says why while it lasts (docs/contracts/run.md, sh.md, watch.md).

use crate::common::{WEIR, bound, have, python, schema};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

/// A run that stands still until what it waits for is killed.
struct Stalled {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Stalled {
    fn new(command: &mut Command) -> Stalled {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        bound(&child);
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        Stalled { child, stderr }
    }

    /// Reads the next line, which begins with this text; returns it and the id before this word.
    fn line(&mut self, begin: &str, word: &str) -> (String, i32) {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("a line");
        assert!(line.starts_with(begin), "{line}");
        let before = line.find(word).map(|at| line[..at].trim_end()).unwrap_or_default();
        let id = before.rsplit(' ').next().and_then(|id| id.parse().ok()).unwrap_or_default();
        (line, id)
    }

    /// Reads the rest and waits for the end: what it wrote to its standard output, and to standard error.
    fn end(mut self) -> (String, String) {
        let (mut output, mut rest) = (String::new(), String::new());
        self.stderr.read_to_string(&mut rest).expect("text");
        let mut stdout = self.child.stdout.take().expect("piped");
        stdout.read_to_string(&mut output).expect("text");
        self.child.wait().expect("it ends");
        (output, rest)
    }
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("an id");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
}

const SAYS: &str = "weir: nothing has moved for ";

#[test]
fn a_pipeline_behind_what_somebody_left_running_says_so_once_and_when_it_ends() {
    let text = "(sleep 100 & echo ok) | cat";
    let report = tempfile::NamedTempFile::new().expect("a file");
    let file = report.path().to_str().expect("text");
    let args = ["run", "--why-after", "3s", "--brief", "-o", file, text];
    let mut stalled = Stalled::new(Command::new(WEIR).args(args));
    let (first, left) = stalled.line(SAYS, "(sleep 100)");
    assert!(first.contains("(cat) waits for data or the end of file from a pipe of"), "{first}");
    let (second, _) = stalled.line(&format!("{left} was left running by a process that has"), "");
    assert!(second.ends_with(&format!("or end it: kill {left}\n")), "{second}");
    kill(left);
    let (output, rest) = stalled.end();
    assert_eq!(output, "ok\n");
    assert!(rest.starts_with("weir: it ended after ") && rest.lines().count() == 1, "{rest}");
    let report = std::fs::read_to_string(report.path()).expect("a report");
    assert!(report.contains("left running by stage 1"), "{report}");
}

#[test]
fn a_script_that_continues_says_so_too() {
    let text = "(sleep 100 & echo ok) | cat; echo next";
    let mut command = Command::new(WEIR);
    command.args(["sh", "-c", text]).env("WEIR_WHY_AFTER", "3s").env("WEIR_MIN", "1d");
    let mut stalled = Stalled::new(&mut command);
    let (_, left) = stalled.line(SAYS, "(sleep 100)");
    stalled.line(&format!("{left} was left running"), "");
    kill(left);
    let (output, rest) = stalled.end();
    assert_eq!((output.as_str(), rest.lines().count()), ("ok\nnext\n", 1), "{rest}");
}

/// In a container its first process is of the session of the run, so a session does not tell who was
/// left running: the sleeper was taken for one that sleeps as it was told to.
#[test]
fn who_was_left_running_is_known_in_a_container_too() {
    if !have(&["unshare"]) {
        return;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["-Ur", "-pf", "--mount-proc", "--kill-child", "bash", "-c"]);
        command
    };
    if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        return eprintln!("SKIPPED: namespaces may not be made");
    }
    let text = format!("'{WEIR}' sh -c '(sleep 8 & echo ok) | cat; echo next'; exit");
    let mut command = unshare();
    command.arg(text).env("WEIR_WHY_AFTER", "2s").env("WEIR_MIN", "1d");
    let (output, said) = Stalled::new(&mut command).end();
    assert_eq!(output, "ok\nnext\n");
    assert!(said.starts_with(SAYS) && said.contains(" was left running by "), "{said}");
}

/// Two that wait for each other, until a limit of time ends them.
#[test]
fn the_verdict_on_a_run_that_stood_still_says_who_waited_for_whom() {
    let circle = format!(
        "{} -c 'import subprocess as s; p = s.Popen([\"seq\", \"200000\"], stdout=s.PIPE); p.wait()'",
        python()
    );
    let text = format!("timeout 6 {circle}");
    let args = ["run", "--brief", "--json", "-", &text];
    let output = Command::new(WEIR).args(args).output().expect("weir");
    let report = schema::check_text("weir.run/1", &output.stdout);
    let verdict = report["verdict"]["text"].as_str().expect("a text");
    assert!(verdict.starts_with("nothing moved for "), "{verdict}");
    assert!(verdict.contains("they wait in a circle"), "{verdict}");
    assert!(report["stall"]["lasted_s"].as_f64() > Some(2.0), "{report:#}");
}

/// "Held up by the reader of what timeout writes to its standard error": it was the pipe of another program, which
/// python had made and read too late. It had nothing to write either, and `python -u` was advised.
#[test]
fn a_program_that_does_not_read_the_errors_of_its_child_is_what_nothing_moves_for() {
    if !have(&["perl"]) {
        return;
    }
    let text = format!(
        "timeout 6 {} -c 'import subprocess as s; p = s.Popen([\"perl\", \"-e\", \"print STDERR 1 x 200000\"], \
         stdout=s.PIPE, stderr=s.PIPE); print(p.stdout.read())' | cat",
        python()
    );
    let args = ["run", "--why-after", "1s", "--brief", "--json", "-", &text];
    let output = Command::new(WEIR).args(args).output().expect("weir");
    let report = schema::check_text("weir.run/1", &output.stdout);
    let verdict = report["verdict"]["text"].as_str().expect("a text");
    assert!(verdict.starts_with("nothing moved for "), "{verdict}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nothing has moved") && !said.contains("own buffer"), "{said}");
    assert!(report["stages"][0]["blocked_err_s"].as_f64() < Some(1.0), "{report:#}");
}

/// A server that was started for a test looks around twice a second, and could move bytes that nobody
/// counts: it never counted as still, and "asleep" was all that was said of the shell that waited for it.
#[test]
fn a_server_that_was_left_running_in_a_substitution_is_named() {
    if !have(&["perl"]) {
        return;
    }
    // With the socket of a server it may receive, which is not counted.
    let serve = "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => \
                 \"127.0.0.1\"); while (1) { select(undef, undef, undef, 0.3) }'";
    let script = tempfile::NamedTempFile::new().expect("a file");
    let text = format!("out=$({serve} & echo ready); echo got $out");
    std::fs::write(script.path(), text).expect("written");
    let command = format!("bash {}", script.path().display());
    let mut stalled = Stalled::new(Command::new(WEIR).args(["run", "--why-after", "2s", &command]));
    let (first, left) = stalled.line(SAYS, "(perl ");
    assert!(first.contains("waits for data or the end of file from a pipe of"), "{first}");
    stalled.line(&format!("{left} was left running by a process that has ended"), "");
    kill(left);
    let (output, rest) = stalled.end();
    assert_eq!(output, "got ready\n");
    assert!(rest.contains("\nheld up by perl ") && rest.contains("left running by"), "{rest}");
}

/// Who reads the output of a script waits for what the script left running, after the script has ended.
/// It said that the sleeper "was blocked 100 % of the time on something that weir may not see": nobody
/// had met it, since the shell that started it ended at once, and the run was over before the answer to
/// why nothing moved was fetched.
#[test]
fn a_substitution_that_waits_for_what_was_left_running_is_the_verdict_of_a_short_run_too() {
    let text = "v=$(bash -c 'sleep 3.5 & echo $!'); echo $v";
    let run = Command::new(WEIR).args(["run", "bash", "-c", text]).stdin(Stdio::null()).output();
    let run = run.expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr);
    let left = String::from_utf8_lossy(&run.stdout);
    let verdict = format!("held up by sleep 3.5 (PID {}), left running by", left.trim());
    assert!(said.contains(&verdict), "{said}");
}

#[test]
fn a_script_names_what_it_left_running_with_its_output_open() {
    let mut command = Command::new(WEIR);
    command.args(["sh", "-c", "sleep 100 & echo $!"]);
    let mut stalled = Stalled::new(&mut command);
    let mut line = String::new();
    let mut output = BufReader::new(stalled.child.stdout.take().expect("piped"));
    output.read_line(&mut line).expect("a line");
    let left: i32 = line.trim().parse().expect("an id");
    stalled.child.wait().expect("it ends");
    stalled.line("weir sh: bash -c", "");
    let (said, _) = stalled.line("", "");
    kill(left);
    let who = format!("(PID {left}), left running, still has the output open");
    assert!(said.contains(&who), "{said}");
}

#[test]
fn what_was_told_to_sleep_and_a_quiet_run_say_nothing() {
    for args in [
        vec!["run", "--why-after", "1s", "--brief", "sleep 4 | cat"],
        vec!["run", "--why-after", "1s", "-q", "(sleep 4 & echo ok) | cat"],
        vec!["run", "--why-after", "never", "--brief", "(sleep 4 & echo ok) | cat"],
    ] {
        let (_, said) = Stalled::new(Command::new(WEIR).args(&args)).end();
        assert!(!said.contains("nothing has moved"), "{args:?}: {said}");
    }
}
