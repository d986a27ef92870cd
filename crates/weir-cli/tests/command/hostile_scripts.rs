//! Scripts that are bad input or behave badly, under `weir run ./x`, `weir run 'bash x'` and `weir sh x`:
//! their output and status are those of bash, and weir ends.

use crate::common::{WEIR, bound, have, until, write_program};
use rustix::io::ioctl_fionread;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A directory of scripts.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, script: impl AsRef<[u8]>) {
        write_program(self.path().join(name), script);
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.path()).stdin(Stdio::null());
        command
            .env_remove("WEIR_SH")
            .env_remove("GITHUB_ACTIONS")
            .env_remove("WEIR_REPORT")
            .env("LC_ALL", "C");
        command.env("WEIR_MIN", "0");
        command
    }

    /// Runs a command, in files: what a script leaves behind may keep a pipe open.
    fn gave(&self, words: &[&str]) -> Output {
        let file = || tempfile::tempfile().expect("a file");
        let (mut out, mut err) = (file(), file());
        let dup = |file: &std::fs::File| file.try_clone().expect("duplicated");
        let mut command = self.command(words);
        let mut child =
            command.stdout(dup(&out)).stderr(dup(&err)).spawn().expect("the command starts");
        bound(&child);
        let status = child.wait().expect("it ends");
        let read = |file: &mut std::fs::File| {
            use std::io::{Read, Seek};
            let mut bytes = Vec::new();
            file.rewind().expect("at its start");
            file.read_to_end(&mut bytes).expect("read");
            bytes
        };
        Output { status, stdout: read(&mut out), stderr: read(&mut err) }
    }

    /// The script gives the same in all ways of starting it. `again` makes the place as it was before
    /// each run. Returns what the three runs of weir printed on standard error.
    fn same_again(&self, script: &str, again: impl Fn()) -> [String; 3] {
        let by_path = format!("./{script}");
        let by_bash = format!("bash {script}");
        let ways = [
            (["bash", "-c", &by_path], vec!["run", by_path.as_str()]),
            (["bash", "--", script], vec!["run", by_bash.as_str()]),
            (["bash", "--", script], vec!["sh", script]),
        ];
        ways.map(|(bash, weir)| {
            again();
            let bash = self.gave(&bash);
            again();
            let weir = self.gave(&[&[WEIR], weir.as_slice()].concat());
            let said = String::from_utf8_lossy(&weir.stderr).into_owned();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(text(&weir.stdout), text(&bash.stdout), "{script}: {said}");
            // A shell that a signal killed is a status of 128 and more to weir run.
            let killed = bash.status.signal().map(|signal| 128 + signal);
            let code = weir.status.code().or(weir.status.signal().map(|signal| 128 + signal));
            assert_eq!(code, killed.or(bash.status.code()), "{script}: {said}");
            assert!(said.contains("weir: "), "{script}: {said}");
            assert!(!said.contains("panicked"), "{script}: {said}");
            said
        })
    }

    fn same(&self, name: &str, script: impl AsRef<[u8]>) -> [String; 3] {
        self.same_again(name, || self.write(name, &script))
    }
}

#[test]
fn a_script_that_is_missing_or_may_not_be_executed() {
    let place = Place::new();
    place.same_again("nosuch", || {});
    place.same_again("closed", || {
        place.write("closed", "#!/bin/bash\necho hi; exit 3\n");
        let path = place.path().join("closed");
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o644)).expect("set");
    });
    std::fs::create_dir(place.path().join("directory")).expect("made");
    place.same_again("directory", || {});
}

#[test]
fn a_script_with_carriage_returns_is_told() {
    let place = Place::new();
    let [by_path, by_bash, _] = place.same("crlf", "#!/bin/bash\r\necho hi | cat\r\nexit 3\r\n");
    let said =
        "./crlf was not run: its lines end with CR LF, so its first line names no '/bin/bash'";
    assert!(by_path.contains(said), "{by_path}");
    assert!(by_bash.contains("command not found"), "{by_bash}");
    place.same("bare", "echo hi\r\nfalse\r\n");
    // With an argument no shell stands between: weir says itself why it could not start it.
    let ran = place.gave(&[WEIR, "run", "./crlf", "x"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("cannot start stage 1 './crlf x': its lines end with CR LF"), "{said}");
    assert_eq!(ran.status.code(), Some(127));
    // The shell is seen long enough to know which script it reads. The carriage returns are in
    // comments, so that it sleeps.
    place.write("slow", "sleep 0.5 #\r\ntrue\r\nsleep 0.5 #\r\n");
    let ran = place.gave(&[WEIR, "run", "bash slow"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("note: the lines of slow end with CR LF"), "{said}");
}

#[test]
fn a_script_for_another_program() {
    let place = Place::new();
    let [said, ..] = place.same("fish", "#!/nosuch/fish\necho hi | cat\nexit 4\n");
    let why = "./fish was not run: its first line names '/nosuch/fish', which is not installed";
    assert!(said.contains(why), "{said}");
    let [said, ..] = place.same("env", "#!/usr/bin/env nosuchfish\necho hi\n");
    assert!(!said.contains("was not run"), "{said}");
    let ran = place.gave(&[WEIR, "run", "./fish", "x", "|", "cat"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("'./fish x': its first line names '/nosuch/fish'"), "{said}");
    for program in ["dash", "zsh", "python3", "fish"] {
        if !have(&[program]) {
            continue;
        }
        let text = match program {
            "python3" => "import os, sys\nos.system('seq 3 | tail -1')\nsys.exit(5)\n",
            _ => "seq 3 | tail -1\nexit 5\n",
        };
        place.same(program, format!("#!/usr/bin/env {program}\n{text}"));
    }
}

#[test]
fn garbage_and_odd_files() {
    let place = Place::new();
    place.same("empty", "");
    place.same("elf", b"\x7fELF\0\0\0\x01\x02\0");
    place.same("nul", b"\0\x01\x02 )(\xff\n\0");
    place.same("high", b"\xff\xfe\x80)(\n\xe2\x80\xae\n");
    place.same("only", "#!");
    place.same("end", "#!/bin/bash");
    place.same("itself", format!("#!{}/itself\necho x\n", place.path().display()));
}

#[test]
fn a_long_script() {
    let place = Place::new();
    // Longer than what is read of a script; many short lines; here-documents without an end.
    let lines = "x=1 # a comment that takes up room\n".repeat(40_000);
    place.same("big", format!("#!/bin/bash\n{lines}seq 9 | tail -1; exit 6\n"));
    place.same("lines", format!("{}seq 9 | tail -1; exit 6\n", ":\n".repeat(100_000)));
    place.same("here", "cat <<E\n".repeat(20_000));
    place.same("deep", format!("{}\n", "( ".repeat(50_000)));
}

/// Processes that a script leaves behind, by the file to which they wrote their numbers.
fn end_those_left(place: &Place) -> usize {
    let pids = std::fs::read_to_string(place.path().join("pids")).unwrap_or_default();
    let _ = std::fs::remove_file(place.path().join("pids"));
    let pids: Vec<i32> = pids.lines().filter_map(|line| line.parse().ok()).collect();
    let end = |pid: i32| kill_process(Pid::from_raw(pid)?, Signal::KILL).ok();
    pids.into_iter().filter_map(end).count()
}

#[test]
fn a_script_that_leaves_others_behind() {
    let place = Place::new();
    let left = |text: &str| {
        format!("{text}\nuntil [ \"$(wc -l < pids)\" = 1 ]; do :; done 2> /dev/null\nexit 4\n")
    };
    let sleeps = "sh -c 'echo $$ >> pids; exec sleep 300'";
    for (name, text) in [
        ("session", format!("setsid {sleeps} & echo done | cat")),
        ("twice", format!("( ( {sleeps} & ) & ); echo done")),
        ("piped", format!("{sleeps} | cat & disown; echo done")),
    ] {
        let script = left(&text);
        let again = || {
            end_those_left(&place);
            place.write(name, &script);
        };
        place.same_again(name, again);
        assert_eq!(end_those_left(&place), 1, "{name}: it was left alone");
    }
}

#[test]
fn a_script_that_is_killed_or_stopped_in_the_middle() {
    let place = Place::new();
    for signal in ["KILL", "TERM", "HUP", "SEGV", "PIPE"] {
        let text =
            format!("echo start | cat\n(kill -{signal} $$) &\nwait; read < fifo; echo never\n");
        place.same_again("killed", || {
            place.write("killed", &text);
            let _ = Command::new("mkfifo")
                .arg(place.path().join("fifo"))
                .stderr(Stdio::null())
                .status();
        });
    }
    // sleep: the script must have stopped before it is continued.
    place.same("stopped", "(sleep 0.3; kill -CONT $$) & kill -STOP $$\nseq 3 | cat\nexit 5\n");
}

#[test]
fn a_script_that_takes_away_what_it_stands_on() {
    let place = Place::new();
    place.same("descriptors", "exec <&- >&- 2>&-\n(exit 3) | (exit 9)\n");
    place.same("itself", "rm -- \"$0\"\nseq 5 | cat\nexit 6\n");
    let gone =
        "mkdir gone; cd gone; rmdir ../gone\nseq 3 | sort | cat\n/bin/pwd 2>&1 | wc -l\nexit 7\n";
    place.same("directory", gone);
    place.same("replaced", "seq 3 | cat\nexec sh -c 'seq 100000 | sort -n | tail -1; exit 8'\n");
    place.same("jobs", "set -m\nseq 3 | cat\nsleep 0.1 & wait\nseq 9 | tail -1\nexit 9\n");
    place.same("limits", "ulimit -n 5; ulimit -f 0; seq 3 | cat; exit 10\n");
    place.same("environment", "unset PATH; export -n HOME; /bin/true; exit 11\n");
}

#[test]
fn a_fifo_is_read_as_a_script() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.path().join("x")).status().expect("mkfifo").success());
    for words in [&["bash", "x"][..], &[WEIR, "sh", "x"], &[WEIR, "run", "bash x"]] {
        let path = place.path().join("x");
        let writer = std::thread::spawn(move || {
            let mut fifo = std::fs::OpenOptions::new().write(true).open(path).expect("a reader");
            fifo.write_all(b"seq 3 | cat\nexit 3\n").expect("written");
        });
        let ran = place.gave(words);
        writer.join().expect("the writer ended");
        assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(3), &b"1\n2\n3\n"[..]));
    }
    // Not executable, and never opened.
    assert_eq!(place.gave(&[WEIR, "run", "./x"]).status.code(), Some(126));
}

#[test]
fn five_thousand_processes() {
    let place = Place::new();
    place.write("many", "for i in {1..5000}; do (:); done; echo $i; exit 3\n");
    let ran = place.gave(&[WEIR, "sh", "many"]);
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(3), &b"5000\n"[..]));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("bash many failed with status 3"));
}

/// A fork bomb within a limit: processes that start others for a second, up to 100 of a user whom
/// nobody else is.
#[test]
fn a_fork_bomb_up_to_its_limit() {
    if !have(&["perl", "prlimit", "setpriv"]) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: another user's limit takes root");
        return;
    }
    let place = Place::new();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o777)).expect("set");
    let weir = place.path().join("weir");
    crate::common::copy_program(WEIR, &weir);
    let weir = weir.to_str().expect("UTF-8");
    place
        .write("bomb", "perl -e '$t = time; fork while time < $t + 2; 1 while wait > 0'; exit 3\n");
    let limited = |user: u32, most: u32, words: &[&str]| {
        let user = (user + std::process::id() % 100_000).to_string();
        let mut all = vec![String::from("prlimit"), format!("--nproc={most}:{most}")];
        all.extend(["setpriv", "--clear-groups", "--reuid", &user].map(String::from));
        all.extend(words.iter().map(|word| String::from(*word)));
        place.gave(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for (user, words) in
        [(700_000, vec![weir, "sh", "bomb"]), (800_000, vec![weir, "run", "bash bomb"])]
    {
        let ran = limited(user, 100, &words);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(3), "{said}");
        assert!(said.contains("failed with status 3"), "{said}");
    }
    // At the limit already: weir sh becomes bash.
    let ran = limited(900_000, 1, &[weir, "sh", "-c", "echo on; exit 4"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(4), &b"on\n"[..]), "{said}");
    assert!(
        said.contains("cannot start another process: ") && said.contains("bash runs unmeasured")
    );
    let ran = limited(900_000, 1, &[weir, "run", "seq 3 | cat"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("cannot start stage 1 'seq 3': "), "{said}");
}

/// Once the run was over, weir took signals and did nothing about them: who waited for a report that
/// took long, or that nobody read, could only kill it. So it was after a comparison.
#[test]
fn a_signal_ends_weir_while_it_writes_its_report() {
    let stages = vec!["true"; 60].join(" | ");
    ends_while_it_writes(&[WEIR, "run", &stages]);
    ends_while_it_writes(&[WEIR, "run", "--compare", "--runs", "6", "true | true"]);
    ends_while_it_writes(&[WEIR, "run", "--compare", "--runs", "6", "true", "true"]);
}

/// `timeout` sends its signal to weir and then to the group of weir, and one report in eight was lost:
/// the second one came when the first had ended the run.
#[test]
fn a_signal_that_ended_the_run_and_comes_once_more_loses_no_report() {
    for verb in [&["run"][..], &["sh", "-c"]] {
        let place = Place::new();
        let script = "touch up; exec sleep 61";
        let words: Vec<&str> = [WEIR].iter().chain(verb).copied().chain([script]).collect();
        let (mut child, reader) = at_a_full_pipe(&place, &words, |weir| {
            until("the script runs", || place.path().join("up").exists());
            kill_process(weir, Signal::TERM).expect("sent");
        });
        kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
        let at = format!("/proc/{}/status", child.id());
        until("it has come", || {
            let text = std::fs::read_to_string(&at).expect("it has not been waited for");
            let waiting = text.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
            waiting.is_some_and(|mask| mask.trim().bytes().all(|digit| digit == b'0'))
        });
        let mut said = String::new();
        std::fs::File::from(reader).read_to_string(&mut said).expect("UTF-8");
        let said = said.trim_start_matches('x');
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}, and weir said: {said}");
        assert!(said.contains("interrupted by SIGTERM"), "{verb:?}: {said}");
    }
}

fn ends_while_it_writes(words: &[&str]) {
    let place = Place::new();
    let (mut child, reader) = at_a_full_pipe(&place, words, |_| {});
    kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
    let status = child.wait().expect("it ends");
    let mut said = String::new();
    std::fs::File::from(reader).read_to_string(&mut said).expect("UTF-8");
    let said = said.trim_start_matches('x');
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}, and weir said: {said}");
}

/// Starts weir, whose standard error is a full pipe, and goes on once it waits to write to that.
fn at_a_full_pipe(place: &Place, words: &[&str], meanwhile: impl FnOnce(Pid)) -> (Child, OwnedFd) {
    // Not for the scripts of other tests: their weir would find it among their descriptors, and
    // make it larger.
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let size = fcntl_setpipe_size(&writer, 4096).expect("resized") as u64;
    // The pipe is full already: whoever writes to it waits.
    rustix::io::write(&writer, &vec![b'x'; size as usize]).expect("written");
    let mut command = place.command(words);
    let child = command.stdout(Stdio::null()).stderr(writer).spawn().expect("it starts");
    drop(command);
    bound(&child);
    meanwhile(Pid::from_child(&child));
    let at = format!("/proc/{}/wchan", child.id());
    until("weir waits for its reader", || {
        std::fs::read_to_string(&at).is_ok_and(|at| at.contains("pipe_w"))
    });
    assert_eq!(ioctl_fionread(&reader).expect("its fill"), size);
    (child, reader)
}
