//! The promises of docs/contracts/duplex.md.

use crate::common;
use crate::common::{hear, kill, say, start};
use crate::raw;
use rustix::fd::{AsFd, OwnedFd};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use weir::{
    DuplexHandle, Ending, ErrorKind, Handle, Listener, Options, RecordDuplex, StreamDuplex,
    Timeout, Wait,
};

const LONG: Duration = Duration::from_secs(20);

fn small() -> Options {
    Options::new().capacity_bytes(4096)
}

/// Answers each record with itself, twice.
fn answer(mut server: RecordDuplex) -> weir::Result<u64> {
    let (mut request, mut answered) = (vec![0; 4096], 0);
    while let Some(bytes) = server.reader.receive(&mut request)? {
        let reply = request[..bytes].repeat(2);
        server.writer.send(&reply)?;
        answered += 1;
    }
    Ok(answered)
}

#[test]
fn each_request_gets_its_reply() {
    let (mut client, server) = RecordDuplex::pair(&Options::new()).expect("a channel");
    let server = std::thread::spawn(move || answer(server));
    let mut reply = vec![0; 4096];
    for number in 0..5_000_u32 {
        let request = number.to_le_bytes();
        let bytes = client.request_timeout(&request, &mut reply, LONG).expect("a reply");
        assert_eq!(reply[..bytes], request.repeat(2));
    }
    drop(client);
    assert_eq!(server.join().expect("no panic").expect("the end"), 5_000);
}

#[test]
fn a_request_waits_no_longer_than_its_timeout() {
    let (mut client, mut server) = RecordDuplex::pair(&small()).expect("a channel");
    let time = Duration::from_millis(30);
    let begun = Instant::now();
    let late = client.request_timeout(b"first", &mut [0; 64], time).expect_err("no reply");
    assert_eq!(late.kind(), ErrorKind::TimedOut);
    assert!(begun.elapsed() >= time);
    let now = client.request_timeout(b"second", &mut [0; 64], Timeout::Now).expect_err("none");
    assert_eq!(now.kind(), ErrorKind::WouldBlock);
    // Both were sent nevertheless.
    for wanted in [&b"first"[..], b"second"] {
        let mut request = [0; 64];
        let bytes = server.reader.try_receive(&mut request).expect("there").expect("a record");
        assert_eq!(&request[..bytes], wanted);
    }
}

#[test]
fn a_side_that_goes_ends_both_directions() {
    let (mut client, server) = RecordDuplex::pair(&small()).expect("a channel");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.request(b"anybody?", &mut [0; 64]));
        drop(server);
        let error = waiting.join().expect("no panic").expect_err("nobody");
        assert_eq!(error.kind(), ErrorKind::Closed);
    });
    assert_eq!(client.writer.send(b"x").expect_err("closed").kind(), ErrorKind::Closed);
}

#[test]
fn streams_are_read_and_written_by_the_traits_of_std() {
    let (mut here, mut there) = StreamDuplex::pair(&small()).expect("a channel");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut bytes = [0; 100_000];
            there.read_exact(&mut bytes).expect("read");
            there.write_all(&bytes).expect("written");
        });
        let sent: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
        let mut got = vec![0; 100_000];
        here.write_all(&sent).expect("written");
        here.read_exact(&mut got).expect("read");
        assert!(got == sent);
    });
}

#[test]
fn its_ends_are_taken_apart_and_waited_for() {
    let (mut client, server) = RecordDuplex::pair(&small()).expect("a channel");
    let RecordDuplex { mut writer, reader } = server;
    let mut wait = Wait::new();
    let requests = wait.add('r', reader).expect("few");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut ready = Vec::new();
            wait.wait_timeout(&mut ready, LONG).expect("ready");
            assert_eq!(ready, ['r']);
            let bytes = wait[requests].receive(&mut [0; 8]).expect("received").expect("one");
            writer.send(&[bytes as u8]).expect("sent");
        });
        let mut reply = [0; 8];
        assert_eq!(client.request(b"four", &mut reply).expect("a reply"), 1);
        assert_eq!(reply[0], 4);
    });
}

#[test]
fn a_listener_is_connected_to_by_many_at_once() {
    let (_directory, name) = common::place();
    let listener = Listener::bind(&name).expect("bound");
    std::thread::scope(|scope| {
        for me in 0..8_u8 {
            let name = &name;
            scope.spawn(move || {
                let mut client = RecordDuplex::connect(name, &small()).expect("connected");
                for number in 0..200_u8 {
                    let mut reply = [0; 64];
                    let request = [me, number];
                    let bytes =
                        client.request_timeout(&request, &mut reply, LONG).expect("a reply");
                    assert_eq!(reply[..bytes], request.repeat(2), "its own");
                }
            });
        }
        for _ in 0..8 {
            let server: RecordDuplex = listener.accept().expect("accepted");
            scope.spawn(move || assert_eq!(answer(server).expect("the end"), 200));
        }
    });
}

/// Only writers of ports and peers of an mpx could wait for whom they connect to. Others had to ask
/// again and again.
#[test]
fn whoever_connects_waits_for_a_listener() {
    let (_directory, name) = common::place();
    let at_once = RecordDuplex::connect(&name, &small()).expect_err("nobody listens");
    assert_eq!(at_once.kind(), ErrorKind::NoReader);
    let (begun, short) = (Instant::now(), Duration::from_millis(30));
    let late = weir::Writer::connect(&name, &small().connect_timeout(short));
    assert_eq!(late.expect_err("nobody listens").kind(), ErrorKind::NoReader);
    assert!(begun.elapsed() >= short);
    std::thread::scope(|scope| {
        let patient = small().connect_timeout(LONG);
        let (records, bytes, channel) = (patient.clone(), patient.clone(), patient);
        let (to, there) = (&name, &name);
        scope.spawn(move || RecordDuplex::connect(to, &channel).expect("connected"));
        let listener = Listener::bind(&name).expect("bound");
        let _side: RecordDuplex = listener.accept_timeout(LONG).expect("it waited");
        drop(listener);
        scope.spawn(move || weir::Writer::connect(there, &bytes).expect("connected"));
        let listener = Listener::bind(&name).expect("bound");
        let _reader: weir::Reader = listener.accept_timeout(LONG).expect("it waited");
        scope.spawn(move || weir::RecordWriter::connect(there, &records).expect("connected"));
        let _reader: weir::RecordReader = listener.accept_timeout(LONG).expect("it waited");
    });
}

#[test]
fn what_is_no_channel_is_refused_and_half_of_one_holds_up_nobody() {
    let (_directory, name) = common::place();
    let listener = Listener::bind(&name).expect("bound");
    let _pipe = weir::Writer::connect(&name, &small()).expect("connected");
    let error = listener.accept().map(|_: RecordDuplex| ());
    assert_eq!(error.expect_err("a pipe").kind(), ErrorKind::Invalid);
    // Halves of the right form that nobody completes.
    let (memory, _) = weir::Handle::record_pair(&small()).expect("made").0.into_descriptors();
    let half = |number: u8, side: u8| -> OwnedFd {
        let socket = raw::dial(&name);
        // No memory has such a number, as that of the honest one had where few were made before.
        let word = [&[side, number][..], &[0xff; 22]].concat();
        raw::send(socket.as_fd(), &[b"weir-open", &word[..]].concat(), &[memory.as_fd()]);
        socket
    };
    let halves: Vec<OwnedFd> = (0..150).map(|number| half(number, b'>')).collect();
    let client = std::thread::spawn({
        let name = name.clone();
        move || {
            let mut client = RecordDuplex::connect(name, &small()).expect("connected");
            client.request_timeout(b"honest", &mut [0; 64], LONG).expect("a reply")
        }
    });
    let server: RecordDuplex = listener.accept().expect("the honest one");
    answer(server).expect("answered");
    assert_eq!(client.join().expect("no panic"), 12);
    let told = hear(&halves[0]);
    assert!(told.starts_with(b"weir-no "), "{}", told.escape_ascii());
}

/// The children of the tests below.
#[test]
fn in_a_role() {
    let stdin = std::io::stdin();
    let handle = || DuplexHandle::receive(stdin.as_fd()).expect("a handle");
    match common::role().as_deref() {
        Some("serve") => {
            let server = RecordDuplex::open(handle());
            say(stdin.as_fd(), b"up");
            let _ = answer(server.expect("opened"));
        }
        Some("records") => leave(RecordDuplex::open(handle()).expect("opened")),
        Some("stream") => leave(StreamDuplex::open(handle()).expect("opened")),
        _ => {}
    }
}

/// Keeps a side until it is told to close it, and then lives on.
fn leave(side: impl Sized) {
    let stdin = std::io::stdin();
    say(stdin.as_fd(), b"up");
    hear(stdin.as_fd());
    drop(side);
    say(stdin.as_fd(), b"closed");
    hear(stdin.as_fd());
}

/// A side that was killed looked as one that had closed.
#[test]
fn a_side_that_closes_is_told_from_one_that_dies() {
    for (dies, wanted) in [(true, Ending::Died), (false, Ending::Closed)] {
        let go = |role| {
            let (ours, theirs) = match role {
                "stream" => StreamDuplex::handles(&small()).expect("a channel"),
                _ => RecordDuplex::handles(&small()).expect("a channel"),
            };
            let (child, socket) = start(role);
            theirs.send(socket.as_fd()).expect("sent");
            assert_eq!(hear(&socket), b"up");
            (ours, child, socket)
        };
        let end = |mut child, socket: OwnedFd| {
            if !dies {
                say(&socket, b"close");
                assert_eq!(hear(&socket), b"closed");
            } else {
                kill(&mut child);
            }
            (child, socket)
        };
        let (ours, child, socket) = go("records");
        let mut ours = RecordDuplex::open(ours).expect("opened");
        assert_eq!(ours.ending().expect("here"), None);
        let (mut child, _socket) = end(child, socket);
        assert_eq!(ours.reader.receive_timeout(&mut [0; 8], LONG).expect("the end"), None);
        assert_eq!(ours.reader.ending().expect("here"), Some(wanted));
        let gone = until_closed(|| ours.writer.send_timeout(b"x", LONG));
        assert_eq!((gone, ours.writer.ending().expect("here")), (true, Some(wanted)));
        assert_eq!(ours.ending().expect("here"), Some(wanted));
        kill(&mut child);

        let (ours, child, socket) = go("stream");
        let mut ours = StreamDuplex::open(ours).expect("opened");
        assert_eq!(ours.ending().expect("here"), None);
        let (mut child, _socket) = end(child, socket);
        assert_eq!(ours.reader.read_timeout(&mut [0; 8], LONG).expect("the end"), 0);
        assert_eq!(ours.reader.ending().expect("here"), Some(wanted));
        let gone = until_closed(|| ours.writer.write_timeout(b"x", LONG).map(drop));
        assert_eq!((gone, ours.writer.ending().expect("here")), (true, Some(wanted)));
        assert_eq!(ours.ending().expect("here"), Some(wanted));
        kill(&mut child);
    }
}

/// Writes until that fails, since the reader is gone: whether it does in a bounded time.
fn until_closed(mut write: impl FnMut() -> weir::Result<()>) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if write().is_err_and(|error| error.kind() == ErrorKind::Closed) {
            return true;
        }
    }
    false
}

/// A writer continues in a new memory at once, and its reader once it has drained the old one. Each
/// looked for the other's end in its own memory.
#[test]
fn a_pipe_that_moves_to_another_memory_tells_an_end_from_a_death() {
    let moved = |bytes: usize| {
        let (mut writer, reader) = weir::pipe(&small()).expect("a pipe");
        writer.write(&vec![1; bytes]).expect("written");
        writer.resize(65_536).expect("resized");
        (writer, reader)
    };
    for bytes in [0, 100] {
        let (mut writer, reader) = moved(bytes);
        drop(reader);
        assert!(until_closed(|| writer.write(b"x").map(drop)));
        assert_eq!(writer.ending().expect("here"), Some(Ending::Closed), "{bytes} bytes");

        let (writer, mut reader) = moved(bytes);
        drop(writer);
        let mut came = 0;
        let mut buffer = [0; 64];
        loop {
            let now = reader.ending().expect("here");
            assert!(now != Some(Ending::Died), "after {came} of {bytes} bytes");
            match reader.read_timeout(&mut buffer, LONG).expect("read") {
                0 => break,
                count => came += count,
            }
        }
        assert_eq!(came, bytes);
        assert_eq!(reader.ending().expect("here"), Some(Ending::Closed));
    }
}

#[test]
fn another_process_answers_and_its_death_is_heard() {
    let (mut child, socket) = start("serve");
    let (ours, theirs) = RecordDuplex::handles(&small()).expect("a channel");
    theirs.send(socket.as_fd()).expect("sent");
    assert_eq!(hear(&socket), b"up");
    let mut client = RecordDuplex::open(ours).expect("opened");
    let mut reply = [0; 64];
    assert_eq!(client.request_timeout(b"abc", &mut reply, LONG).expect("a reply"), 6);
    kill(&mut child);
    let error = client.request_timeout(b"abc", &mut reply, LONG).expect_err("dead");
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[test]
fn it_is_handed_on_in_use() {
    let (mut client, server) = RecordDuplex::pair(&small()).expect("a channel");
    client.writer.send(b"before").expect("sent");
    let (here, there) = UnixStream::pair().expect("sockets");
    server.into_handle().and_then(|handle| handle.send(here.as_fd())).expect("handed on");
    let handle = DuplexHandle::receive(there.as_fd()).expect("received");
    let server = RecordDuplex::open(handle).expect("opened");
    let server = std::thread::spawn(move || answer(server));
    let mut reply = [0; 64];
    assert_eq!(client.reader.receive(&mut reply).expect("received"), Some(12));
    assert_eq!(client.request(b"after", &mut reply).expect("a reply"), 10);
    drop(client);
    assert_eq!(server.join().expect("no panic").expect("the end"), 2);
}

#[test]
fn each_direction_has_its_account() {
    let (mut client, server) = RecordDuplex::pair(&small()).expect("a channel");
    let server = std::thread::spawn(move || answer(server));
    client.request(b"abc", &mut [0; 64]).expect("a reply");
    let (sent, got) = (client.writer.account(), client.reader.account());
    assert_eq!(sent.map(|account| (account.records, account.bytes)).expect("ours"), (1, 3));
    assert_eq!(got.map(|account| (account.records, account.bytes)).expect("ours"), (1, 6));
    let inode = |fd: std::os::fd::BorrowedFd| rustix::fs::fstat(fd).expect("there").st_ino;
    let pipes = weir::stat::pipes();
    for memory in [client.writer.memory_descriptor(), client.reader.memory_descriptor()] {
        let inode = inode(memory.expect("ours"));
        assert!(pipes.iter().any(|pipe| pipe.inode == inode), "it is seen from outside");
    }
    drop(client);
    server.join().expect("no panic").expect("the end");
}

/// A channel was sent in two messages. Where there was room for one of them only, or it was
/// received before the other had come, half a channel was left, and each channel after it was made
/// of two.
#[test]
fn a_channel_comes_whole_or_not_at_all() {
    let options = Options::new().capacity_bytes(4096);
    // Of two messages the one that finds no room is the first or the second.
    for filler in 0..2 {
        let (here, there) = std::os::unix::net::UnixStream::pair().expect("sockets");
        rustix::net::sockopt::set_socket_send_buffer_size(&here, 4096).expect("set");
        for _ in 0..filler {
            let (one, _other) = RecordDuplex::handles(&options).expect("made");
            one.writer.send(&here).expect("sent");
        }
        let mut ours = Vec::new();
        let error = loop {
            let (one, other) = RecordDuplex::handles(&options).expect("made");
            match other.send(&here) {
                Ok(()) => ours.push(one),
                Err(error) => break error,
            }
            assert!(ours.len() < 100, "the socket is full in the end");
        };
        assert_eq!(error.kind(), ErrorKind::Os, "{error}");
        there.set_nonblocking(true).expect("set");
        for _ in 0..filler {
            drop(Handle::receive(&there).expect("received"));
        }
        for one in ours.into_iter().map(Some).chain([None]) {
            let one = one.unwrap_or_else(|| {
                let (one, other) = RecordDuplex::handles(&options).expect("made");
                other.send(&here).expect("there is room again");
                one
            });
            let mut one = RecordDuplex::open(one).expect("opened");
            let other = DuplexHandle::receive(&there).and_then(RecordDuplex::open);
            one.writer.send(b"this one").expect("sent");
            let mut other = other.expect("whole");
            assert_eq!(other.reader.receive(&mut [0; 8]).expect("received"), Some(8));
        }
        let error = DuplexHandle::receive(&there).map(drop).expect_err("nothing is left");
        assert_eq!(error.kind(), ErrorKind::Os, "{error}");
    }
}

#[test]
fn what_is_half_a_channel_or_turned_round_is_refused() {
    let (here, there) = std::os::unix::net::UnixStream::pair().expect("sockets");
    let (one, other) = RecordDuplex::handles(&Options::new()).expect("made");
    one.writer.send(&here).expect("sent");
    let error = DuplexHandle::receive(&there).map(drop).expect_err("half of one");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let turned = DuplexHandle { writer: other.reader, reader: other.writer };
    assert_eq!(turned.send(&here).expect_err("no side").kind(), ErrorKind::Invalid);
}
