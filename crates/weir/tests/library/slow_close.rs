//! Descriptors whose closing takes as long as their sender likes, sent where memory or nothing is
//! expected. Nobody waits for them to be closed (docs/contracts/port.md, 16, 19; pipe.md,
//! 15).

use crate::common;
use crate::raw;
use crate::slow::{BOUND, TIME, come_to, in_time, send_slow, slow, wait_for};
use crate::words;
use crate::words::Words;
use rustix::fd::{AsFd, OwnedFd};
use std::mem::offset_of;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir::{
    DuplexHandle, Ending, ErrorKind, Event, Handle, Listener, Options, Port, PortOptions,
    PortWriter, PortWriterOptions, RecordDuplex, RecordReader, Timeout,
};
use weir_ring::layout::PipeHeader;

/// How long closing takes for the last holder.
#[test]
fn a_descriptor_that_is_slow_to_close_is() {
    let (slow, _other) = slow();
    rustix::net::sockopt::set_socket_linger(&slow, Some(Duration::from_secs(1))).expect("set");
    let begun = Instant::now();
    drop(slow);
    assert!(begun.elapsed() >= Duration::from_secs(1), "or these tests test nothing");
}

#[test]
fn what_is_handed_over_to_a_port_holds_up_nobody() {
    let (_directory, name) = common::place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut honest = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
    let calls: [fn(&mut Port); 3] = [
        |port| _ = port.receive_timeout(&mut [0; 64], TIME),
        |port| _ = wait_for(port),
        |port| _ = port.receive_timeout(&mut [0; 64], Timeout::Now),
    ];
    for call in calls {
        let mut all = come_to(&name, b"weir-port");
        // This client has already gone again.
        all.remove(1).1.truncate(1);
        for _ in 0..5 {
            in_time("a call", || call(&mut port));
        }
        for (socket, _) in &all[..2] {
            common::until("it is refused", || {
                in_time("a call", || call(&mut port));
                common::hears(socket).is_some_and(|said| said.starts_with(b"weir-no "))
            });
        }
        honest.send(b"honest").expect("sent");
        let got = in_time("an honest message", || port.receive_timeout(&mut [0; 64], BOUND));
        assert_eq!(got.expect("it comes").event, Event::Message { bytes: 6 });
    }
    // Connections that were not let in are closed without waiting, too.
    let _all = come_to(&name, b"weir-port");
    in_time("the close", || drop(port));
}

/// A client that was let in sends descriptors. It is shut out, or they are ignored until it is
/// gone.
#[test]
fn what_a_writer_sends_later_holds_up_nobody() {
    for is_polled in [false, true] {
        let (_directory, name) = common::place();
        let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
        let mut hostile = Words::enter(&name, &mut port, 8192);
        if is_polled {
            port.poll_descriptor().expect("one");
        }
        let _others = [send_slow(&hostile.socket, b"b", 1), send_slow(&hostile.socket, b"", 3)];
        let call = |port: &mut Port| {
            in_time("a call", || {
                port.receive_timeout(&mut [0; 64], Timeout::Now).map(|got| got.event).ok()
            })
        };
        assert!(hostile.put(words::FIRST | words::LAST, b"last"));
        let mut events = Vec::new();
        common::until("its message comes", || {
            events.extend(call(&mut port));
            !events.is_empty()
        });
        assert_eq!(events, [Event::Message { bytes: 4 }]);
        drop(hostile);
        common::until("its end comes", || {
            events.extend(call(&mut port));
            events.len() == 2
        });
        assert_eq!(events[1], Event::Closed(Ending::Died));
        in_time("the close", || drop(port));
    }
}

/// Connects to a listener as a pipe of bytes or as half a channel, and sends more behind that.
fn come_to_listen(name: &Path, word: &[u8]) -> (OwnedFd, Vec<TcpStream>) {
    let (memory, _) = Handle::stream_pair(&Options::new()).expect("made").0.into_descriptors();
    let socket = raw::dial(name);
    raw::send(socket.as_fd(), &[b"weir-open", word].concat(), &[memory.as_fd()]);
    let others = send_slow(&socket, b"b", 1);
    (socket, others)
}

/// A connection that was not an end of the kind that was waited for was closed by who accepted.
#[test]
fn what_is_sent_behind_a_pipe_holds_up_no_listener() {
    let (_directory, name) = common::place();
    let listener = Listener::bind(&name).expect("bound");
    let half = [&b">"[..], &[7; 8]].concat();
    let _kept = [come_to_listen(&name, b""), come_to_listen(&name, b"")];
    let error = in_time("a pipe of bytes", || listener.accept::<RecordReader>().map(drop));
    assert_eq!(error.expect_err("no records").kind(), ErrorKind::Invalid);
    let error = in_time("a pipe", || listener.accept::<RecordDuplex>().map(drop));
    assert_eq!(error.expect_err("no channel").kind(), ErrorKind::Invalid);
    let _kept = [come_to_listen(&name, &half), come_to_listen(&name, &half)];
    let error = in_time("half a channel", || listener.accept::<RecordReader>().map(drop));
    assert_eq!(error.expect_err("no pipe").kind(), ErrorKind::Invalid);
    // The other half does not come.
    let error = in_time("a wait", || listener.accept_timeout::<RecordDuplex>(TIME).map(drop));
    assert_eq!(error.expect_err("nobody").kind(), ErrorKind::TimedOut);
    in_time("the close", || drop(listener));
}

/// The kernel tells once that the other side has closed with something unread, and it told that to
/// the one who asked whether anything was left.
#[test]
fn what_is_sent_by_one_who_left_something_unread_holds_up_nobody() {
    let (writer, reader) = Handle::stream_pair(&Options::new()).expect("made");
    let (memory, socket) = writer.into_descriptors();
    let mut reader = weir::Reader::open(reader).expect("opened");
    let set = |at: usize, value: u64| {
        rustix::io::pwrite(&memory, &value.to_ne_bytes(), at as u64).expect("written");
    };
    // It waits in poll for room, and has written a byte.
    set(offset_of!(PipeHeader, writer_sleep.word), 2);
    set(offset_of!(PipeHeader, writer.position), 1);
    assert_eq!(reader.read(&mut [0; 8]).expect("read"), 1);
    let _others = send_slow(&socket, b"m", 1);
    drop(socket);
    in_time("the close", || drop(reader));
}

/// A handle whose descriptors are something else. One with a socket of another kind became an end, which
/// waited for ever and was slow to close.
#[test]
fn what_comes_as_a_handle_holds_up_nobody_who_opens_it() {
    for place in 0..5 {
        let (memory, socket) =
            Handle::record_pair(&Options::new()).expect("made").0.into_descriptors();
        let (of_stream, _) =
            Handle::stream_pair(&Options::new()).expect("made").0.into_descriptors();
        let (file, _other) = slow();
        let (_directory, path) = common::place();
        let handle = match place {
            0 => Handle::writer(file, socket),
            1 => Handle::writer(memory, file),
            2 => Handle::writer(of_stream, file),
            3 => Handle::writer(of_stream, weir_sys::bell::make(0).expect("made")),
            _ => Handle::writer(of_stream, raw::listen(&path)),
        };
        let error = in_time("the open", || weir::Writer::open(handle).map(drop));
        let kind = if place == 1 { ErrorKind::Invalid } else { ErrorKind::Corrupt };
        assert_eq!(error.expect_err("no stream").kind(), kind, "{place}");
    }
}

/// Of a channel whose writer was refused, the handle of the reader was dropped, and so closed.
#[test]
fn what_comes_with_half_a_channel_holds_up_nobody_who_opens_it() {
    let (writer, _) = Handle::stream_pair(&Options::new()).expect("made");
    let (_, reader) = Handle::record_pair(&Options::new()).expect("made");
    let (file, _other) = slow();
    let reader = Handle::reader(reader.into_descriptors().0, file);
    let channel = DuplexHandle { writer, reader };
    let error = in_time("the open", || RecordDuplex::open(channel).map(drop));
    assert_eq!(error.expect_err("no channel of records").kind(), ErrorKind::Invalid);
}

/// A message that is not a handle, and one with more descriptors than a handle has.
#[test]
fn what_comes_in_place_of_a_handle_holds_up_nobody_who_receives_it() {
    for (text, count) in [("nonsense", 2), ("weir-writer", 1), ("weir-writer", 5)] {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("made");
        let _others = send_slow(&theirs, text.as_bytes(), count);
        let error = in_time("the call", || Handle::receive(&ours).map(drop));
        assert_eq!(error.expect_err("no handle").kind(), ErrorKind::Corrupt, "{text} {count}");
    }
}

/// Who handed a socket over can have set it so that a look at what is in it sees something else, or
/// nothing.
#[test]
fn what_a_look_does_not_see_holds_up_nobody() {
    for seen in [1, 1 << 20] {
        let (writer, reader) = Handle::stream_pair(&Options::new()).expect("made");
        let (memory, socket) = reader.into_descriptors();
        let (_, theirs) = writer.into_descriptors();
        set(&socket, libc::SO_PEEK_OFF, seen);
        let mut reader = weir::Reader::open(Handle::reader(memory, socket)).expect("opened");
        let _others = send_slow(&theirs, b"x", 1);
        raw::send(theirs.as_fd(), b"b", &[]);
        drop(theirs);
        reader.poll_descriptor().expect("made");
        let _ = in_time("a read", || reader.try_read(&mut [0; 8]));
        in_time("the close", || drop(reader));
    }
}

/// Sets a number of a socket.
fn set(socket: &OwnedFd, option: libc::c_int, number: libc::c_int) {
    let (value, bytes) = (&raw const number, size_of_val(&number) as libc::socklen_t);
    let number = std::os::fd::AsRawFd::as_raw_fd(socket);
    // SAFETY: the value is a live integer, and the length is its.
    let set = unsafe { libc::setsockopt(number, libc::SOL_SOCKET, option, value.cast(), bytes) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// A reader that sends its writer something other than a board.
#[test]
fn what_a_reader_sends_holds_up_no_writer() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let (_directory, name) = common::place();
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let listening = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).expect("one");
    rustix::net::bind(&listening, &SocketAddrUnix::new(&name).expect("short")).expect("bound");
    rustix::net::listen(&listening, 8).expect("listens");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = rustix::net::accept_with(&listening, flags).expect("accepted");
            let _others = send_slow(&socket, b"weir-in 0 1000 0", 1);
            common::until("it is over", || is_over.load(Ordering::Relaxed));
        });
        let mut writer = in_time("the open", || {
            PortWriter::connect(&name, &PortWriterOptions::new()).expect("opened")
        });
        let _ = in_time("a question", || writer.is_let_in());
        let _ = in_time("a send", || writer.send_timeout(b"x", TIME));
        in_time("the close", || drop(writer));
        is_over.store(true, Ordering::Relaxed);
    });
}
