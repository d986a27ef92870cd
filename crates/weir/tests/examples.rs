//! The example programs, run as their comments say.

#[path = "common/examples.rs"]
mod examples;

use examples::{example, place, said, sum, wait_for};
use std::process::Child;

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
fn the_patterns_run() {
    for (pattern, says) in
        [("worker_pool", "1000 results of 3 workers"), ("broadcast", "3 readers, ")]
    {
        let text = said(example(pattern).spawn().expect("started"));
        assert!(text.contains(says), "{pattern}: {text}");
    }
}

/// The page's programs are the examples, and print what it says.
#[test]
fn the_programs_of_the_page_are_the_examples() {
    let page = include_str!("../../../docs/rust.md");
    let mut blocks = page.split("\n<!-- ").skip(1).map(|block| {
        let (name, rest) = block.split_once(".rs -->\n```rust\n").expect("a program");
        let (code, rest) = rest.split_once("```\n\n```text\n").expect("what it prints");
        (name, code, rest.split("```").next().expect("the end"))
    });
    let names = ["arrays", "log", "request", "killed"];
    for name in names {
        let (found, code, output) = blocks.next().expect("four programs");
        let file = format!("{}/examples/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).expect("an example");
        assert_eq!((found, code), (name, &*text));
        assert_eq!(said(example(name).spawn().expect("started")), output, "{name}");
    }
}
