//! kill -9 of either side at random moments under load: the other side learns of it, everything
//! that a returned write wrote is there, nothing is doubled or torn, and nothing is left behind.
//!
//! `WEIR_KILLS=100000` for more (`just torture`).

mod common;

use common::{Random, alone, body, hear, kill, kills, last_said, receive_handle, say, start};
use std::os::fd::AsFd;
use std::time::Duration;
use weir::{ErrorKind, Handle, Options, Reader, RecordReader, RecordWriter, Writer};

fn options() -> Options {
    Options::new().capacity_bytes(16_384)
}

fn check(number: u64, bytes: &[u8]) {
    assert!(bytes == body(number), "number {number} is torn or another");
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let input = std::io::stdin();
    match role.as_str() {
        "stream-writer" => {
            let mut writer = Writer::open(receive_handle()).expect("opened");
            for number in 0.. {
                writer.write(&body(number)).expect("written");
                // Reported only after the write has returned.
                say(&input, &number.to_le_bytes());
            }
        }
        "record-writer" => {
            let mut writer = RecordWriter::open(receive_handle()).expect("opened");
            for number in 0.. {
                writer.send(&body(number)).expect("sent");
                say(&input, &number.to_le_bytes());
            }
        }
        "polled-writer" => {
            let mut writer = Writer::open(receive_handle()).expect("opened");
            writer.poll_descriptor().expect("made");
            while writer.try_write(&[7; 512]).is_ok() {}
            say(&input, b"full");
            hear(&input);
            writer.resize(65_536).expect("resized");
            writer.write(b"in the next memory").expect("written");
            say(&input, b"written");
            hear(&input);
        }
        "stream-reader" => {
            let mut reader = Reader::open(receive_handle()).expect("opened");
            say(&input, b"up");
            while reader.read(&mut [0; 5000]).expect("read") > 0 {}
        }
        "record-reader" => {
            let mut reader = RecordReader::open(receive_handle()).expect("opened");
            say(&input, b"up");
            while reader.receive(&mut [0; 5000]).expect("received").is_some() {}
        }
        _ => panic!("no such role"),
    }
}

/// Reads `first` numbers, kills the writer, and reads the rest. Returns how many there were.
fn drain(first: u64, mut next: impl FnMut(u64) -> bool, mut kill_it: impl FnMut()) -> u64 {
    let mut number = 0;
    while number < first && next(number) {
        number += 1;
    }
    kill_it();
    while next(number) {
        number += 1;
    }
    number
}

/// Reads one numbered write of a stream. Returns false at the end, where a write that had not
/// returned may be cut short.
fn next_of_stream(reader: &mut Reader, number: u64) -> bool {
    let wanted = body(number);
    let (mut got, mut buffer) = (Vec::new(), vec![0; wanted.len()]);
    while got.len() < wanted.len() {
        match reader.read(&mut buffer[..wanted.len() - got.len()]).expect("read") {
            0 => break,
            count => got.extend_from_slice(&buffer[..count]),
        }
    }
    assert!(wanted.starts_with(&got), "number {number} is torn or another");
    got.len() == wanted.len()
}

fn listen(socket: std::os::fd::OwnedFd) -> std::thread::JoinHandle<Option<u64>> {
    // Each report is read at once, since the socket holds little.
    std::thread::spawn(move || last_said(&socket))
}

#[test]
fn a_killed_writer_loses_no_returned_write() {
    let _alone = alone();
    let mut random = Random(0x5eed_0001);
    for round in 0..kills(1000) / 4 {
        let first = random.below(400);
        let (writer, reader) = Handle::stream_pair(&options()).expect("a pipe");
        let (mut child, socket) = start("stream-writer");
        writer.send(socket.as_fd()).expect("sent");
        let said = listen(socket);
        let mut reader = Reader::open(reader).expect("opened");
        let next = |number| next_of_stream(&mut reader, number);
        let got = drain(first, next, || kill(&mut child));
        let said = said.join().expect("no panic").map_or(0, |number| number + 1);
        assert!(got >= said, "round {round}: {said} writes returned, {got} arrived");
    }
    nothing_is_left_behind();
}

/// The kernel tells once that such a writer had not taken what was sent to it: here, that there is
/// room. The reader took that for the end of what comes, and its pipe's next memory was lost.
#[test]
fn a_writer_killed_before_it_heard_of_room_loses_no_memory() {
    let _alone = alone();
    let (writer, reader) = Handle::stream_pair(&options()).expect("a pipe");
    let (mut child, socket) = start("polled-writer");
    writer.send(socket.as_fd()).expect("sent");
    let mut reader = Reader::open(reader).expect("opened");
    assert_eq!(hear(&socket), b"full");
    let mut buffer = vec![0; 16_384];
    assert_eq!(reader.read(&mut buffer).expect("read"), 16_384);
    say(&socket, b"go on");
    assert_eq!(hear(&socket), b"written");
    kill(&mut child);
    let count = reader.read(&mut buffer).expect("it came");
    assert_eq!(&buffer[..count], b"in the next memory");
    assert_eq!(reader.read(&mut buffer).expect("the end"), 0);
    drop(reader);
    nothing_is_left_behind();
}

#[test]
fn a_killed_writer_loses_no_returned_record() {
    let _alone = alone();
    let mut random = Random(0x5eed_0002);
    let mut buffer = vec![0; 5000];
    for round in 0..kills(1000) / 4 {
        let first = random.below(400);
        let (writer, reader) = Handle::record_pair(&options()).expect("a pipe");
        let (mut child, socket) = start("record-writer");
        writer.send(socket.as_fd()).expect("sent");
        let said = listen(socket);
        let mut reader = RecordReader::open(reader).expect("opened");
        let next = |number| match reader.receive(&mut buffer).expect("received") {
            Some(count) => {
                check(number, &buffer[..count]);
                true
            }
            None => false,
        };
        let got = drain(first, next, || kill(&mut child));
        let said = said.join().expect("no panic").map_or(0, |number| number + 1);
        assert!(got >= said, "round {round}: {said} sends returned, {got} arrived");
    }
    nothing_is_left_behind();
}

#[test]
fn the_writer_learns_that_its_reader_was_killed() {
    let _alone = alone();
    let mut random = Random(0x5eed_0003);
    for _ in 0..kills(1000) / 4 {
        let (writer, reader) = Handle::stream_pair(&options()).expect("a pipe");
        let (mut child, socket) = start("stream-reader");
        reader.send(socket.as_fd()).expect("sent");
        assert_eq!(hear(&socket), b"up");
        let mut writer = Writer::open(writer).expect("opened");
        let killer = kill_after(random.below(300), &child);
        let error = (0..).find_map(|number| writer.write(&body(number)).err()).expect("closed");
        assert_eq!(error.kind(), ErrorKind::Closed);
        killer(&mut child);
    }
    nothing_is_left_behind();
}

#[test]
fn the_sender_learns_that_its_reader_was_killed() {
    let _alone = alone();
    let mut random = Random(0x5eed_0004);
    for _ in 0..kills(1000) / 4 {
        let (writer, reader) = Handle::record_pair(&options()).expect("a pipe");
        let (mut child, socket) = start("record-reader");
        reader.send(socket.as_fd()).expect("sent");
        assert_eq!(hear(&socket), b"up");
        let mut writer = RecordWriter::open(writer).expect("opened");
        let killer = kill_after(random.below(300), &child);
        let error = (0..).find_map(|number| writer.send(&body(number)).err()).expect("closed");
        assert_eq!(error.kind(), ErrorKind::Closed);
        killer(&mut child);
    }
    nothing_is_left_behind();
}

/// Kills the process this many microseconds from now, from another thread. Returns what waits for
/// it.
fn kill_after(
    us: u64,
    child: &std::process::Child,
) -> impl FnOnce(&mut std::process::Child) + use<> {
    let pid = rustix::process::Pid::from_child(child);
    let killing = std::thread::spawn(move || {
        // sleep: the instant of the kill is the test's input.
        std::thread::sleep(Duration::from_micros(us));
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    });
    move |child| {
        killing.join().expect("no panic");
        child.wait().expect("reaped");
    }
}

/// Checks that no descriptor and no mapping of a pipe is left in this process, which had the
/// survivors.
fn nothing_is_left_behind() {
    common::until("all ends are gone", || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let descriptors = std::fs::read_dir("/proc/self/fd").expect("descriptors");
        let links = descriptors.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        !maps.contains("memfd:weir")
            && links.filter(|to| to.starts_with("/memfd:weir")).count() == 0
    });
}
