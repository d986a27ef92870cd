//! Elastic ports: writers continue while their reader rests, and nothing is lost
//! (docs/contracts/port.md, 33).

use crate::common;
use crate::common::{
    Random, goes_well, hear, hear_and_kill, kill, place, pool_soon_full, say, say_outcome, start,
    until,
};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use weir::{
    ElasticPort, Ending, ErrorKind, Event, Pool, PoolOptions, Port, PortOptions, PortWriter,
    PortWriterOptions, Timeout, Wait, Waiting,
};

const PATIENCE: Duration = Duration::from_secs(30);

fn pool(memory_bytes: u64) -> Pool {
    let options = PoolOptions::new().memory_bytes(memory_bytes).frame_bytes(16 << 10);
    Pool::new(&options.cluster_bytes(64 << 10)).expect("a pool")
}

fn elastic(name: &Path, pool: &Pool) -> ElasticPort {
    let port = Port::create(name, &PortOptions::new()).expect("a port");
    port.elastic(pool).expect("elastic")
}

fn small() -> PortWriterOptions {
    PortWriterOptions::new().capacity_bytes(16 << 10)
}

fn writer(name: &Path) -> PortWriter {
    PortWriter::connect(name, &small()).expect("a writer")
}

/// The message of a number: the number, and bytes that are computed from it. Some are longer than a
/// piece of a ring of 16 KiB, and some longer than a frame of the pool.
fn body(number: u64) -> Vec<u8> {
    let count = match number % 97 {
        0 => 40_000,
        1 => 0,
        rest if rest % 7 == 0 => 9000,
        rest => (rest * 37 % 900) as usize,
    };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((0..count).map(|at| (number as usize * 31 + at) as u8));
    bytes
}

/// What came of each writer: how many messages, and how it ended.
#[derive(Debug, Default)]
struct Came {
    next: HashMap<u64, u64>,
    endings: Vec<Ending>,
}

impl Came {
    /// Receives one thing, and checks that it is the next of its writer. False once nothing came.
    fn one(&mut self, port: &mut ElasticPort, timeout: impl Into<Timeout>) -> bool {
        let mut buffer = vec![0; 64 << 10];
        match port.receive_timeout(&mut buffer, timeout) {
            Ok(received) => {
                let next = self.next.entry(received.writer.number()).or_default();
                match received.event {
                    Event::Message { bytes } => {
                        assert!(buffer[..bytes] == body(*next), "message {next}");
                        *next += 1;
                        assert_eq!(received.sequence, *next);
                    }
                    Event::Closed(ending) => self.endings.push(ending),
                    event => panic!("{event:?}"),
                }
                true
            }
            Err(error) => {
                let kind = error.kind();
                assert!([ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&kind), "{error}");
                false
            }
        }
    }

    fn until_closed(&mut self, port: &mut ElasticPort, writers: usize) {
        while self.endings.len() < writers {
            assert!(self.one(port, PATIENCE), "{self:?}");
        }
    }
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let input = std::io::stdin();
    match role.split(' ').collect::<Vec<_>>()[..] {
        // Sends numbers for ever, and says each send that has returned.
        ["count", name] => {
            let mut writer = writer(Path::new(name));
            for number in 0_u64.. {
                writer.send(&body(number)).expect("sent");
                say(&input, &number.to_le_bytes());
            }
        }
        ["read", name] => {
            let pool = pool(1 << 20);
            let port = elastic(Path::new(name), &pool);
            say(&input, b"up");
            hear(&input);
            drop(port);
        }
        // A file system that is soon full, and that only this process sees.
        ["full"] => say_outcome(full_device()),
        _ => panic!("no role: {role}"),
    }
}

/// A writer that only spins never said that its ring is full, and waited until somebody received.
#[test]
fn a_writer_that_spins_continues_while_the_reader_rests() {
    let (_directory, name) = place();
    let mut port = elastic(&name, &pool(256 << 10));
    let spins = small().waiting(Waiting::Spin);
    let mut writer = PortWriter::connect(&name, &spins).expect("a writer");
    (0..50).for_each(|number| writer.send_timeout(&body(number), PATIENCE).expect("drained"));
    drop(writer);
    Came::default().until_closed(&mut port, 1);
}

/// All writers have sent everything and are gone before anything is received. Most of it went to
/// the file.
#[test]
fn writers_continue_while_the_reader_rests() {
    let (_directory, name) = place();
    let pool = pool(256 << 10);
    let mut port = elastic(&name, &pool);
    let sending: Vec<_> = (0..4)
        .map(|_| {
            let name = name.clone();
            std::thread::spawn(move || {
                let mut writer = writer(&name);
                (0..1000).for_each(|number| writer.send(&body(number)).expect("sent"));
            })
        })
        .collect();
    sending.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert!(port.backlog_bytes() > 1 << 20, "{}", port.backlog_bytes());
    let account = pool.account();
    assert!(account.spilled_bytes > 0 && account.most_memory_bytes <= 256 << 10, "{account:?}");
    let mut came = Came::default();
    came.until_closed(&mut port, 4);
    assert_eq!(came.next.values().sum::<u64>(), 4000);
    assert!(came.endings.iter().all(|ending| *ending == Ending::Closed));
    assert_eq!(port.backlog_bytes(), 0);
    // A frame that is on its way to the file is free a moment later.
    until("empty backlogs hold no frame", || pool.account().memory_bytes == 0);
}

#[test]
fn nothing_is_moved_while_the_reader_keeps_up() {
    let (_directory, name) = place();
    let pool = pool(1 << 20);
    let mut port = elastic(&name, &pool);
    let mut writer = writer(&name);
    let mut buffer = [0; 2000];
    for number in 0..1000 {
        writer.send(&[number as u8; 2000]).expect("sent");
        let received = port.receive_timeout(&mut buffer, PATIENCE).expect("a message");
        assert_eq!(received.event, Event::Message { bytes: 2000 });
        assert_eq!(buffer, [number as u8; 2000]);
    }
    assert_eq!(pool.account().put_bytes, 0);
}

#[test]
fn what_a_killed_writer_sent_is_received() {
    let mut random = Random(11);
    for round in 0..8 {
        let (_directory, name) = place();
        let mut port = elastic(&name, &pool(256 << 10));
        let (mut child, socket) = start(&format!("count {}", name.display()));
        let said = hear_and_kill(&mut child, &socket, 1 + random.below(300));
        let mut came = Came::default();
        came.until_closed(&mut port, 1);
        assert_eq!(came.endings, [Ending::Died]);
        assert!(came.next[&1] > said, "round {round}: {said} was sent, {} came", came.next[&1]);
    }
}

#[test]
fn a_killed_reader_leaves_nothing_that_holds_a_writer_up() {
    let (_directory, name) = place();
    let (mut child, socket) = start(&format!("read {}", name.display()));
    assert_eq!(hear(&socket), b"up");
    let mut writer = writer(&name);
    (0..500).for_each(|number| writer.send(&body(number)).expect("sent while it rests"));
    kill(&mut child);
    until("the writer sees it", || {
        let sent = writer.send_timeout(b"x", Duration::from_secs(5));
        sent.is_err_and(|error| error.kind() == ErrorKind::Closed)
    });
    let mut port = elastic(&name, &pool(256 << 10));
    let mut other = PortWriter::connect(&name, &small()).expect("a writer");
    other.send(&body(0)).expect("sent");
    assert!(Came::default().one(&mut port, PATIENCE));
}

/// A pool of memory only is full some time. Then writers wait, and continue as the reader receives.
#[test]
fn the_budget_holds_and_a_full_pool_makes_writers_wait() {
    let (_directory, name) = place();
    let options = PoolOptions::new().memory_bytes(512 << 10).frame_bytes(16 << 10);
    let pool = Pool::new(&options.cluster_bytes(64 << 10).no_spill()).expect("a pool");
    let mut port = elastic(&name, &pool);
    let mut writer = writer(&name);
    let mut sent = 0;
    // sleep: the thread may need a moment after each message; a full pool stays full.
    while writer.send_timeout(&[7; 1000], Duration::from_secs(2)).is_ok() {
        sent += 1;
        assert!(sent < 2000, "more than the pool and the ring hold");
    }
    assert!(sent >= 400, "{sent} KB are less than the pool holds");
    assert!(pool.account().most_memory_bytes <= 512 << 10);
    let sending = std::thread::spawn(move || {
        (0..3000).for_each(|_| writer.send(&[7; 1000]).expect("sent"));
    });
    let mut buffer = vec![0; 4096];
    for number in 0..sent + 3000 {
        let received = port.receive_timeout(&mut buffer, PATIENCE).expect("a message");
        assert_eq!(received.event, Event::Message { bytes: 1000 }, "message {number}");
        assert_eq!(received.sequence, number + 1);
        assert!(buffer[..1000].iter().all(|byte| *byte == 7));
    }
    sending.join().expect("no panic");
    assert!(pool.account().most_memory_bytes <= 512 << 10);
}

#[test]
fn one_writer_may_use_it_beside_others_and_a_suspended_one_waits() {
    let (_directory, name) = place();
    let mut port = elastic(&name, &pool(1 << 20));
    let mut quiet = writer(&name);
    quiet.send(&body(0)).expect("sent");
    let mut came = Came::default();
    assert!(came.one(&mut port, PATIENCE));
    let first = port.writers().expect("here")[0].id;
    let mut busy = writer(&name);
    (0..1000).for_each(|number| busy.send(&body(number)).expect("sent"));
    // The backlog of another writer is not before this message.
    quiet.send(&body(1)).expect("sent");
    let begun = came.next[&1];
    for _ in 0..200 {
        assert!(came.one(&mut port, PATIENCE));
    }
    assert_eq!(came.next[&1], begun + 1, "a quiet writer has its turn soon");
    port.suspend(first).expect("open");
    let full = (2_u64..).find(|number| {
        quiet.send_timeout(&vec![1; 8 + (*number as usize % 5)], Duration::from_secs(1)).is_err()
    });
    assert!(full.is_some_and(|count| count < 4096), "a suspended writer waits: {full:?}");
}

#[test]
fn it_can_be_waited_for() {
    let (_directory, name) = place();
    let port = elastic(&name, &pool(256 << 10));
    let theirs = name.clone();
    let sending = std::thread::spawn(move || {
        let mut writer = writer(&theirs);
        (0..3000).for_each(|number| writer.send(&body(number)).expect("sent"));
    });
    let (mut wait, mut ready) = (Wait::new(), Vec::new());
    let port = wait.add(1, port).expect("few");
    let (mut came, mut random) = (Came::default(), Random(3));
    while came.endings.is_empty() {
        wait.wait_timeout(&mut ready, PATIENCE).expect("ready");
        assert_eq!(ready, [1]);
        // Sometimes it leaves something behind.
        for _ in 0..1 + random.below(40) {
            if !came.one(&mut wait[port], Timeout::Now) {
                break;
            }
        }
    }
    assert_eq!(came.next[&1], 3000);
    sending.join().expect("no panic");
}

/// Readers that rest at random, beside writers that come, send and go.
#[test]
fn nothing_is_lost_doubled_or_out_of_order() {
    let (_directory, name) = place();
    let pool = pool(512 << 10);
    let mut port = elastic(&name, &pool);
    let sending: Vec<_> = (0..6_u64)
        .map(|seed| {
            let name = name.clone();
            std::thread::spawn(move || {
                let mut random = Random(seed + 1);
                let mut sent = 0;
                for _ in 0..4 {
                    let mut writer = writer(&name);
                    let count = random.below(500);
                    (0..count).for_each(|number| writer.send(&body(number)).expect("sent"));
                    sent += count;
                }
                sent
            })
        })
        .collect();
    let (mut came, mut random) = (Came::default(), Random(99));
    while came.endings.len() < 24 {
        for _ in 0..random.below(400) {
            if came.endings.len() == 24 || !came.one(&mut port, Duration::from_secs(1)) {
                break;
            }
        }
        if random.below(3) == 0 {
            // sleep: the reader rests, so that rings get full.
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let sent: u64 = sending.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    assert_eq!(came.next.values().sum::<u64>(), sent);
    assert_eq!(port.backlog_bytes(), 0);
}

#[test]
fn one_without_a_name_ends_after_its_backlogs() {
    let (port, handle) = Port::unnamed(&PortOptions::new()).expect("a port");
    let mut port = port.elastic(&pool(256 << 10)).expect("elastic");
    let mut writer = PortWriter::open(&handle, &small()).expect("a writer");
    (0..500).for_each(|number| writer.send(&body(number)).expect("sent"));
    drop((writer, handle));
    let mut came = Came::default();
    came.until_closed(&mut port, 1);
    assert_eq!(came.next[&1], 500);
    let end = port.receive_timeout(&mut [0; 8], PATIENCE).expect_err("the end");
    assert_eq!(end.kind(), ErrorKind::Closed);
}

/// Sends until memory and device are full; all of it is received, and more.
fn full_device() -> Result<(), String> {
    let (_directory, pool) = pool_soon_full()?;
    let (_place, name) = place();
    let mut port = elastic(&name, &pool);
    let mut writer = writer(&name);
    let mut sent = 0;
    // sleep: a writer that waits for a second while nobody receives waits for good.
    while writer.send_timeout(&[7; 1000], Duration::from_secs(1)).is_ok() {
        sent += 1;
        if sent > 4000 {
            return Err("more than memory and device hold".into());
        }
    }
    match pool.trouble() {
        Some(why) if why.to_string().contains("No space left") => {}
        why => return Err(format!("the pool says: {why:?}")),
    }
    let thread = std::thread::spawn(move || {
        (0..4000).for_each(|_| writer.send(&[7; 1000]).expect("sent"));
    });
    let mut buffer = vec![0; 4096];
    for number in 0..sent + 4000 {
        let received =
            port.receive_timeout(&mut buffer, PATIENCE).map_err(|why| why.to_string())?;
        if (received.event, received.sequence) != (Event::Message { bytes: 1000 }, number + 1) {
            return Err(format!("at {number}: {received:?}"));
        }
    }
    thread.join().map_err(|_| String::from("the writer's thread died"))
}

#[test]
fn a_full_device_makes_writers_wait_and_loses_nothing() {
    goes_well("full");
}

/// Each message and piece counted for 8 bytes more, also in what an interrupted `weir port read` says that it
/// loses.
#[test]
fn a_backlog_is_as_long_as_its_messages() {
    use std::os::unix::fs::MetadataExt;
    let (_directory, name) = place();
    let mut port = elastic(&name, &pool(256 << 10));
    let mut writer = writer(&name);
    (0..1000).for_each(|number| writer.send(&body(number)).expect("sent"));
    let socket = std::fs::metadata(&name).expect("there");
    let of = Some((socket.dev(), socket.ino()));
    let ring = weir::stat::pipes().into_iter().find(|pipe| pipe.port == of).expect("its ring");
    let moved = ring.reader.account.bytes;
    assert!(moved > 1 << 20, "{moved}");
    assert_eq!(port.backlog_bytes(), moved, "what has left the ring");
    let mut came = Came::default();
    (0..500).for_each(|_| assert!(came.one(&mut port, PATIENCE)));
    let taken: usize = (0..500).map(|number| body(number).len()).sum();
    assert_eq!(port.backlog_bytes(), moved - taken as u64);
}

/// What is seen from outside stayed as it was when the writer last waited, though the reader had blocks
/// read back since.
#[test]
fn the_account_is_right_from_outside_while_the_reader_rests() {
    use std::os::unix::fs::MetadataExt;
    let (_directory, name) = place();
    let pool = pool(256 << 10);
    let mut port = elastic(&name, &pool);
    let mut writer = writer(&name);
    (0..1000).for_each(|number| writer.send(&body(number)).expect("sent"));
    let mut buffer = vec![0; 64 << 10];
    (0..500).for_each(|_| _ = port.receive_timeout(&mut buffer, PATIENCE).expect("received"));
    assert!(pool.account().read_back_bytes > 0 && port.backlog_bytes() > 0);
    let socket = std::fs::metadata(&name).expect("there");
    let of = Some((socket.dev(), socket.ino()));
    until("it is seen from outside", || {
        let all = weir::stat::pipes();
        let seen = all.iter().find(|pipe| pipe.port == of).expect("its ring");
        seen.reader.account.read_back_bytes == pool.account().read_back_bytes
    });
}
