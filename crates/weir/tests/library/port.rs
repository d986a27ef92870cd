//! Ports: messages, fairness, flow, waiting (docs/contracts/port.md).

use crate::common;
use crate::common::{Random, kill, patterned, place, start, until};
use std::path::PathBuf;
use std::time::Duration;
use weir::{
    Ending, ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions, Received, Timeout,
    WriterId,
};

fn port(name: &PathBuf) -> Port {
    Port::create(name, &PortOptions::new()).expect("a port")
}

fn writer(name: &PathBuf) -> PortWriter {
    PortWriter::connect(name, &PortWriterOptions::new()).expect("a writer")
}

/// The next message or end, in time.
fn next(port: &mut Port, buffer: &mut [u8]) -> Received {
    port.receive_timeout(buffer, Duration::from_secs(10)).expect("something")
}

fn message(port: &mut Port) -> (WriterId, Vec<u8>) {
    let mut buffer = vec![0; 1 << 20];
    let received = next(port, &mut buffer);
    let Event::Message { bytes } = received.event else { panic!("no message: {received:?}") };
    (received.writer, buffer[..bytes].to_vec())
}

fn closed(port: &mut Port) -> (WriterId, Ending) {
    let received = next(port, &mut [0; 64]);
    let Event::Closed(ending) = received.event else { panic!("no end: {received:?}") };
    (received.writer, ending)
}

#[test]
fn messages_come_whole() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let mut writer = writer(&name);
    let sizes = [0, 1, 4, 8, 60, 64, 1000, 1016, 1020, 1024, 1025, 4096, 30_000];
    let sent: Vec<Vec<u8>> = sizes.iter().map(|size| patterned(*size, *size)).collect();
    for message in &sent {
        writer.send(message).expect("sent");
    }
    for expected in &sent {
        assert_eq!(&message(&mut port).1, expected);
    }
    assert_eq!(writer.account().expect("mine").records, sent.len() as u64);
}

/// The head of a message may be the last thing in the ring: its bytes then are at the beginning.
#[test]
fn messages_come_whole_whose_head_ends_the_ring() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let options = PortWriterOptions::new().capacity_bytes(4096);
    let mut writer = PortWriter::connect(&name, &options).expect("a writer");
    // An empty message takes 8 bytes, and one of 4 bytes 16: the second of three begins at 4088.
    for empty in [509, 506, 506] {
        for _ in 0..empty {
            writer.send(&[]).expect("sent");
            assert_eq!(message(&mut port).1, []);
        }
        for number in 0..3_u32 {
            writer.send(&number.to_le_bytes()).expect("sent");
            assert_eq!(message(&mut port).1, number.to_le_bytes());
        }
    }
}

#[test]
fn messages_come_whole_many_at_a_time() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let mut writers = [writer(&name), writer(&name)];
    for at in 0..1000_u32 {
        for writer in &mut writers {
            writer.send(&at.to_ne_bytes()).expect("sent");
        }
    }
    let mut seen = std::collections::HashMap::new();
    let mut count = 0;
    while count < 2000 {
        count += port
            .receive_each_timeout(&mut [0; 16], Timeout::Never, |received, bytes| {
                let next = seen.entry(received.writer).or_insert(0_u32);
                assert_eq!(bytes, next.to_ne_bytes());
                *next += 1;
                assert_eq!(received.sequence, u64::from(*next));
            })
            .expect("received");
    }
    assert!(seen.len() == 2 && seen.values().all(|count| *count == 1000));
}

#[test]
fn a_message_longer_than_the_buffer_stays() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let mut writer = writer(&name);
    for size in [10, 100_000] {
        writer.send(&patterned(size, 0)).expect("sent");
        let error = port.receive(&mut [0; 4]).expect_err("too long");
        assert_eq!((error.kind(), error.needed_bytes()), (ErrorKind::TooSmall, Some(size)));
        assert_eq!(message(&mut port).1, patterned(size, 0));
    }
}

#[test]
fn long_messages_are_put_together() {
    let (_directory, name) = place();
    let options = PortOptions::new().most_message_bytes(1 << 20);
    let mut port = Port::create(&name, &options).expect("a port");
    let sending: Vec<_> = (0..3_usize)
        .map(|seed| {
            let name = name.clone();
            std::thread::spawn(move || {
                // A ring of 16 KiB: pieces of 2 KiB, and messages longer than the ring.
                let options = PortWriterOptions::new().capacity_bytes(16 << 10).piece_bytes(2048);
                let mut writer = PortWriter::connect(&name, &options).expect("a writer");
                for size in [2048, 2049, 20_000, 100_000, 1 << 20] {
                    writer.send(&patterned(size, seed)).expect("sent");
                }
                let error = writer.send(&vec![0; (1 << 20) + 1]).expect_err("too long");
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            })
        })
        .collect();
    let mut sizes = std::collections::HashMap::new();
    let mut buffer = vec![0; 1 << 20];
    let mut ends = 0;
    while ends < 3 {
        let received = next(&mut port, &mut buffer);
        match received.event {
            Event::Message { bytes } => {
                let matches = |seed| buffer[..bytes] == patterned(bytes, seed);
                assert!((0..3).any(matches), "torn or mixed");
                sizes.entry(received.writer).or_insert(Vec::new()).push(bytes);
            }
            Event::Closed(_) => ends += 1,
            other => panic!("pieces were not asked for: {other:?}"),
        }
    }
    for sizes in sizes.values() {
        assert_eq!(sizes, &[2048, 2049, 20_000, 100_000, 1 << 20]);
    }
    sending.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn pieces_are_shown_where_they_are_asked_for() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new().in_pieces()).expect("a port");
    let options = PortWriterOptions::new().capacity_bytes(16 << 10);
    let mut writer = PortWriter::connect(&name, &options).expect("a writer");
    let piece = writer.piece_bytes();
    writer.send(&patterned(2 * piece + 5, 1)).expect("sent");
    writer.send(b"short").expect("sent");
    let mut pieces = Vec::new();
    for _ in 0..4 {
        let Event::Piece { bytes, first, last } = next(&mut port, &mut [0; 4096]).event else {
            panic!("no piece")
        };
        pieces.push((bytes, first, last));
    }
    let expected = [(piece, true, false), (piece, false, false), (5, false, true), (5, true, true)];
    assert_eq!(pieces, expected);
}

#[test]
fn it_does_not_end_with_its_writers() {
    let (_directory, name) = place();
    let mut port = port(&name);
    for round in 0..3_u8 {
        let mut writer = writer(&name);
        writer.send(&[round]).expect("sent");
        drop(writer);
        let (id, text) = message(&mut port);
        assert_eq!((text, closed(&mut port)), (vec![round], (id, Ending::Closed)));
        let error = port.receive_timeout(&mut [0; 8], Timeout::Now).expect_err("nothing");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn each_writer_closes_once() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let mut writers: Vec<_> = (0..20).map(|_| writer(&name)).collect();
    for (at, writer) in writers.iter_mut().enumerate() {
        (0..at).for_each(|_| writer.send(b"x").expect("sent"));
    }
    drop(writers);
    let mut ended = std::collections::BTreeMap::new();
    while ended.len() < 20 {
        let received = next(&mut port, &mut [0; 8]);
        if received.event == Event::Closed(Ending::Closed) {
            let twice = ended.insert(received.writer.number(), received.sequence);
            assert!(twice.is_none(), "it closed twice");
        } else {
            assert!(!ended.contains_key(&received.writer.number()), "after its end");
        }
    }
    assert!(ended.values().copied().eq(0..20), "all it sent comes before: {ended:?}");
    assert!(port.receive_timeout(&mut [0; 8], Timeout::Now).is_err());
    assert_eq!(port.counts().expect("mine"), weir::PortCounts::default());
}

#[test]
fn the_kernel_says_who() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let _writers = (writer(&name), writer(&name));
    let writers = port.writers().expect("mine");
    assert_eq!(writers.len(), 2);
    assert_ne!(writers[0].id, writers[1].id, "each open is a writer");
    for writer in writers {
        let (pid, uid) = (writer.identity.pid, writer.identity.uid);
        let own = (std::process::id() as i32, rustix::process::getuid().as_raw());
        assert_eq!((pid, uid), own);
    }
}

#[test]
fn busy_writers_are_served_alike() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let sizes = [8, 64, 500, 900, 3000, 20_000];
    let mut writers: Vec<_> = sizes.iter().map(|_| writer(&name)).collect();
    let ids: Vec<_> = port.writers().expect("mine").iter().map(|writer| writer.id).collect();
    port.set_share(ids[1], 2).expect("a share");
    let fill = |writer: &mut PortWriter, size: usize| {
        while writer.try_send(&vec![0; size]).is_ok() {}
    };
    writers.iter_mut().zip(sizes).for_each(|(writer, size)| fill(writer, size));
    let (mut cost, mut buffer) = (vec![0_u64; sizes.len()], vec![0; 1 << 16]);
    while cost.iter().sum::<u64>() < 100 << 20 {
        let mut served = None;
        let see = |received: Received, bytes: &[u8]| {
            let at = ids.iter().position(|id| *id == received.writer).expect("known");
            cost[at] += bytes.len() as u64 + 32;
            served = Some(at);
        };
        port.receive_each_timeout(&mut buffer, Timeout::Now, see).expect("all are busy");
        // As if it had written all the time.
        let at = served.expect("someone was served");
        fill(&mut writers[at], sizes[at]);
    }
    let alike = cost[0] + cost[2] + cost[3] + cost[4] + cost[5];
    for (at, cost) in cost.iter().enumerate() {
        let mean = if at == 1 { 2 * alike / 5 } else { alike / 5 };
        // Shares are compared over the long run: the last turn is not yet compensated.
        let near = cost.abs_diff(mean) <= mean / 10;
        assert!(near, "writer {at} was served {cost}, not about {mean}");
    }
}

/// A turn once went round a short ring, and received the same messages again.
#[test]
fn a_turn_longer_than_the_ring_receives_nothing_twice() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let theirs = name.clone();
    let sending = std::thread::spawn(move || {
        let options = PortWriterOptions::new().capacity_bytes(4096);
        let mut writer = PortWriter::connect(&theirs, &options).expect("a writer");
        (0..100_000_u64).for_each(|at| writer.send(&at.to_ne_bytes()).expect("sent"));
    });
    let (mut next, mut ends) = (0_u64, 0);
    while ends == 0 {
        let see = |received: Received, bytes: &[u8]| {
            if received.event == Event::Closed(Ending::Closed) {
                ends += 1;
                return;
            }
            assert_eq!(bytes, next.to_ne_bytes());
            next += 1;
        };
        port.receive_each_timeout(&mut [0; 16], Duration::from_secs(10), see).expect("received");
        if next == 1 {
            let id = port.writers().expect("mine")[0].id;
            port.set_share(id, 1024).expect("a share");
        }
    }
    assert_eq!(next, 100_000);
    sending.join().expect("no panic");
}

#[test]
fn calls_that_do_not_wait_say_so() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let options = PortWriterOptions::new().capacity_bytes(16 << 10).piece_bytes(2048);
    let mut writer = PortWriter::connect(&name, &options).expect("a writer");
    let time = Duration::from_millis(20);
    assert_eq!(
        port.receive_timeout(&mut [0; 8], Timeout::Now).expect_err("empty").kind(),
        ErrorKind::WouldBlock
    );
    let error = port.receive_timeout(&mut [0; 8], time).expect_err("empty");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let mut sent = 0;
    while writer.try_send(&[7; 2000]).is_ok() {
        sent += 1;
    }
    assert_eq!(writer.try_send(&[7; 2000]).expect_err("full").kind(), ErrorKind::WouldBlock);
    assert_eq!(
        writer.send_timeout(&[7; 2000], time).expect_err("full").kind(),
        ErrorKind::TimedOut
    );
    // There is no room for all pieces of a message: nothing of it comes.
    assert_eq!(writer.try_send(&[9; 9000]).expect_err("full").kind(), ErrorKind::WouldBlock);
    message(&mut port);
    sent -= 1;
    // Now there is room for one of its pieces, which is sent but must not be received.
    assert_eq!(
        writer.send_timeout(&[9; 9000], time).expect_err("full").kind(),
        ErrorKind::TimedOut
    );
    let error = writer.try_send(&[9; 100_000]).expect_err("never");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    for _ in 0..sent {
        assert_eq!(message(&mut port).1, [7; 2000]);
    }
    writer.send(b"after").expect("sent");
    assert_eq!(message(&mut port).1, b"after");
}

/// Its bytes fit, but not with the heads of its pieces: it was put off again and again.
#[test]
fn a_message_whose_pieces_never_fit_at_once_is_refused() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let options = PortWriterOptions::new().capacity_bytes(4096);
    let mut writer = PortWriter::connect(&name, &options).expect("a writer");
    let error = writer.try_send(&[9; 4000]).expect_err("four pieces of 1088 bytes each");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let sending = std::thread::spawn(move || writer.send(&[9; 4000]).expect("in pieces"));
    let received = port.receive(&mut [0; 4096]).expect("received");
    assert_eq!(received.event, Event::Message { bytes: 4000 });
    sending.join().expect("no panic");
}

#[test]
fn bounds_stay_true() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let options = PortWriterOptions::new().capacity_bytes(16 << 10);
    let mut writers: Vec<_> =
        (0..3).map(|_| PortWriter::connect(&name, &options).expect("a writer")).collect();
    let mut random = Random(11);
    for _ in 0..2000 {
        let writer = &mut writers[random.below(3) as usize];
        let room = writer.room().expect("mine");
        if room > 0 {
            writer.try_send(&vec![1; 1 + random.below(room as u64) as usize]).expect("as it said");
        }
        let available = port.available().expect("mine");
        if available > 0 && random.below(2) == 0 {
            let received = port.receive_timeout(&mut [0; 4096], Timeout::Now).expect("as it said");
            let Event::Message { bytes } = received.event else { panic!("no message") };
            assert!(bytes <= available);
        }
    }
}

#[test]
fn a_suspended_writer_waits() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let (mut one, mut other) = (writer(&name), writer(&name));
    one.send(b"1").expect("sent");
    let (id, _) = message(&mut port);
    port.suspend(id).expect("there");
    one.send(b"2").expect("sent");
    other.send(b"3").expect("sent");
    assert_eq!(message(&mut port).1, b"3");
    assert!(port.receive_timeout(&mut [0; 8], Timeout::Now).is_err());
    port.resume(id).expect("there");
    assert_eq!(message(&mut port), (id, b"2".to_vec()));
    port.suspend(id).expect("there");
    one.send(b"4").expect("sent");
    drop(one);
    assert!(port.receive_timeout(&mut [0; 8], Timeout::Now).is_err());
    port.resume(id).expect("there");
    assert_eq!(message(&mut port).1, b"4");
    assert_eq!(closed(&mut port), (id, Ending::Closed));
    assert_eq!(port.suspend(id).expect_err("gone").kind(), ErrorKind::Invalid);
    let stats = port.writers().expect("mine");
    port.shut_out(stats[0].id).expect("there");
    assert_eq!(closed(&mut port), (stats[0].id, Ending::ShutOut));
    until("the writer is told", || other.try_send(b"x").is_err());
    assert_eq!(other.try_send(b"x").expect_err("told").kind(), ErrorKind::Refused);
}

#[test]
fn waiting_writers_are_counted() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let theirs = name.clone();
    let sending = std::thread::spawn(move || {
        let options = PortWriterOptions::new().capacity_bytes(4096);
        let mut writer = PortWriter::connect(&theirs, &options).expect("a writer");
        (0..1000).for_each(|_| writer.send(&[0; 100]).expect("sent"));
    });
    until("it waits", || {
        let counts = port.counts().expect("mine");
        (counts.open, counts.waiting) == (1, 1)
    });
    for _ in 0..1000 {
        message(&mut port);
    }
    sending.join().expect("no panic");
    closed(&mut port);
}

#[test]
fn a_stopped_writer_is_not_dead() {
    let (_directory, name) = place();
    let mut port = port(&name);
    let (mut child, _socket) = start(&format!("port write {}", name.display()));
    let (id, _) = message(&mut port);
    let pid = rustix::process::Pid::from_child(&child);
    common::stop(pid);
    // Everything sent before is received, and then nothing, not even its end.
    let mut buffer = [0; 64];
    while port.receive_timeout(&mut buffer, Duration::from_millis(300)).is_ok() {}
    assert_eq!(port.counts().expect("mine").open, 1);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("continued");
    assert_eq!(message(&mut port).0, id);
    kill(&mut child);
    loop {
        let received = next(&mut port, &mut buffer);
        if let Event::Closed(ending) = received.event {
            assert_eq!((received.writer, ending), (id, Ending::Died));
            break;
        }
    }
}

#[test]
fn in_a_role() {
    if let Some(role) = common::role() {
        self::role(&role);
    }
}

fn role(role: &str) {
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        // Counts for ever.
        ["port", "write", name] => {
            let mut writer =
                PortWriter::connect(name, &PortWriterOptions::new()).expect("a writer");
            for count in 0_u64.. {
                if writer.send(&count.to_ne_bytes()).is_err() {
                    return;
                }
            }
        }
        _ => panic!("no role: {role}"),
    }
}

#[test]
fn a_message_longer_than_the_port_takes_is_refused_at_its_writer() {
    let (_directory, name) = place();
    // Shorter than a piece, too.
    let mut port = Port::create(&name, &PortOptions::new().most_message_bytes(10)).expect("a port");
    let sending = std::thread::spawn(move || {
        let mut writer = writer(&name);
        until("the writer is let in", || writer.is_let_in().expect("mine"));
        let error = writer.send(&[0; 11]).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        writer.send(&[7; 10]).expect("sent");
    });
    assert_eq!(message(&mut port).1, [7; 10]);
    assert_eq!(closed(&mut port).1, Ending::Closed);
    sending.join().expect("no panic");
}
