//! The example programs, run as their comments say.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// An example that cargo has built beside this test.
fn example(name: &str) -> Command {
    let own = std::env::current_exe().expect("a program");
    let built = own.ancestors().nth(2).expect("a directory").join("examples").join(name);
    let hint = "`cargo test -p weir` builds it, `--test examples` alone does not";
    assert!(built.exists(), "{} is missing: {hint}", built.display());
    let mut command = Command::new(built);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn place(name: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    (directory, path)
}

/// Waits until a program listens at a path. The file is there a moment earlier.
fn wait_for(path: &Path) {
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
fn sum(text: &str) -> Option<String> {
    text.split(" checksum ").nth(1).map(|rest| rest[..16].to_owned())
}

#[test]
fn a_pipe_between_two_programs() {
    let (_directory, path) = place("pipe");
    let receiving = example("pipe_recv").arg(&path).arg("--check").spawn().expect("started");
    wait_for(&path);
    let mut sending = example("pipe_send");
    let sending = sending.arg(&path).args(["--bytes", "4M", "--check"]).spawn().expect("started");
    let (sent, received) = (said(sending), said(receiving));
    assert!(sum(&sent).is_some() && sum(&sent) == sum(&received), "{sent}{received}");
}

#[test]
fn an_elastic_pipe_between_two_programs() {
    let (_directory, path) = place("elastic");
    let mut receiving = example("pipe_recv");
    receiving.arg(&path).args(["--check", "--elastic", "1M", "--rest", "0.2"]);
    let receiving = receiving.spawn().expect("started");
    wait_for(&path);
    let mut sending = example("pipe_send");
    let sending = sending.arg(&path).args(["--bytes", "9M", "--check"]).spawn().expect("started");
    let (sent, received) = (said(sending), said(receiving));
    assert!(sum(&sent).is_some() && sum(&sent) == sum(&received), "{sent}{received}");
}

#[test]
fn a_port_with_three_writers() {
    let (_directory, path) = place("port");
    let reading =
        example("port_read").arg(&path).args(["--writers", "3"]).spawn().expect("started");
    let writing: Vec<Child> = (0..3)
        .map(|_| {
            let mut command = example("port_write");
            command.arg(&path).args(["--messages", "2000", "--wait", "30"]);
            command.spawn().expect("started")
        })
        .collect();
    for child in writing {
        said(child);
    }
    let text = said(reading);
    assert_eq!(text.matches("Closed: 2000 messages").count(), 3, "{text}");
    assert!(text.contains("received 6000 messages of 3 writers"), "{text}");
}

#[test]
fn two_programs_take_turns() {
    let (_directory, path) = place("flags");
    let [one, other] = [0, 1].map(|_| {
        let mut command = example("flags_turns");
        command.arg(&path).args(["--turns", "2000"]).spawn().expect("started")
    });
    let text = said(one) + &said(other);
    assert!(text.contains("the first took 2000 turns"), "{text}");
    assert!(text.contains("the second took 2000 turns"), "{text}");
}

#[test]
fn an_mpx_with_many_channels() {
    let (_directory, path) = place("mpx");
    let owning = example("mpx_owner").arg(&path).arg("--check").spawn().expect("started");
    wait_for(&path);
    let mut sending = example("mpx_peer");
    let counts = ["--channels", "300", "--records", "50", "--bytes", "1000", "--check"];
    let sending = sending.arg(&path).args(counts).spawn().expect("started");
    let sum = |text: &str| text.split(" checksum ").nth(1).map(|rest| rest[..16].to_owned());
    let (sent, received) = (said(sending), said(owning));
    assert!(sum(&sent).is_some() && sum(&sent) == sum(&received), "{sent}{received}");
    assert!(received.contains("300 channels ended, of which 0 died"), "{received}");
}

#[test]
fn the_patterns_run() {
    for (pattern, says) in [
        ("worker_pool", "1000 results of 3 workers"),
        ("request_reply", "2 clients had 100 replies each"),
        ("broadcast", "3 readers, "),
    ] {
        let text = said(example(pattern).spawn().expect("started"));
        assert!(text.contains(says), "{pattern}: {text}");
    }
}
