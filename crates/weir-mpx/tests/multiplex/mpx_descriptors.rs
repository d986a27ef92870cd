//! Channels that plain programs read and write (docs/contracts/mpx.md, 16 and 17).

use crate::common;
use crate::common::patterned;
use crate::exchange;
use crate::exchange::{Exchange, LONG, Receives, drain, exchange, kinds, receive};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir::{Ending, ErrorKind, Wait};
use weir_mpx::{ChannelId, MpxPeer, RecordKind};

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC).expect("a pipe")
}

/// Starts a program whose input and output are a channel.
fn start(exchange: &mut Exchange, channel: ChannelId, program: &str, words: &[&str]) -> Child {
    let socket = exchange.owner.extract(channel).expect("extracted");
    let other = socket.try_clone().expect("a descriptor");
    let mut command = Command::new(program);
    command.args(words).env("LC_ALL", "C").stdin(Stdio::from(socket)).stdout(Stdio::from(other));
    command.spawn().expect("started")
}

/// Both sides continue until the peer has received what `ends` accepts.
fn until(
    exchange: &mut Exchange,
    peer: &mut MpxPeer,
    mut see: impl FnMut(&mut MpxPeer, Vec<exchange::Kept>) -> bool,
) -> Vec<exchange::Kept> {
    let (begun, mut shown) = (Instant::now(), Vec::new());
    loop {
        let few = Duration::from_millis(2);
        let _ = exchange.owner.all_for(few, &mut |record| shown.push(record));
        let mut came = Vec::new();
        let _ = peer.all_now(&mut |record| came.push(record));
        if see(peer, came) {
            return shown;
        }
        assert!(begun.elapsed() < LONG, "it takes too long");
    }
}

/// Sends `bytes` and a mark through a channel. Returns what comes back up to a mark, when the channel
/// is the owner's again.
fn through(exchange: &mut Exchange, peer: &mut MpxPeer, there: ChannelId, bytes: &[u8]) -> Vec<u8> {
    let (mut sent, mut marked, mut back, mut ended) = (0, false, Vec::new(), false);
    let shown = until(exchange, peer, |peer, came| {
        for record in came {
            match record.kind {
                RecordKind::Data => back.extend(record.bytes),
                RecordKind::End => ended = true,
                RecordKind::Blocked | RecordKind::Unblocked => {}
                kind => panic!("{kind:?}"),
            }
        }
        if sent < bytes.len() {
            sent += peer.send(there, &bytes[sent..]).expect("sent");
        } else if !marked {
            marked = peer.end(there).expect("sent");
        }
        ended
    });
    let mut shown = shown.into_iter();
    let released = shown.next().unwrap_or_else(|| receive(&mut exchange.owner, 1).remove(0));
    assert_eq!(released.kind, RecordKind::Released);
    assert!(released.bytes.is_empty() && shown.next().is_none(), "no error, and nothing else");
    back
}

#[test]
fn a_program_reads_and_writes_a_channel() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "sort");
    let mut lines: Vec<String> =
        (0..40_000).map(|at| format!("{}\n", at * 7919 % 100_003)).collect();
    let mut child = start(&mut exchange, here, "sort", &[]);
    let back = through(&mut exchange, &mut peer, there, lines.concat().as_bytes());
    lines.sort();
    assert!(back == lines.concat().as_bytes(), "{} bytes", back.len());
    assert!(child.wait().expect("ended").success());
    // The channel continues, and is the owner's again.
    peer.send(there, b"after").expect("sent");
    assert_eq!(receive(&mut exchange.owner, 1)[0].bytes, b"after");
    exchange.owner.send(here, b"too").expect("sent");
    assert_eq!(receive(&mut peer, 1)[0].bytes, b"too");
    // And a second program can have it.
    let mut child = start(&mut exchange, here, "cat", &[]);
    let bytes = patterned(1_000_000, 5);
    assert!(through(&mut exchange, &mut peer, there, &bytes) == bytes);
    assert!(child.wait().expect("ended").success());
}

#[test]
fn a_peer_hands_a_channel_on_too() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    // Before it is accepted.
    let there = peer.open(b"cat").expect("opened");
    let socket = peer.extract(there).expect("extracted");
    let other = socket.try_clone().expect("a descriptor");
    let mut command = Command::new("cat");
    command.stdin(Stdio::from(socket)).stdout(Stdio::from(other));
    let mut child = command.spawn().expect("started");
    drop(command);
    let here = receive(&mut exchange.owner, 1)[0].channel;
    exchange.owner.accept(here).expect("accepted");
    exchange.owner.send(here, b"from the owner").expect("sent");
    assert!(exchange.owner.end(here).expect("sent"));
    let mut kinds = Vec::new();
    let mut back = Vec::new();
    let begun = Instant::now();
    while !kinds.contains(&RecordKind::Released) {
        assert!(begun.elapsed() < LONG, "{kinds:?}");
        let _ = peer.all_for(Duration::from_millis(2), &mut |record| kinds.push(record.kind));
        back.extend(drain(&mut exchange.owner));
    }
    assert_eq!(kinds, [RecordKind::Accepted, RecordKind::Released]);
    assert_eq!((&back[0].bytes[..], back[1].kind), (&b"from the owner"[..], RecordKind::End));
    assert!(child.wait().expect("ended").success());
}

#[test]
fn a_program_that_reads_no_more_gives_the_channel_back() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "head");
    let mut child = start(&mut exchange, here, "head", &["-c", "5"]);
    let mut first = Vec::<u8>::new();
    let shown = until(&mut exchange, &mut peer, |peer, came| {
        let _ = peer.send(there, b"123456789");
        let data = came.iter().filter(|record| record.kind == RecordKind::Data);
        data.for_each(|record| first.extend(&record.bytes));
        came.iter().any(|record| record.kind == RecordKind::End)
    });
    assert_eq!(first, b"12345");
    assert!(child.wait().expect("ended").success());
    let mut all = shown;
    while !kinds(&all).contains(&RecordKind::Released) {
        all.extend(receive(&mut exchange.owner, 1));
    }
    drain(&mut exchange.owner);
    peer.send(there, b"shown").expect("sent");
    assert!(drain(&mut exchange.owner).iter().any(|record| record.bytes.ends_with(b"shown")));
}

#[test]
fn the_end_of_a_channel_is_the_end_of_its_descriptor() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "ends");
    let mut child = start(&mut exchange, here, "cat", &[]);
    peer.send(there, b"bytes").expect("sent");
    peer.close(there).expect("closed");
    let ended = receive(&mut exchange.owner, 1).remove(0);
    assert_eq!(ended.kind, RecordKind::Close(Ending::Closed));
    // It reads its end rather than an error; what it then still writes may find nobody.
    let status = child.wait().expect("ended");
    assert!(
        status.success() || status.signal() == Some(13) || status.code() == Some(1),
        "{status}"
    );
    // A peer that dies ends it as well, and what it sent comes before.
    let (here, there) = exchange.open(&mut peer, "dies");
    let (reading, writing) = pipe();
    exchange.owner.join_output(here, writing).expect("joined");
    peer.send(there, b"last words").expect("sent");
    drop(peer);
    let ended = receive(&mut exchange.owner, 1).remove(0);
    assert!(matches!(ended.kind, RecordKind::Close(_)), "{ended:?}");
    let mut bytes = [0; 64];
    assert_eq!(read(&reading, &mut bytes).expect("read"), 10);
    assert_eq!(&bytes[..10], b"last words");
    assert_eq!(read(&reading, &mut bytes).expect("read"), 0, "the end");
}

#[test]
fn a_pipe_a_file_and_a_terminal_can_be_joined() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "a file");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let bytes = patterned(300_000, 9);
    std::fs::write(file.path(), &bytes).expect("written");
    let opened = || OwnedFd::from(std::fs::File::open(file.path()).expect("opened"));
    exchange.owner.join_input(here, opened()).expect("joined");
    let mut back = Vec::<u8>::new();
    until(&mut exchange, &mut peer, |_, came| {
        came.iter().for_each(|record| back.extend(&record.bytes));
        came.iter().any(|record| record.kind == RecordKind::End)
    });
    assert!(back == bytes);
    assert_eq!(kinds(&drain(&mut exchange.owner)), [], "told already");
    // A terminal: its flags stay as they are, since its other users share them.
    let (here, there_too) = exchange.open(&mut peer, "a terminal");
    let (master, terminal) = terminal();
    let copy = terminal.try_clone().expect("a descriptor");
    exchange.owner.join_input(here, copy).expect("joined");
    let copy = terminal.try_clone().expect("a descriptor");
    exchange.owner.join_output(here, copy).expect("joined");
    assert!(!fcntl_getfl(&terminal).expect("flags").contains(OFlags::NONBLOCK));
    peer.send(there_too, b"hello").expect("sent");
    write(&master, b"typed\n\x04").expect("typed");
    let mut typed = Vec::<u8>::new();
    until(&mut exchange, &mut peer, |_, came| {
        came.iter().for_each(|record| typed.extend(&record.bytes));
        came.iter().any(|record| record.kind == RecordKind::End)
    });
    assert_eq!(typed, b"typed\n");
    let (mut screen, mut bytes) = (Vec::new(), [0; 64]);
    while !String::from_utf8_lossy(&screen).contains("hello") {
        let count = read(&master, &mut bytes).expect("read");
        screen.extend(&bytes[..count]);
    }
    let _ = there;
}

/// A pair of a terminal: the side of the user, and that of programs.
fn terminal() -> (OwnedFd, OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("made");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(&*name, flags, rustix::fs::Mode::empty()).expect("opened");
    (master, terminal)
}

#[test]
fn an_owner_that_sleeps_is_woken_by_a_descriptor() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, _) = exchange.open(&mut peer, "wakes");
    let (reading, writing) = pipe();
    exchange.owner.join_input(here, reading).expect("joined");
    assert!(drain(&mut exchange.owner).is_empty());
    let owner = std::thread::spawn(move || {
        // It shows nothing of what it moves, until the descriptor has ended.
        let records = receive(&mut exchange.owner, 1);
        (exchange, records)
    });
    write(&writing, b"one").expect("written");
    assert_eq!(receive(&mut peer, 1)[0].bytes, b"one");
    write(&writing, b"two").expect("written");
    assert_eq!(receive(&mut peer, 1)[0].bytes, b"two");
    drop(writing);
    assert_eq!(receive(&mut peer, 1)[0].kind, RecordKind::End);
    let (mut exchange, records) = owner.join().expect("no panic");
    assert_eq!(kinds(&records), [RecordKind::Released]);
    // In one wait with others, and in poll, too.
    let (reading, writing) = pipe();
    exchange.owner.join_input(here, reading).expect("joined");
    for polled in [false, true] {
        let ready = |owner: &mut weir_mpx::Mpx| {
            let mut wait = Wait::new();
            wait.add_borrowed((), owner).expect("added");
            let mut found = Vec::new();
            wait.wait_timeout(&mut found, LONG).expect("ready");
            found.len()
        };
        if polled {
            exchange.owner.poll_descriptor().expect("a descriptor");
        }
        drain(&mut exchange.owner);
        write(&writing, b"more").expect("written");
        let begun = Instant::now();
        loop {
            match polled {
                false => assert_eq!(ready(&mut exchange.owner), 1),
                true => poll(exchange.owner.poll_descriptor().expect("a descriptor")),
            }
            drain(&mut exchange.owner);
            if peer.all_now(&mut |record| assert_eq!(record.bytes, b"more")).is_ok() {
                break;
            }
            assert!(begun.elapsed() < LONG, "it comes");
        }
    }
}

fn poll(what: impl AsFd) {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut asked = [PollFd::new(&what, PollFlags::IN)];
    let time = Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut asked, Some(&time)).expect("polled"), 1);
}

/// A descriptor that takes nothing holds up its channel, and no other.
#[test]
fn a_full_descriptor_holds_up_no_other_channel() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "full");
    let (other_here, other) = exchange.open(&mut peer, "other");
    let (reading, writing) = pipe();
    exchange.owner.join_output(here, writing).expect("joined");
    let bytes = patterned(400_000, 2);
    let mut sent = 0;
    for _ in 0..100 {
        sent += peer.send(there, &bytes[sent..]).expect("sent");
        drain(&mut exchange.owner);
        drain(&mut peer);
    }
    assert!(sent < bytes.len(), "the pipe and the lane are full");
    peer.send(other, b"passes").expect("sent");
    let record = receive(&mut exchange.owner, 1).remove(0);
    assert_eq!((record.channel, &record.bytes[..]), (other_here, &b"passes"[..]));
    let (mut got, mut buffer) = (Vec::<u8>::new(), vec![0; 70_000]);
    let begun = Instant::now();
    while got.len() < bytes.len() {
        let mut asked = [rustix::event::PollFd::new(&reading, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if rustix::event::poll(&mut asked, Some(&now)).expect("polled") > 0 {
            let count = read(&reading, &mut buffer).expect("read");
            got.extend(&buffer[..count]);
        }
        if sent < bytes.len() {
            sent += peer.send(there, &bytes[sent..]).expect("sent");
        }
        drain(&mut exchange.owner);
        drain(&mut peer);
        assert!(begun.elapsed() < LONG, "{} of {sent}", got.len());
    }
    assert!(got == bytes);
    // A signal is shown: no descriptor can carry it.
    assert!(peer.signal(there, 15).expect("sent"));
    assert_eq!(kinds(&receive(&mut exchange.owner, 1)), [RecordKind::Signal(15)]);
    assert!(exchange.owner.release(here).expect("there"));
    assert!(!exchange.owner.release(here).expect("there"), "no more");
    peer.send(there, b"shown").expect("sent");
    assert_eq!(receive(&mut exchange.owner, 1)[0].bytes, b"shown");
}

/// A reader that comes to a named pipe after it was joined, and reads nothing.
#[test]
fn an_output_that_nobody_reads_never_holds_up_its_owner() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "late");
    let (_directory, name) = common::place();
    let modes = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &name, rustix::fs::FileType::Fifo, modes, 0)
        .expect("made");
    let open = |flags: OFlags| rustix::fs::open(&name, flags | OFlags::CLOEXEC, modes);
    let reading = open(OFlags::RDONLY | OFlags::NONBLOCK).expect("opened");
    let writing = open(OFlags::WRONLY).expect("opened");
    drop(reading);
    exchange.owner.join_output(here, writing).expect("joined");
    let _reading = open(OFlags::RDONLY | OFlags::NONBLOCK).expect("opened");
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let records = receive(&mut exchange.owner, 2);
        told.send((exchange, records)).expect("heard");
    });
    // More than the pipe takes.
    let (bytes, begun, mut sent) = (patterned(1_000_000, 3), Instant::now(), 0);
    let (_exchange, records) = loop {
        sent += peer.send(there, &bytes[sent..]).expect("sent");
        drain(&mut peer);
        if let Ok(seen) = heard.try_recv() {
            break seen;
        }
        assert!(begun.elapsed() < LONG, "the owner is held up");
    };
    assert_eq!(kinds(&records)[..2], [RecordKind::Released, RecordKind::Data]);
}

#[test]
fn what_cannot_be_joined_is_refused() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "refused");
    let (other, _) = exchange.open(&mut peer, "other");
    let invalid = |result: weir::Result<()>, why: &str| {
        let error = result.expect_err(why);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    };
    let (reading, writing) = pipe();
    invalid(exchange.owner.join_input(here, writing), "not for reading");
    invalid(exchange.owner.join_output(here, reading), "not for writing");
    let (datagrams, _other) =
        socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .expect("made");
    invalid(exchange.owner.join_input(here, datagrams), "no stream");
    let directory = OwnedFd::from(std::fs::File::open("/").expect("opened"));
    invalid(exchange.owner.join_input(here, directory), "a directory");
    let counter = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("made");
    invalid(exchange.owner.join_input(here, counter), "not a stream of bytes");
    let socket = exchange.owner.extract(here).expect("extracted");
    invalid(exchange.owner.extract(here).map(drop), "it has descriptors");
    invalid(exchange.owner.connect(here, other), "it has descriptors");
    drop(socket);
    assert_eq!(kinds(&receive(&mut exchange.owner, 1)), [RecordKind::Released]);
    exchange.owner.connect(here, other).expect("connected");
    invalid(exchange.owner.extract(here).map(drop), "it is connected");
    let ended = ChannelId::from_u64(99);
    invalid(exchange.owner.extract(ended).map(drop), "no such channel");
    // An error of a device is told with its text.
    exchange.owner.disconnect(here).expect("there");
    let full =
        OwnedFd::from(std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there"));
    exchange.owner.join_output(here, full).expect("joined");
    peer.send(there, b"too much").expect("sent");
    let records = receive(&mut exchange.owner, 2);
    assert_eq!(kinds(&records), [RecordKind::Released, RecordKind::Data]);
    assert!(String::from_utf8_lossy(&records[0].bytes).starts_with("No space left"));
    assert_eq!(records[1].bytes, b"too much", "what was not taken is shown");
}
