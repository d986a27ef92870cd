//! What a link says where it is alone, and in an answer.

use super::*;
use weir_doctor::facts::{Peer, PeerKind};
use weir_doctor::why::{Named, PipeWait};

fn process(pid: i32, wait: Cause) -> WhyLink {
    let named = Named { pid, command: format!("p{pid}") };
    WhyLink {
        named,
        parent: None,
        wait,
        has_way_out: false,
        beside: None,
        share: None,
        threads: Vec::new(),
        still_ns: None,
        left: false,
        tracer: None,
        held_back: None,
        hot: None,
    }
}

fn pipe(writes: bool, others: &[i32]) -> Cause {
    Cause::Pipe(PipeWait { writes, others: others.to_vec(), ..PipeWait::default() })
}

fn child(children: &[i32], looker: bool) -> Cause {
    Cause::Child { children: children.to_vec(), looker }
}

fn lock(path: Option<&str>, holders: &[i32]) -> Cause {
    Cause::Lock { path: path.map(str::to_owned), holders: holders.to_vec(), own: false }
}

/// The text and the processes beside it, as JSON has them.
fn alone(wait: Cause) -> (String, Vec<i64>) {
    let link = link(&process(1, wait), None);
    let pids = link["waits_for_pids"].as_array().expect("a list").iter();
    let text = link["text"].as_str().expect("a text").to_owned();
    (text, pids.filter_map(Value::as_i64).collect())
}

#[test]
fn a_text_beside_known_processes_calls_nobody_unseen() {
    let cases = [
        (pipe(false, &[7, 8]), "waits for data or the end of file from a pipe"),
        (pipe(true, &[7, 8]), "waits for room in a pipe, which is full"),
        (child(&[7, 8], false), "waits for the end of a child"),
        (lock(Some("/a"), &[7, 8]), "waits for the lock on /a"),
        (lock(None, &[7, 8]), "waits for a lock in shared memory"),
    ];
    for (wait, text) in cases.clone() {
        assert_eq!(alone(wait), (text.to_owned(), vec![7, 8]));
    }
    for (writes, text) in [(false, cases[0].1), (true, cases[1].1)] {
        let own = PipeWait { writes, own: true, others: vec![7], ..PipeWait::default() };
        assert_eq!(alone(Cause::Pipe(own)).0, text);
    }
    let ended = alone(Cause::Ended { parent: Some(7) });
    let text = "has ended (a zombie): its parent has not collected its status";
    assert_eq!(ended, (text.to_owned(), vec![7]));
}

#[test]
fn a_text_beside_no_process_says_that_none_is_known() {
    let cases = [
        (pipe(false, &[]), "waits for data from a pipe whose writer cannot be seen"),
        (
            pipe(true, &[]),
            "waits for room in a pipe, which is full and whose reader cannot be seen",
        ),
        (
            Cause::Pipe(PipeWait { looker: true, ..PipeWait::default() }),
            "waits for data or the end of file from a pipe of weir itself",
        ),
        (child(&[], true), "waits for the end of a child, most likely of weir itself"),
        (lock(Some("/a"), &[]), "waits for the lock on /a; who holds it cannot be seen"),
    ];
    for (wait, text) in cases {
        assert_eq!(alone(wait), (text.to_owned(), vec![]));
    }
}

#[test]
fn queues_and_starts_of_programs_say_what_is_missing() {
    let queue = |path: Option<&str>, writes| Cause::Queue { path: path.map(str::to_owned), writes };
    let cases = [
        (queue(Some("/q"), true), "waits for room in the message queue /q, which is full"),
        (queue(None, true), "waits for room in a message queue of System V, which is full"),
        (Cause::Vfork { child: None }, "waits until a child starts a program or ends (vfork)"),
        (
            child(&[], false),
            "waits for the end of a child, or of a process that it debugs, which cannot be seen",
        ),
    ];
    for (wait, text) in cases {
        assert_eq!(alone(wait), (text.to_owned(), vec![]));
    }
}

#[test]
fn who_has_the_other_end_of_a_socket_itself_waits_for_no_process() {
    let said = |pid: i32| {
        let peer = Box::new(Peer { pid: Some(pid), ..Peer::default() });
        alone(Cause::Socket { peer, owners: vec![], own: false, more: false, writes: false })
    };
    let own = "waits for data on a socket whose other end it has open itself";
    assert_eq!(said(1), (own.to_owned(), vec![]));
    assert_eq!(said(7), (String::from("waits for data on a socket"), vec![7]));
}

#[test]
fn one_more_has_a_pipe_open_and_two_more_have() {
    let said = |others: &[i32]| {
        let links = vec![process(1, pipe(false, others)), process(2, pipe(false, &[]))];
        words::answer(&Why { links, circle: None, cut: false, left_out: 0 })
    };
    assert!(said(&[2]).contains("from a pipe of 2 (p2)"), "{}", said(&[2]));
    assert!(said(&[2, 3]).contains("a pipe (1 more has it open) of 2"), "{}", said(&[2, 3]));
    let three = said(&[2, 3, 4]);
    assert!(three.contains("a pipe (2 more have it open) of 2"), "{three}");
}

#[test]
fn who_may_not_look_is_told_why_and_root_is_not_sent_to_root() {
    assert_eq!(words::hidden(Some(7), 8), "may not be inspected: it belongs to user 7");
    for own in [0, 7] {
        assert!(!words::hidden(Some(7), own).contains("user 7"), "{own}");
    }
    let hints = words::hints(&Why {
        links: vec![process(1, Cause::Hidden { uid: Some(0) })],
        circle: None,
        cut: false,
        left_out: 0,
    });
    assert_eq!(hints.is_empty(), rustix::process::geteuid().is_root(), "{hints:?}");
}

/// ruby and php gather output themselves, which `stdbuf` does not change.
#[test]
fn what_makes_a_program_write_at_once_is_its_own_way() {
    let hint = |command: &str| {
        let named = Named { pid: 1, command: command.to_owned() };
        let held_back = Some(HeldBack::Bytes(36));
        let link = WhyLink { named, held_back, ..process(1, pipe(false, &[])) };
        words::hints(&Why { links: vec![link], circle: None, cut: false, left_out: 0 }).join("")
    };
    for (command, way) in [
        ("ruby x.rb", "$stdout.sync = true in its program"),
        ("php x.php", "flush() in its program"),
        ("python3 x.py", "python -u"),
        ("cut -c1", "stdbuf -oL in front of it"),
    ] {
        assert!(hint(command).ends_with(&format!("try {way}")), "{}", hint(command));
    }
}

#[test]
fn a_parent_that_was_just_named_is_not_named_again() {
    let sleep = Cause::Sleep { asked_ns: Some(5_000_000_000) };
    let said = |parent: i32| {
        let named = Named { pid: parent, command: format!("p{parent}") };
        let child = WhyLink { parent: Some(named), ..process(2, sleep.clone()) };
        let links = vec![process(3, self::child(&[2], false)), child];
        words::answer(&Why { links, circle: None, cut: false, left_out: 0 })
    };
    assert_eq!(
        said(3),
        "3 (p3) waits for the end of its child 2 (p2), which sleeps: it asked for 5.00s"
    );
    assert!(said(4).contains("2 (p2, started by 4 (p4)), which sleeps"), "{}", said(4));
}

/// Whoever sent something to another host waited for room "from" it.
#[test]
fn room_is_waited_for_to_another_host_and_data_from_it() {
    let said = |writes| {
        let address = Some(String::from("192.0.2.7:443"));
        let peer = Box::new(Peer { kind: PeerKind::Remote, address, ..Peer::default() });
        alone(Cause::Socket { peer, owners: vec![], own: false, more: false, writes }).0
    };
    assert_eq!(said(false), "waits for data from the other host 192.0.2.7:443");
    assert_eq!(said(true), "waits for room to send to the other host 192.0.2.7:443");
}

#[test]
fn a_wait_for_a_signal_or_a_terminal_names_who_may_end_it_or_says_that_none_is_known() {
    let signal = |most_ns, children: &[i32]| Cause::Signal { most_ns, children: children.to_vec() };
    let terminal = |writes, holders: &[i32]| Cause::Terminal {
        path: String::from("/dev/pts/3"),
        holders: holders.to_vec(),
        writes,
    };
    let cases = [
        (signal(None, &[]), "waits for a signal", vec![]),
        (
            signal(Some(5_000_000_000), &[7]),
            "waits for a signal, for 5.00s at most, such as that of the end of a child",
            vec![7],
        ),
        (terminal(false, &[7]), "waits for output of the terminal /dev/pts/3", vec![7]),
        (
            terminal(true, &[]),
            "waits for room in the input of the terminal /dev/pts/3, which nobody else has open, as far \
             as can be seen",
            vec![],
        ),
    ];
    for (wait, text, pids) in cases {
        assert_eq!(alone(wait), (text.to_owned(), pids));
    }
    let links = vec![process(1, signal(None, &[2])), process(2, signal(None, &[]))];
    let said = words::answer(&Why { links, circle: None, cut: false, left_out: 0 });
    assert!(
        said.contains("a signal, such as that of the end of its child 2 (p2), which"),
        "{said}"
    );
}

/// Of two that waited for each other at a FIFO none could continue, and `echo > fifo` let them.
#[test]
fn a_circle_at_a_fifo_ends_where_another_process_opens_it() {
    let at = |path: Option<&str>| {
        let path = path.map(str::to_owned);
        let pipe = PipeWait { others: vec![1], path, ..PipeWait::default() };
        let links = vec![process(1, child(&[2], false)), process(2, Cause::Pipe(pipe))];
        words::answer(&Why { links, circle: Some(0), cut: false, left_out: 0 })
    };
    let said = at(Some("/run/f"));
    assert!(said.ends_with("in a circle, unless another process opens the FIFO /run/f"), "{said}");
    assert!(at(None).ends_with("in a circle, and none of them can continue"));
}
