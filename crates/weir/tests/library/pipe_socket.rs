//! What comes over the sockets of pipes and of handles (docs/contracts/pipe.md, 11, 15, 16, 18).

use crate::common;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::thread::JoinHandleExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
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

/// A record pipe keeps its capacity. Once another one was asked for, that was said to be its own, and
/// no segment was taken up any more.
#[test]
fn a_record_pipe_that_was_asked_for_a_capacity_takes_up_a_segment() {
    use weir::tune::{Ask, ask};
    let (mut writer, mut reader) = weir::records(&small()).expect("made");
    let memory = reader.memory_descriptor().expect("here").try_clone_to_owned().expect("a copy");
    let larger = Ask { capacity_bytes: Some(65_536), ..Ask::default() };
    assert_eq!(ask(&memory, larger).expect("asked").capacity_bytes, 4096);
    let wish = Ask { segment_bytes: Some(1024), ..Ask::default() };
    assert_eq!(ask(&memory, wish).expect("asked").segment_bytes, 1024);
    for _ in 0..600 {
        writer.send(b"x").expect("sent");
        reader.receive(&mut [0; 8]).expect("received");
    }
    assert_eq!(writer.sizes().segment_bytes, 1024);
}

/// A capacity that could not be set was still taken for the pipe's own by those that asked for something
/// else later.
#[test]
fn a_capacity_that_was_dropped_stands_in_the_way_of_no_other_size() {
    use weir::tune::{Ask, ask};
    let (mut writer, reader) = weir::pipe(&small().capacity_bytes(16_384)).expect("made");
    let memory = reader.memory_descriptor().expect("here").try_clone_to_owned().expect("a copy");
    let less = Ask { capacity_bytes: Some(4096), ..Ask::default() };
    ask(&memory, less).expect("it is empty");
    writer.write(&[7; 10_000]).expect("written");
    (0..300).for_each(|_| assert_eq!(writer.write(b"x").expect("written"), 1));
    let wish = Ask { segment_bytes: Some(1024), ..Ask::default() };
    let sizes = ask(&memory, wish).expect("it fits the present capacity");
    assert_eq!((sizes.capacity_bytes, sizes.segment_bytes), (16_384, 1024));
    (0..300).for_each(|_| assert_eq!(writer.write(b"x").expect("written"), 1));
    assert_eq!(writer.sizes(), sizes);
}

/// Who handed a socket over can have set it so that each message brings a descriptor of its sender's
/// process. Nobody closed that one.
#[test]
fn descriptors_of_who_sends_do_not_pile_up() {
    const MESSAGES: usize = 30;
    let (writer, reader) = Handle::stream_pair(&small()).expect("made");
    let (memory, socket) = reader.into_descriptors();
    let (_, theirs) = writer.into_descriptors();
    let (one, bytes) = (1, size_of::<libc::c_int>() as libc::socklen_t);
    let number = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: the value is a live integer, and the length is its.
    let set = unsafe {
        let one: *const libc::c_int = &raw const one;
        libc::setsockopt(number, libc::SOL_SOCKET, SO_PASSPIDFD, one.cast(), bytes)
    };
    if set != 0 {
        return println!("SKIPPED: the kernel is older than 6.5");
    }
    let mut reader = Reader::open(Handle::reader(memory, socket)).expect("opened");
    reader.poll_descriptor().expect("made");
    for _ in 0..MESSAGES {
        rustix::net::send(&theirs, b"b", rustix::net::SendFlags::NOSIGNAL).expect("sent");
        let error = reader.try_read(&mut [0; 8]).expect_err("it is empty");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    let all = std::fs::read_dir("/proc/self/fd").expect("/proc").flatten();
    let links = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let is_process = |link: &std::path::PathBuf| link.to_string_lossy().contains("pidfd");
    // Other tests have some of their own for a moment.
    assert!(links.filter(is_process).count() < MESSAGES);
}

/// `include/uapi/asm-generic/socket.h`; not all versions of libc have it.
const SO_PASSPIDFD: libc::c_int = 76;

/// The descriptors of an end that was inherited stayed open in every program that its process started.
/// The death of the process was not seen before all these programs had ended.
#[test]
fn an_end_that_was_inherited_is_in_no_program_that_is_started_later() {
    let (writer, _reader) = Handle::stream_pair(&small()).expect("made");
    writer.keep_over_exec().expect("as for a program that opens it");
    let (memory, socket) = writer.into_descriptors();
    let of = |file: &OwnedFd| rustix::fs::fstat(file).map(|found| (found.st_dev, found.st_ino));
    let own = [of(&memory).expect("a file"), of(&socket).expect("a file")];
    let _writer = Writer::open(Handle::writer(memory, socket)).expect("opened");
    let mut other = std::process::Command::new("cat");
    let mut other = other.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
    let all = std::fs::read_dir(format!("/proc/{}/fd", other.id())).expect("/proc").flatten();
    let files = all.filter_map(|entry| std::fs::metadata(entry.path()).ok());
    let kept = files.filter(|file| own.contains(&(file.dev(), file.ino()))).count();
    drop(other.stdin.take());
    other.wait().expect("reaped");
    assert_eq!(kept, 0, "a program that has nothing to do with it has the end");
}

/// A signal with a handler ended the wait for a handle with an error, unless the handler lets the kernel
/// start calls anew.
#[test]
fn a_signal_does_not_end_the_wait_for_a_handle() {
    static CAME: AtomicU32 = AtomicU32::new(0);
    extern "C" fn count(_: i32) {
        CAME.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: all of it is numbers, and a handler of 0 is the usual one.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as *const () as libc::sighandler_t;
    // SAFETY: the action is a live local, and what it calls adds to a number.
    let set = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    assert_eq!(set, 0);
    static WAITING: AtomicI32 = AtomicI32::new(0);
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let waiting = std::thread::spawn(move || {
        WAITING.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
        Handle::receive(&ours).map(drop)
    });
    for signals in 1..=3 {
        common::until("it waits", || {
            let path = format!("/proc/self/task/{}/stat", WAITING.load(Ordering::Relaxed));
            waiting.is_finished()
                || std::fs::read_to_string(path).is_ok_and(|stat| stat.contains(") S "))
        });
        // SAFETY: the thread is not joined yet.
        assert_eq!(unsafe { libc::pthread_kill(waiting.as_pthread_t(), libc::SIGUSR1) }, 0);
        common::until("the signal came", || {
            waiting.is_finished() || CAME.load(Ordering::Relaxed) == signals
        });
    }
    let (_writer, reader) = Handle::stream_pair(&small()).expect("made");
    // Nobody is there any more if the wait has ended.
    let _ = reader.send(&theirs);
    waiting.join().expect("no panic").expect("a handle came");
}
