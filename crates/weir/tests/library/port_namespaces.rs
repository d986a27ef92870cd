//! Ports between containers: processes whose pids or clocks are in different namespaces
//! (docs/contracts/port.md). They need root, and are skipped where namespaces cannot be made.

use crate::common;
use crate::common::{hear, kill, place, say, start, start_by, until};
use rustix::fd::OwnedFd;
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use weir::{ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions};

const PID: &[&str] = &["unshare", "--pid", "--fork", "--kill-child"];
const PID_AND_PROC: &[&str] = &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
const TIME: &[&str] = &[
    "unshare",
    "--time",
    "--boottime",
    "1000000",
    "--monotonic",
    "1000000",
    "--fork",
    "--kill-child",
];
const PATIENCE: Duration = Duration::from_secs(20);

fn port(name: &Path) -> weir::Result<Port> {
    Port::create(name, &PortOptions::new())
}

fn writer(name: &Path) -> weir::Result<PortWriter> {
    PortWriter::connect(name, &PortWriterOptions::new())
}

/// The next message of a port, and who sent it.
fn next(port: &mut Port) -> (Vec<u8>, i32) {
    let mut buffer = [0; 64];
    loop {
        let received = port.receive_timeout(&mut buffer, PATIENCE).expect("received");
        if let Event::Message { bytes } = received.event {
            return (buffer[..bytes].to_vec(), received.identity.pid);
        }
    }
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let input = std::io::stdin();
    match words[..] {
        // Reads what comes, and prints it with its writer, until the test ends.
        ["read", name] => {
            let mut port = port(Path::new(name)).expect("a port");
            say(&input, b"up");
            loop {
                let (message, pid) = next(&mut port);
                let text = format!("{} of {pid}", String::from_utf8_lossy(&message));
                if !say(&input, text.as_bytes()) {
                    return;
                }
            }
        }
        // Looks at the name repeatedly.
        ["look", name] => {
            say(&input, b"up");
            loop {
                let _ = weir::PortName::list(Path::new(name).parent());
                std::thread::yield_now();
            }
        }
        // Tries a second reader, a removal and a message.
        ["try", name] => {
            let name = Path::new(name);
            let second = port(name).map(drop).err().map(|error| error.kind());
            let removal = weir::Port::remove(name).err().map(|error| error.kind());
            let sent = writer(name).and_then(|mut writer| writer.send(b"from inside"));
            let said = format!("{second:?} {removal:?} {:?}", sent.map_err(|error| error.kind()));
            say(&input, said.as_bytes());
            hear(&input);
        }
        // Holds a pipe with this many bytes in it, until the test ends.
        ["hold", bytes] => {
            let (mut writer, _reader) = weir::pipe(&weir::Options::new()).expect("a pipe");
            writer.write(&vec![1; bytes.parse().expect("a number")]).expect("written");
            say(&input, b"up");
            hear(&input);
        }
        _ => panic!("no role: {role}"),
    }
}

fn reader_in(name: &Path, by: &[&str]) -> Option<(Child, OwnedFd)> {
    let (child, socket) = start_by(&format!("read {}", name.display()), by)?;
    assert_eq!(hear(&socket), b"up");
    Some((child, socket))
}

/// The state that a process elsewhere should find, which sees the reader as `reader`.
fn is_found_alive(name: &Path, reader: Option<i32>) {
    let error = port(name).map(drop).expect_err("it has a reader");
    assert_eq!(error.kind(), ErrorKind::Taken, "{error}");
    assert!(error.to_string().contains("is its reader"), "{error}");
    let error = weir::Port::remove(name).expect_err("it has a reader");
    assert_eq!(error.kind(), ErrorKind::Taken, "{error}");
    let names = weir::PortName::list(name.parent()).expect("names");
    assert_eq!(names[0].reader, reader);
}

#[test]
fn a_reader_in_another_pid_namespace_is_alive_and_can_be_written_to() {
    for by in [PID, PID_AND_PROC] {
        let (_directory, name) = place();
        let Some((mut child, socket)) = reader_in(&name, by) else { return };
        is_found_alive(&name, Some(0));
        writer(&name).expect("opened").send(b"from outside").expect("sent");
        // The kernel has no number for a process that the reader does not see.
        assert_eq!(hear(&socket), b"from outside of 0");
        is_found_alive(&name, Some(0));
        kill(&mut child);
        until("its death is seen by its lock", || {
            weir::PortName::list(name.parent()).expect("names")[0].reader.is_none()
        });
        let mut port = port(&name).expect("replaced");
        writer(&name).expect("opened").send(b"again").expect("sent");
        assert_eq!(next(&mut port), (b"again".to_vec(), std::process::id() as i32));
    }
}

/// Its writers were left out: they were taken for those of another port that had the inode before.
#[test]
fn the_writers_of_a_reader_in_another_pid_namespace_are_shown() {
    let (_directory, name) = place();
    let Some((mut child, socket)) = reader_in(&name, PID) else { return };
    let mut writer = writer(&name).expect("opened");
    writer.send(b"from outside").expect("sent");
    assert_eq!(hear(&socket), b"from outside of 0");
    let seen = weir::stat::port(&name).expect("a port");
    let [one] = &seen.writers[..] else { panic!("{seen:?}") };
    assert_eq!((seen.reader, one.pid), (Some(0), std::process::id() as i32));
    assert_eq!((one.let_in, one.pieces, one.received), (true, 1, 1));
    kill(&mut child);
}

/// They were shown by the numbers that they have inside, which are those of other processes here.
#[test]
fn who_is_inside_is_shown_by_the_number_it_has_outside() {
    for (by, bytes) in [(PID, 1234), (PID_AND_PROC, 2345)] {
        let Some((mut child, socket)) = start_by(&format!("hold {bytes}"), by) else { return };
        assert_eq!(hear(&socket), b"up");
        let all = weir::stat::pipes();
        let pipe = all.iter().find(|pipe| pipe.fill_bytes == Some(bytes)).expect("its pipe");
        let ends = [&pipe.writer, &pipe.reader].map(|end| end.account.pid);
        let (holder, _) = pipe.holders[0];
        assert_eq!(ends, [holder as u32; 2]);
        kill(&mut child);
    }
}

#[test]
fn a_reader_outside_is_alive_for_who_is_inside_and_knows_its_writers() {
    for by in [PID, PID_AND_PROC, TIME] {
        let (_directory, name) = place();
        let mut port = port(&name).expect("a port");
        let Some((mut child, socket)) = start_by(&format!("try {}", name.display()), by) else {
            return;
        };
        let (message, pid) = next(&mut port);
        assert_eq!(message, b"from inside");
        assert!(pid > 0, "who is inside has a number outside");
        assert_eq!(hear(&socket), b"Some(Taken) Some(Taken) Ok(())");
        drop(socket);
        child.wait().expect("ended");
    }
}

#[test]
fn two_containers_share_a_name() {
    let (_directory, name) = place();
    let Some((mut reader, of_reader)) = reader_in(&name, PID) else { return };
    let Some((mut writer, of_writer)) = start_by(&format!("try {}", name.display()), PID) else {
        return;
    };
    assert_eq!(hear(&of_writer), b"Some(Taken) Some(Taken) Ok(())");
    assert_eq!(hear(&of_reader), b"from inside of 0");
    drop(of_writer);
    writer.wait().expect("ended");
    kill(&mut reader);
}

#[test]
fn a_reader_in_another_time_namespace_is_alive() {
    let (_directory, name) = place();
    let Some((mut child, socket)) = reader_in(&name, TIME) else { return };
    let names = weir::PortName::list(name.parent()).expect("names");
    let pid = names[0].reader.expect("alive");
    assert!(pid > 0, "the pid namespace is the same");
    is_found_alive(&name, Some(pid));
    writer(&name).expect("opened").send(b"hello").expect("sent");
    assert_eq!(hear(&socket), format!("hello of {}", std::process::id()).as_bytes());
    kill(&mut child);
    until("its death is seen", || {
        weir::PortName::list(name.parent()).expect("names")[0].reader.is_none()
    });
    port(&name).expect("replaced");
}

#[test]
fn one_who_only_looks_keeps_no_reader_from_a_stale_name() {
    let (_directory, name) = place();
    let Some((mut child, socket)) = reader_in(&name, PID) else { return };
    kill(&mut child);
    drop(socket);
    until("its death is seen by its lock", || {
        weir::PortName::list(name.parent()).expect("names")[0].reader.is_none()
    });
    let (mut looking, lookers) = start(&format!("look {}", name.display()));
    assert_eq!(hear(&lookers), b"up");
    let port = port(&name);
    kill(&mut looking);
    port.expect("replaced, though others look");
}
