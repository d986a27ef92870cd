//! Writers that overwrite their own rings, the board that all share, and their sockets. The
//! reader and the other writers continue (docs/contracts/port.md, 19).

use crate::common;
use crate::common::{Random, place, say};
use crate::raw::{dial, send};
use crate::words::{Words, words_of};
use rustix::fd::AsFd;
use rustix::net::SendFlags;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir::{
    Ending, ErrorKind, Event, Handle, Options, Port, PortOptions, PortWriter, PortWriterOptions,
    Timeout, Waiting,
};

/// Writes random words, and words that are almost valid.
fn scribble(words: &weir_sys::words::Words, random: &mut Random, from: u64) {
    let at = from / 8 + random.below(words.len() as u64 - from / 8);
    let word = match random.below(6) {
        0 => random.below(u64::MAX),
        1 => random.below(20_000),
        2 => 0,
        3 => u64::MAX,
        4 => 0x8000_0000 | random.below(2000) | (1 << 32) | (3 << 40),
        _ => 0xC000_0000 | random.below(9000),
    };
    words.word(at as usize).store(word, Ordering::Relaxed);
}

/// A hundred messages of an honest writer come, each within many times the delay that a hostile one
/// can cause by the contract.
fn honest_messages_come(port: &mut Port, honest: &mut PortWriter, rounds: u32) {
    let own = std::process::id();
    let mut buffer = vec![0; 1 << 16];
    for number in 0..rounds {
        let text = format!("honest {own} {number}");
        honest.send(text.as_bytes()).expect("sent");
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < Duration::from_secs(5), "message {number} was held up");
            match port.receive_timeout(&mut buffer, Duration::from_millis(500)) {
                Ok(received) => {
                    let Event::Message { bytes } = received.event else { continue };
                    if buffer[..bytes] == *text.as_bytes() {
                        break;
                    }
                }
                Err(error) => {
                    let kind = error.kind();
                    assert!(matches!(kind, ErrorKind::TimedOut | ErrorKind::TooSmall), "{error}");
                    if kind == ErrorKind::TooSmall {
                        buffer.resize(error.needed_bytes().unwrap_or_default(), 0);
                    }
                }
            }
        }
    }
}

#[test]
fn one_that_scribbles_over_its_ring_holds_up_nobody() {
    let (_directory, name) = place();
    let options = PortOptions::new().most_message_bytes(1 << 20);
    let mut port = Port::create(&name, &options).expect("a port");
    let mut honest = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
    for seed in 1..40 {
        let hostile = Words::enter(&name, &mut port, 8192);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(seed * 7919);
                while !stop.load(Ordering::Relaxed) {
                    scribble(&hostile.mapped, &mut random, 128);
                    if random.below(50) == 0 {
                        let text = [b"bell".as_slice(), b"weir-in 7 0 0", b"weir-no because"];
                        let text = text[random.below(3) as usize];
                        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                        let _ = rustix::net::send(&hostile.socket, text, flags);
                    }
                }
            });
            honest_messages_come(&mut port, &mut honest, 20);
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn one_that_spoils_the_board_holds_up_nobody_for_long() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut honest = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
    let hostile = Words::enter(&name, &mut port, 8192);
    let board = hostile.board.as_ref().expect("the board");
    assert!(rustix::fs::ftruncate(board, 0).is_err(), "sealed");
    let board = words_of(board);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(4711);
            while !stop.load(Ordering::Relaxed) {
                // Mostly it clears all bits, and the word that says that the reader sleeps.
                if random.below(4) == 0 {
                    scribble(&board, &mut random, 256);
                } else {
                    (32..512).for_each(|at| board.word(at).store(0, Ordering::Relaxed));
                }
            }
        });
        honest_messages_come(&mut port, &mut honest, 30);
        stop.store(true, Ordering::Relaxed);
    });
}

/// Only a sleep of a tenth of a second was followed by a look at all rings. One who waits for shorter
/// times found what was hidden seconds later, and one who spins never.
#[test]
fn all_rings_are_looked_at_however_their_reader_waits() {
    let (soon, mut late) = (Duration::from_secs(1), Vec::new());
    for waiting in [Waiting::Adaptive, Waiting::Spin] {
        let (_directory, name) = place();
        let mut port = Port::create(&name, &PortOptions::new().waiting(waiting)).expect("a port");
        let mut honest = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
        let mut busy = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
        let hostile = Words::enter(&name, &mut port, 8192);
        let board = words_of(hostile.board.as_ref().expect("the board"));
        let mut buffer = [0; 64];
        // Looks that find nothing in the rings of the others.
        for _ in 0..200 {
            busy.send(b"seen").expect("room");
            port.receive(&mut buffer).expect("received");
            port.receive_timeout(&mut buffer, Timeout::Now).expect_err("that was all");
        }
        honest.send(b"hidden").expect("room");
        assert!((32..512).any(|at| board.word(at).load(Ordering::Relaxed) != 0), "it set its bit");
        (32..512).for_each(|at| board.word(at).store(0, Ordering::Relaxed));
        let begun = Instant::now();
        let most = if waiting == Waiting::Spin { soon } else { Duration::from_millis(40) };
        let mut is_found = false;
        while !is_found && begun.elapsed() < soon {
            is_found = port.receive_timeout(&mut buffer, most).is_ok();
        }
        late.extend((!is_found).then_some(format!("{waiting:?}")));
    }
    assert!(late.is_empty(), "{late:?}");
}

/// A writer with an invalid header is shut out, once, and hears of it.
#[test]
fn nonsense_shuts_its_writer_out() {
    let (_directory, name) = place();
    let options = PortOptions::new().most_message_bytes(500);
    let mut port = Port::create(&name, &options).expect("a port");
    // At the beginning of the ring, after the header page: the word of a record and its header.
    let page = rustix::param::page_size();
    let record =
        |bytes: u64, header| u64::from(u32::from_le_bytes(header)) << 32 | 0x8000_0000 | bytes;
    let nonsense = [
        record(8, [0, 3, 0, 0]),
        record(8, [2, 3, 0, 0]),
        record(8, [1, 7, 0, 0]),
        record(8, [1, 3, 1, 0]),
        record(8, [1, 2, 0, 0]),
        record(600, [1, 3, 0, 0]),
        record(600, [1, 1, 0, 0]),
        0x4000_0008,
    ];
    for word in nonsense {
        let hostile = Words::enter(&name, &mut port, 8192);
        hostile.mapped.word(page / 8).store(word, Ordering::Relaxed);
        let received =
            port.receive_timeout(&mut [0; 1024], Duration::from_secs(10)).expect("an end");
        assert_eq!(received.event, Event::Closed(Ending::ShutOut), "{word:#x}");
        assert_eq!(port.writers().expect("mine").len(), 0);
        say(&hostile.socket, b"b");
    }
    let mut honest = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
    honest_messages_come(&mut port, &mut honest, 1);
}

/// Memory that is not a ring, or not sealed, is refused before it is used.
#[test]
fn memory_that_is_not_a_ring_is_refused() {
    let (directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let plain = std::fs::File::create(directory.path().join("plain")).expect("a file");
    plain.set_len(1 << 20).expect("long");
    let stream = Handle::stream_pair(&Options::new()).expect("a pipe").0.into_descriptors().0;
    let records = Handle::record_pair(&Options::new()).expect("a pipe").0.into_descriptors().0;
    for memory in [plain.into(), stream, records] {
        let socket = dial(&name);
        send(socket.as_fd(), b"weir-port", &[memory.as_fd()]);
        assert!(port.receive_timeout(&mut [0; 8], Duration::from_millis(20)).is_err());
        assert_eq!(common::hear(&socket), b"weir-no its reader received no valid ring");
    }
}
