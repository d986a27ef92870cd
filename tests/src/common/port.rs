//! What the tests of `weir port` share: a place for names, and processes that do not outlive it.

use super::{WEIR, bound, bounded_bash};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

/// A directory of names. Dropping this removes it.
pub struct Place {
    /// The directory in which the test works. Names without a `/` are in `weir` below it.
    pub directory: tempfile::TempDir,
}

impl Default for Place {
    fn default() -> Place {
        Place::new()
    }
}

impl Place {
    pub fn new() -> Place {
        Place { directory: tempfile::tempdir().expect("a directory") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("weir").join(name)
    }

    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("XDG_RUNTIME_DIR", self.directory.path()).env("WEIR", WEIR);
        command.current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `weir port ARGS` to its end.
    pub fn port(&self, args: &str) -> Output {
        self.command(WEIR).arg("port").args(args.split(' ')).output().expect("weir starts")
    }

    /// Runs a script of bash to its end; `$WEIR` is the command.
    pub fn bash(&self, script: &str) -> Output {
        self.bash_command(script).output().expect("bash starts")
    }

    /// The command that runs a script of bash.
    pub fn bash_command(&self, script: &str) -> Command {
        let words = bounded_bash(script);
        let mut command = self.command(&words[0]);
        command.args(&words[1..]);
        command
    }

    pub fn start(&self, mut command: Command) -> Running {
        let mut child = command.spawn().expect("it starts");
        bound(&child);
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Running { child, output }
    }

    /// Starts `weir port read ARGS`.
    pub fn read(&self, args: &str) -> Running {
        let mut command = self.command(WEIR);
        command.args(["port", "read"]).args(args.split(' '));
        self.start(command)
    }

    /// Sends input to a port that exists or soon will.
    pub fn write(&self, args: &str, input: &[u8]) -> Output {
        let mut command = self.command(WEIR);
        command.args(["port", "write", "--wait=60s"]).args(args.split(' ')).stdin(Stdio::piped());
        let mut child = command.spawn().expect("weir starts");
        // A writer that was refused does not read its input.
        let _ = child.stdin.take().expect("piped").write_all(input);
        child.wait_with_output().expect("ends")
    }

    /// Checks that every port of this place is closed, and that it left nothing behind.
    pub fn is_empty(&self) -> bool {
        std::fs::read_dir(self.path("")).expect("a directory").next().is_none()
    }

    pub fn json(&self, args: &str) -> Value {
        let output = self.port(args);
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// The line of the first writer to a port; empty if there is none yet.
    pub fn first_writer(&self, name: &str) -> Value {
        let output = self.port(&format!("stat {name} --json -"));
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        seen["writers"][0].clone()
    }

    /// The text with everything that differs from run to run replaced.
    pub fn redacted(&self, output: &Output, pids: &[(u32, &str)]) -> String {
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text = text.replace(&*self.directory.path().to_string_lossy(), "DIR");
        for (pid, word) in pids {
            text = text.replace(&format!(" {pid} "), &format!(" {word} "));
        }
        let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(squeeze).collect::<Vec<_>>().join("\n")
    }
}

/// A process that does not outlive the test.
pub struct Running {
    /// The process.
    pub child: Child,
    /// What it prints.
    pub output: BufReader<ChildStdout>,
}

impl Running {
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line
    }

    pub fn kill(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
    }

    /// The rest of what it printed on both outputs, and how it ended.
    pub fn end(&mut self) -> (ExitStatus, Vec<u8>, String) {
        let (mut out, mut err) = (Vec::new(), String::new());
        self.output.read_to_end(&mut out).expect("read");
        self.child.stderr.take().expect("piped").read_to_string(&mut err).expect("read");
        (self.child.wait().expect("ends"), out, err)
    }

    /// Checks that it ended well and printed no complaint.
    pub fn printed(&mut self) -> Vec<u8> {
        let (status, out, err) = self.end();
        assert_eq!((status.code(), err.as_str()), (Some(0), ""));
        out
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in ["panicked", "RUST_", "unwrap"] {
        assert!(!text.contains(word), "not for a user's eyes: {text}");
    }
    text
}

pub fn refused(output: &Output, status: i32, expected: &str) {
    assert_eq!(output.status.code(), Some(status), "{}", said(output));
    assert!(said(output).contains(expected), "{}", said(output));
}

pub fn sent(output: &Output) {
    assert_eq!((output.status.code(), said(output).as_str()), (Some(0), ""));
}
