//! What comes over the sockets of pipes and of handles (docs/contracts/pipe.md, 11, 15, 16, 18).

mod common;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use weir::{DuplexHandle, ErrorKind, Handle, Options, Reader, RecordDuplex, Writer};

fn small() -> Options {
    Options::new().capacity_bytes(4096)
}

/// A socket that tells who sends had no room for a handle beside that: the handle was lost, and its
/// receiver heard of too many open files.
#[test]
fn a_socket_that_tells_who_sends_brings_handles_too() {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    rustix::net::sockopt::set_socket_passcred(&ours, true).expect("set");
    let (mut writer, reader) = weir::pipe(&small()).expect("made");
    reader.into_handle().expect("a handle").send(&theirs).expect("sent");
    let handle = Handle::receive(&ours).expect("received");
    let mut reader = Reader::open(handle).expect("opened");
    writer.write(b"one").expect("written");
    assert_eq!(reader.read(&mut [0; 9]).expect("read"), 3);
    let (one, other) = RecordDuplex::handles(&small()).expect("made");
    other.send(&theirs).expect("sent");
    let mut other = DuplexHandle::receive(&ours).and_then(RecordDuplex::open).expect("received");
    let mut one = RecordDuplex::open(one).expect("opened");
    one.writer.send(b"two").expect("sent");
    assert_eq!(other.reader.receive(&mut [0; 9]).expect("received"), Some(3));
}

/// The refusal took what was in the socket, or left it so that no memory came through: the end that
/// was open lost the pipe's next memory.
#[test]
fn copies_that_are_refused_take_nothing_from_the_end_that_is_open() {
    for refused_first in [true, false] {
        let (writer, reader) = Handle::stream_pair(&small()).expect("made");
        let (memory, socket) = reader.into_descriptors();
        let copy = || {
            let copies = (memory.try_clone().expect("a copy"), socket.try_clone().expect("a copy"));
            Reader::open(Handle::reader(copies.0, copies.1))
        };
        let (mut writer, mut reader) =
            (Writer::open(writer).expect("opened"), copy().expect("opened"));
        let refuse = || assert_eq!(copy().expect_err("open").kind(), ErrorKind::Invalid);
        if refused_first {
            refuse();
        }
        writer.resize(65_536).expect("resized");
        writer.write(b"in the next memory").expect("written");
        if !refused_first {
            // What closes the copies does so whenever it likes.
            (0..50).for_each(|_| refuse());
        }
        let mut buffer = [0; 64];
        let count = reader.read(&mut buffer).expect("it goes on");
        assert_eq!(&buffer[..count], b"in the next memory");
    }
}

/// It was said to be no handle.
#[test]
fn the_end_of_a_socket_is_not_a_message_that_is_no_handle() {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    drop(theirs);
    let error = Handle::receive(&ours).map(drop).expect_err("nobody is there");
    let why = "cannot receive a handle: the other side has closed the socket or died";
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Closed, why.to_owned()));
    let error = DuplexHandle::receive(&ours).map(drop).expect_err("nobody is there");
    let why = "cannot receive a channel: the other side has closed the socket or died";
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Closed, why.to_owned()));
}

/// A writer in poll was told of room once there was as much as another call had waited for.
#[test]
fn a_writer_in_poll_is_told_of_a_segment_whatever_it_waited_for_before() {
    let (mut writer, mut reader) = weir::pipe(&small().segment_bytes(512)).expect("made");
    writer.write(&[1; 4096]).expect("written");
    let mut wait = weir::Wait::new();
    let all = wait.add_borrowed((), &mut writer).expect("few");
    wait.want(all, 4096).expect("its key");
    let time = std::time::Duration::from_millis(1);
    wait.wait_timeout(&mut Vec::new(), time).expect_err("it is full");
    drop(wait);
    writer.poll_descriptor().expect("made");
    writer.try_write(b"x").expect_err("full");
    assert_eq!(reader.read(&mut [0; 512]).expect("read"), 512);
    let descriptor = writer.poll_descriptor().expect("made");
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let told = poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&now));
    assert_eq!(told.expect("polled"), 1, "there is room for a segment");
}

/// A second wish had the number of the first, once the writer had set its own sizes in between.
#[test]
fn a_wish_after_sizes_of_the_writers_own_is_taken_up() {
    use weir::tune::{Ask, ask};
    let (mut writer, mut reader) = weir::pipe(&small()).expect("made");
    let memory = reader.memory_descriptor().expect("here").try_clone_to_owned().expect("a copy");
    let mut buffer = [0; 1024];
    for (own, wished) in [(None, 1024), (Some(2048), 512)] {
        if let Some(own) = own {
            writer.set_sizes(own, 4096).expect("in range");
        }
        let wish = Ask { segment_bytes: Some(wished), ..Ask::default() };
        ask(memory.as_fd(), wish).expect("asked");
        for _ in 0..600 {
            writer.write(b"x").expect("written");
            reader.read(&mut buffer).expect("read");
        }
        assert_eq!(writer.sizes().segment_bytes, wished);
    }
}
