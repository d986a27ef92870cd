//! A peer that writes anything anywhere: the other end gets wrong bytes or an error, and continues.

use crate::common::Random;
use crate::raw;
use rustix::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir::{
    ErrorKind, Handle, Options, Pool, PoolOptions, Reader, RecordReader, RecordWriter, Timeout,
    Writer,
};

/// Rounds of each test; each is a hundred calls beside a peer that scribbles.
const ROUNDS: u64 = 40;
const CALLS: u64 = 100;

fn options() -> Options {
    Options::new().capacity_bytes(8192)
}

/// Writes random words, and words that are nearly right, over the memory; rings the doorbell, and
/// fills the socket, until it is stopped.
fn scribble(memory: &OwnedFd, socket: &OwnedFd, seed: u64, stop: &AtomicBool) {
    let mut random = Random(seed | 1);
    let bytes = rustix::fs::fstat(memory).expect("known").st_size as u64;
    while !stop.load(Ordering::Relaxed) {
        // Half of the writes hit the header, where the protocol's words are.
        let at = if random.below(2) == 0 { random.below(128) * 8 } else { random.below(bytes - 8) };
        let word = match random.below(6) {
            0 => random.below(u64::MAX),
            1 => random.below(20_000),
            2 => 0,
            3 => 8192 * random.below(4),
            4 => 0x8000_0000 | random.below(2000),
            _ => 0xC000_0000 | random.below(9000),
        };
        rustix::io::pwrite(memory, &word.to_le_bytes(), at).expect("scribbled");
        if random.below(50) == 0 {
            let _ = rustix::net::send(socket, b"bbbb", rustix::net::SendFlags::DONTWAIT);
            let _ = rustix::fs::fcntl_setfl(socket, rustix::fs::OFlags::empty());
        }
        assert!(rustix::fs::ftruncate(memory, 0).is_err(), "sealed");
    }
}

/// Stops the scribbler even if a call failed, because the scope waits for it.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes calls of an honest end beside a scribbler. Each must return in time.
fn beside(
    pair: impl Fn() -> (Handle, Handle),
    hostile_writes: bool,
    mut call: impl FnMut(Handle, &mut Random, &mut dyn FnMut(&str, Instant)),
) {
    for round in 0..ROUNDS {
        let (writer, reader) = pair();
        let (hostile, honest) = if hostile_writes { (writer, reader) } else { (reader, writer) };
        let (memory, socket) = hostile.into_descriptors();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stops = Stops(&stop);
            scope.spawn(|| scribble(&memory, &socket, round * 7919 + 13, &stop));
            let mut in_time = |what: &str, begun: Instant| {
                assert!(begun.elapsed() < Duration::from_secs(5), "{what} hung");
            };
            call(honest, &mut Random(round + 1), &mut in_time);
        });
    }
}

const TIME: Duration = Duration::from_millis(1);

fn is_expected(kind: ErrorKind) {
    use ErrorKind::{Closed, Corrupt, Invalid, TimedOut, TooSmall, WouldBlock};
    assert!(matches!(kind, Closed | Corrupt | Invalid | TimedOut | TooSmall | WouldBlock));
}

/// Reads of random lengths. Some of them wait.
fn reads(
    random: &mut Random,
    in_time: &mut dyn FnMut(&str, Instant),
    mut read: impl FnMut(&mut [u8], bool) -> weir::Result<usize>,
) {
    let mut buffer = vec![0; 9000];
    for _ in 0..CALLS {
        let (begun, count) = (Instant::now(), random.below(9000) as usize);
        let read = read(&mut buffer[..count], random.below(2) != 0);
        in_time("a read", begun);
        read.map_or_else(|error| is_expected(error.kind()), drop);
    }
}

#[test]
fn a_reader_of_a_stream_survives() {
    let pair = || Handle::stream_pair(&options()).expect("a pipe");
    beside(pair, true, |honest, random, in_time| {
        let Ok(mut reader) = Reader::open(honest) else { return };
        let _ = reader.poll_descriptor();
        reads(random, in_time, |buffer, waits| {
            let _ = reader.available();
            if waits { reader.read_timeout(buffer, TIME) } else { reader.try_read(buffer) }
        });
    });
}

#[test]
fn an_elastic_reader_survives() {
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20)).expect("a pool");
    let pair = || Handle::stream_pair(&options()).expect("a pipe");
    beside(pair, true, |honest, random, in_time| {
        let Ok(reader) = Reader::open(honest) else { return };
        let Ok(mut reader) = reader.elastic(&pool) else { return };
        reads(random, in_time, |buffer, waits| {
            let _ = reader.available();
            if waits { reader.read_timeout(buffer, TIME) } else { reader.try_read(buffer) }
        });
        let begun = Instant::now();
        drop(reader);
        in_time("the end", begun);
    });
}

#[test]
fn a_writer_of_a_stream_survives() {
    let pair = || Handle::stream_pair(&options()).expect("a pipe");
    beside(pair, false, |honest, random, in_time| {
        let Ok(mut writer) = Writer::open(honest) else { return };
        let _ = writer.poll_descriptor();
        let bytes = vec![7; 9000];
        for _ in 0..CALLS {
            let (begun, count) = (Instant::now(), random.below(9000) as usize);
            let written = match random.below(3) {
                0 => writer.try_write(&bytes[..count]),
                1 => writer.write_timeout(&bytes[..count], TIME),
                _ => writer.resize(1 + random.below(60_000)).map(|()| 0),
            };
            in_time("a write", begun);
            written.map_or_else(|error| is_expected(error.kind()), drop);
        }
    });
}

#[test]
fn a_reader_of_records_survives() {
    let pair = || Handle::record_pair(&options()).expect("a pipe");
    beside(pair, true, |honest, random, in_time| {
        let Ok(mut reader) = RecordReader::open(honest) else { return };
        let mut buffer = vec![0; 9000];
        for _ in 0..CALLS {
            let begun = Instant::now();
            let received = match random.below(3) {
                0 => reader.try_receive(&mut buffer).map(drop),
                1 => reader.receive_timeout(&mut buffer, TIME).map(drop),
                _ => match reader.lend_timeout(Timeout::Now) {
                    Ok(Some(mut loan)) => {
                        let count = loan.len().min(buffer.len());
                        loan.view().expect("here").copy_to(0, &mut buffer[..count]);
                        loan.consume()
                    }
                    Ok(None) => Ok(()),
                    Err(error) => Err(error),
                },
            };
            in_time("a receive", begun);
            received.unwrap_or_else(|error| is_expected(error.kind()));
        }
    });
}

#[test]
fn a_writer_of_records_survives() {
    let pair = || Handle::record_pair(&options()).expect("a pipe");
    beside(pair, false, |honest, random, in_time| {
        let Ok(mut writer) = RecordWriter::open(honest) else { return };
        let bytes = vec![7; 9000];
        for _ in 0..CALLS {
            let (begun, count) = (Instant::now(), random.below(9000) as usize);
            let sent = match random.below(3) {
                0 => writer.try_send(&bytes[..count]),
                1 => writer.send_timeout(&bytes[..count], TIME),
                _ => writer.reserve_timeout(count, Timeout::Now).and_then(|mut place| {
                    place.view()?.copy_from(count / 2, &bytes[..count / 3]);
                    if count.is_multiple_of(2) { place.commit() } else { Ok(()) }
                }),
            };
            in_time("a send", begun);
            sent.unwrap_or_else(|error| is_expected(error.kind()));
        }
    });
}

#[test]
fn no_wait_outlives_the_peer_whoever_scribbles_on() {
    for _ in 0..5 {
        let (writer, reader) = Handle::stream_pair(&options()).expect("a pipe");
        let (memory, socket) = writer.into_descriptors();
        let mut reader = Reader::open(reader).expect("opened");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // The word on which the reader sleeps is set to the expected value again and again.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    rustix::io::pwrite(&memory, &1_u32.to_le_bytes(), 3 * 128).expect("written");
                }
            });
            let reading = scope.spawn(|| reader.read(&mut [0; 10]).map_err(|error| error.kind()));
            drop(socket);
            let begun = Instant::now();
            let ended = reading.join().expect("no panic");
            stop.store(true, Ordering::Relaxed);
            assert_eq!(ended, Ok(0));
            assert!(begun.elapsed() < Duration::from_secs(5));
        });
    }
}

/// The wait tells which end it is, and continues with the others.
#[test]
fn a_corrupt_end_holds_up_no_other_in_a_wait() {
    let (mut honest, reader) = weir::pipe(&options()).expect("a pipe");
    let (_other, records) = Handle::record_pair(&options()).expect("a pipe");
    let (writer, spoilt) = Handle::stream_pair(&options()).expect("a pipe");
    let (memory, _socket) = writer.into_descriptors();
    let mut wait = weir::Wait::new();
    let records = wait.add(0, RecordReader::open(records).expect("opened")).expect("few");
    let spoilt = wait.add(1, Reader::open(spoilt).expect("opened")).expect("few");
    let reader = wait.add(2, reader).expect("few");
    let mut ready = Vec::new();
    wait.wait_timeout(&mut ready, Duration::from_millis(1)).expect_err("nothing came");
    // The position of the writer, in its line: more than the ring holds.
    rustix::io::pwrite(&memory, &(1_u64 << 40).to_ne_bytes(), 128).expect("written");
    honest.write(b"comes").expect("written");
    wait.wait_timeout(&mut ready, Duration::from_secs(20)).expect("two are ready");
    assert_eq!(ready, [1, 2]);
    assert_eq!(wait[reader].read(&mut [0; 10]).expect("read"), 5);
    let error = wait[spoilt].read(&mut [0; 10]).expect_err("corrupt");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    wait.wait_timeout(&mut ready, Duration::from_secs(20)).expect("it is told again");
    assert_eq!(ready, [1]);
    drop(wait.remove(spoilt));
    honest.write(b"more").expect("written");
    wait.wait_timeout(&mut ready, Duration::from_secs(20)).expect("the other goes on");
    assert_eq!(ready, [2]);
    assert_eq!(
        wait[records].try_receive(&mut [0; 10]).expect_err("none").kind(),
        ErrorKind::WouldBlock
    );
}

#[test]
fn what_comes_in_place_of_the_next_memory_is_refused() {
    let (writer, reader) = Handle::stream_pair(&options()).expect("a pipe");
    let (memory, socket) = writer.into_descriptors();
    let mut reader = Reader::open(reader).expect("opened");
    let other = tempfile::tempfile().expect("a file");
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = rustix::net::SendAncillaryBuffer::new(&mut space);
    let files = [other.as_fd()];
    assert!(ancillary.push(rustix::net::SendAncillaryMessage::ScmRights(&files)));
    let text = [std::io::IoSlice::new(b"m")];
    let flags = rustix::net::SendFlags::empty();
    rustix::net::sendmsg(&socket, &text, &mut ancillary, flags).expect("sent");
    // The word that announces another memory: in the writer's line, after two positions.
    rustix::io::pwrite(&memory, &1_u64.to_le_bytes(), 128 + 16).expect("written");
    let error = reader.read(&mut [0; 10]).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("not a file that can be sealed"), "{error}");
}

/// A writer sends as the next memory what does not follow. Some of it was an error of a call that
/// the reader had not made, and a reader that had refused a memory continued in it.
#[test]
fn a_memory_that_does_not_follow_is_corrupt_and_is_not_gone_to() {
    use std::mem::offset_of;
    use weir_ring::layout::PipeHeader;
    let set = |memory: &OwnedFd, at: usize, value: u64| {
        rustix::io::pwrite(memory, &value.to_ne_bytes(), at as u64).expect("written");
    };
    let generation = offset_of!(PipeHeader, fixed.generation);
    let (written, read) =
        (offset_of!(PipeHeader, writer.position), offset_of!(PipeHeader, reader.position));
    let stream = || Handle::stream_pair(&options()).expect("a pipe").0.into_descriptors().0;
    let (other_kind, taken, elsewhere, beyond) = (
        Handle::record_pair(&options()).expect("a pipe").0.into_descriptors().0,
        Handle::stream_pair(&options()).expect("a pipe").1,
        stream(),
        stream(),
    );
    let (taken, socket) = taken.into_descriptors();
    let copy = taken.try_clone().expect("a copy");
    let _other = Reader::open(Handle::reader(copy, socket)).expect("opened");
    for (at, value) in [(written, 5000), (read, 4096)] {
        set(&elsewhere, at, value);
    }
    for (at, value) in [(written, 100), (read, 5000)] {
        set(&beyond, at, value);
    }
    let all = [(other_kind, 1), (taken, 1), (elsewhere, 1), (beyond, 1), (stream(), 2)];
    for (at, (next, number)) in all.iter().enumerate() {
        set(next, generation, *number);
        let (writer, reader) = Handle::stream_pair(&options()).expect("a pipe");
        let (memory, socket) = writer.into_descriptors();
        let mut reader = Reader::open(reader).expect("opened");
        raw::send(socket.as_fd(), b"m", &[next.as_fd()]);
        set(&memory, offset_of!(PipeHeader, writer.moved), 1);
        for _ in 0..2 {
            let error = reader.read_timeout(&mut [0; 10], TIME).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{at}: {error}");
            assert!(error.to_string().starts_with("cannot read from the pipe: "), "{at}: {error}");
        }
        // What cannot be the next memory is not handed on in its place.
        let (handed_on, _) = reader.into_handle().expect("here").into_descriptors();
        let inode = |file: &OwnedFd| rustix::fs::fstat(file).expect("known").st_ino;
        assert!((1..4).contains(&at) || inode(&handed_on) == inode(&memory), "{at}");
    }
}

/// Memory whose maker chose nearly the last number: the one after the last one overflowed.
#[test]
fn memories_cannot_be_numbered_beyond_the_last_number() {
    use std::mem::offset_of;
    use weir_ring::layout::PipeHeader;
    let (writer, _reader) = Handle::stream_pair(&options()).expect("a pipe");
    let (memory, socket) = writer.into_descriptors();
    let number = offset_of!(PipeHeader, fixed.generation) as u64;
    rustix::io::pwrite(&memory, &(u64::MAX - 1).to_ne_bytes(), number).expect("written");
    // Its reader follows.
    let pid = offset_of!(PipeHeader, reader_account.pid) as u64;
    rustix::io::pwrite(&memory, &1_u32.to_ne_bytes(), pid).expect("written");
    let mut writer = Writer::open(Handle::writer(memory, socket)).expect("opened");
    let error = writer.resize(16_384).expect_err("there is no further number");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    writer.try_write(b"it goes on").expect("written");
}

#[test]
fn what_is_no_handle_is_refused_as_such() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("made");
    let file = OwnedFd::from(std::fs::File::open("/dev/null").expect("opened"));
    for count in [0, 1, 2, 3, 5] {
        let files = vec![file.as_fd(); count];
        for (text, is_of_port) in [("weir-writer", false), ("weir-port-handle", true)] {
            raw::send(theirs.as_fd(), text.as_bytes(), &files);
            let error = match is_of_port {
                false => Handle::receive(&ours).map(drop),
                true => weir::PortHandle::receive(&ours).map(drop),
            };
            // Two descriptors of any kind are a handle, until it is opened.
            let Err(error) = error else { continue };
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{count} descriptors: {error}");
        }
    }
}
