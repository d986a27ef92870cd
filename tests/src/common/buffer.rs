//! What the tests of `weir buffer` share: a buffer between two ends that the test holds.

use super::port::Place;
use super::{WEIR, bound, bounded_bash, schema};
use serde_json::Value;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Bytes that are different at each place.
pub fn sample(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// A buffer whose ends belong to the test. Dropping this kills it.
pub struct Buffer {
    pub child: Child,
    pub input: Option<PipeWriter>,
    pub output: Option<PipeReader>,
}

impl Buffer {
    /// `weir buffer ARGS`, between two pipes.
    pub fn start(place: &Place, args: &str) -> Buffer {
        let mut command = place.command(WEIR);
        command.arg("buffer").args(args.split_whitespace());
        Buffer::start_by(command)
    }

    /// A command that becomes a buffer, between two pipes.
    pub fn start_by(mut command: Command) -> Buffer {
        let (reader, input) = pipe().expect("a pipe");
        let (output, writer) = pipe().expect("a pipe");
        command.stdin(reader).stdout(writer);
        let child = command.spawn().expect("weir starts");
        bound(&child);
        Buffer { child, input: Some(input), output: Some(output) }
    }

    /// Writes all bytes from a thread, and counts how many the buffer has taken.
    pub fn feed(&mut self, bytes: Vec<u8>) -> Fed {
        let mut input = self.input.take().expect("not fed yet");
        let taken = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&taken);
        let thread = std::thread::spawn(move || {
            for piece in bytes.chunks(64 << 10) {
                if input.write_all(piece).is_err() {
                    return false;
                }
                // Relaxed: the count is only shown, and orders nothing.
                count.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
            true
        });
        Fed { taken, thread }
    }

    /// Everything that comes out.
    pub fn read(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.output.take().expect("not read yet").read_to_end(&mut bytes).expect("read");
        bytes
    }

    /// What it printed on standard error, and how it ended.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        let mut error = self.child.stderr.take().expect("piped");
        error.read_to_string(&mut said).expect("text");
        (self.child.wait().expect("ends"), said)
    }

    /// A line of `/proc/PID/status`, in bytes.
    pub fn status_bytes(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let text = text.expect("it runs");
        let line = text.lines().find(|line| line.starts_with(name)).expect(name);
        let kb = line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok());
        kb.expect("a number") * 1024
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes that a thread writes to a buffer.
pub struct Fed {
    taken: Arc<AtomicU64>,
    thread: JoinHandle<bool>,
}

impl Fed {
    pub fn bytes(&self) -> u64 {
        // Relaxed: the count is only shown, and orders nothing.
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether the buffer took all bytes.
    pub fn all(self) -> bool {
        self.thread.join().expect("no panic")
    }
}

/// The report that `--json json` wrote.
pub fn json(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.directory.path().join("json")).expect("written");
    schema::check_text("weir.buffer/1", text.as_bytes())
}

/// Runs a bash script in a mount namespace of its own, which ends with the script. Returns `None`
/// where that is not allowed.
pub fn with_mounts(place: &Place, script: &str) -> Option<std::process::Output> {
    let allowed = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no privilege for a mount namespace");
        return None;
    }
    let mut command = place.command("unshare");
    command.arg("-m").args(bounded_bash(script));
    Some(command.output().expect("unshare starts"))
}
