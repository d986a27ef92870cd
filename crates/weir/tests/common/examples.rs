//! Example programs that cargo has built, started by tests.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// An example that cargo has built beside this test.
pub fn example(name: &str) -> Command {
    let own = std::env::current_exe().expect("a program");
    let built = own.ancestors().nth(2).expect("a directory").join("examples").join(name);
    let hint = "`cargo test` of its crate builds it, `--test examples` alone does not";
    assert!(built.exists(), "{} is missing: {hint}", built.display());
    let mut command = Command::new(built);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn said(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("text")
}

pub fn place(name: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    (directory, path)
}

/// Waits until a program listens at a path. The file is there a moment earlier.
pub fn wait_for(path: &Path) {
    let begun = std::time::Instant::now();
    let path = path.to_str().expect("text");
    // A line ends with flags, type, state, inode and path. The flag is that of one that listens.
    let listens = |line: &str| line.contains(" 00010000 ") && line.ends_with(path);
    let sockets = || std::fs::read_to_string("/proc/net/unix").expect("there");
    while !sockets().lines().any(listens) {
        assert!(begun.elapsed().as_secs() < 20, "{path} is made");
        std::thread::yield_now();
    }
}

/// The checksum that a program prints.
pub fn sum(text: &str) -> Option<String> {
    text.split(" checksum ").nth(1).map(|rest| rest[..16].to_owned())
}
