//! Unfinished messages: their memory is bounded over all writers together, and a writer that holds it
//! does not hold others up for ever (docs/contracts/port.md, 8).

use crate::common;
use crate::common::{alone, patterned, private_bytes};
use crate::words::{FIRST, INLINE_BYTES, Words};
use std::time::{Duration, Instant};
use weir::{Ending, ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions, Timeout};

const MIB: usize = 1 << 20;
const TIME: Duration = Duration::from_millis(20);

fn is_nothing(error: &weir::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

#[test]
fn unfinished_messages_of_all_writers_have_bounded_memory() {
    let _alone = alone();
    let (_directory, name) = common::place();
    let options = PortOptions::new().most_unfinished_bytes(8 << 20).most_message_bytes(4 << 20);
    let mut port = Port::create(&name, &options).expect("a port");
    let mut all: Vec<_> = (0..16).map(|_| Words::enter(&name, &mut port, 64 << 10)).collect();
    let piece = [7; INLINE_BYTES];
    all.iter_mut().for_each(|words| assert!(words.put(FIRST, &piece)));
    let before = private_bytes();
    let mut sent = [0; 16];
    let mut buffer = [0; 4096];
    for _ in 0..400 {
        for (words, sent) in all.iter_mut().zip(&mut sent) {
            while *sent < 3 * MIB && words.put(0, &piece) {
                *sent += INLINE_BYTES;
            }
        }
        let error = port.receive_timeout(&mut buffer, Timeout::Now).expect_err("nothing is whole");
        assert!(is_nothing(&error), "{error}");
    }
    let (sent, grew) = (sent.iter().sum::<usize>(), private_bytes().saturating_sub(before));
    // The limit, one message beyond it, and some other memory.
    assert!(grew < 15 * MIB, "{grew} bytes for {sent}");
    assert!(sent > 8 * MIB, "{sent} bytes were taken");
}

/// Many writers send long messages at once, with memory for a part of one. Each comes whole.
#[test]
fn long_messages_of_many_honest_writers_all_come() {
    let _alone = alone();
    let (_directory, name) = common::place();
    let options = PortOptions::new().most_unfinished_bytes(256 << 10);
    let mut port = Port::create(&name, &options).expect("a port");
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let name = name.clone();
            std::thread::spawn(move || {
                let options = PortWriterOptions::new().capacity_bytes(64 << 10);
                let mut writer = PortWriter::connect(&name, &options).expect("a writer");
                for round in 0..4 {
                    writer.send(&patterned(MIB, number * 10 + round)).expect("sent");
                }
            })
        })
        .collect();
    let (mut came, mut closed) = (Vec::new(), 0);
    let mut buffer = vec![0; 64];
    while closed < 6 {
        match port.receive_timeout(&mut buffer, Duration::from_secs(20)) {
            Ok(received) => match received.event {
                Event::Message { bytes } => {
                    assert_eq!(bytes, MIB);
                    let starts = |seed: &usize| buffer[..4096] == patterned(4096, *seed)[..];
                    let seed = (0..60).find(starts).expect("one that was sent");
                    assert!(buffer[..bytes] == patterned(MIB, seed)[..], "message {seed} is torn");
                    came.push(seed);
                    // The next is again longer than the buffer.
                    buffer = vec![0; 64];
                }
                event => {
                    assert_eq!(event, Event::Closed(Ending::Closed));
                    closed += 1;
                }
            },
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TooSmall, "{error}");
                buffer.resize(error.needed_bytes().unwrap_or_default(), 0);
            }
        }
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    came.sort();
    let all: Vec<_> =
        (0..6).flat_map(|number| (0..4).map(move |round| number * 10 + round)).collect();
    assert_eq!(came, all);
}

/// A writer that leaves its message unfinished while others wait for the memory is shut out.
#[test]
fn who_never_finishes_is_shut_out_and_others_continue() {
    let _alone = alone();
    let (_directory, name) = common::place();
    let options = PortOptions::new().most_unfinished_bytes(64 << 10);
    let mut port = Port::create(&name, &options).expect("a port");
    let mut all: Vec<_> = (0..4).map(|_| Words::enter(&name, &mut port, 64 << 10)).collect();
    let mut buffer = vec![0; 2 * MIB];
    for words in &mut all {
        assert!(words.put(FIRST, &[1; INLINE_BYTES]));
        (0..30).for_each(|_| _ = words.put(0, &[2; INLINE_BYTES]));
    }
    let error = port.receive_timeout(&mut buffer, TIME).expect_err("nothing is whole");
    assert!(is_nothing(&error), "{error}");
    let sending = std::thread::spawn(move || {
        let options = PortWriterOptions::new().capacity_bytes(64 << 10);
        let mut writer = PortWriter::connect(&name, &options).expect("a writer");
        writer.send(&patterned(MIB, 3)).expect("sent");
    });
    let (mut ends, begun) = (Vec::new(), Instant::now());
    let came = loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "it comes; {ends:?}");
        match port.receive_timeout(&mut buffer, TIME).map(|received| received.event) {
            Ok(Event::Message { bytes }) => break bytes,
            Ok(Event::Closed(ending)) => ends.push(ending),
            other => assert!(other.as_ref().is_err_and(is_nothing), "{other:?}"),
        }
    };
    assert_eq!(&buffer[..came], &patterned(MIB, 3)[..]);
    assert!(!ends.is_empty() && ends.iter().all(|ending| *ending == Ending::ShutOut), "{ends:?}");
    sending.join().expect("no panic");
}

/// The end of any writer, also of one that had left nothing unfinished, began the five seconds anew. Where
/// writers came and went, one that was stuck held others up for ever.
#[test]
fn who_never_finishes_is_shut_out_while_others_come_and_go() {
    let (_directory, name) = common::place();
    let options = PortOptions::new().most_unfinished_bytes(64 << 10);
    let mut port = Port::create(&name, &options).expect("a port");
    let mut stuck = Words::enter(&name, &mut port, 64 << 10);
    let mut buffer = vec![0; 2 * MIB];
    assert!(stuck.put(FIRST, &[1; INLINE_BYTES]));
    (0..30).for_each(|_| assert!(stuck.put(0, &[2; INLINE_BYTES])));
    let error = port.receive_timeout(&mut buffer, TIME).expect_err("nothing is whole");
    assert!(is_nothing(&error), "{error}");
    let theirs = name.clone();
    let sending = std::thread::spawn(move || {
        let options = PortWriterOptions::new().capacity_bytes(64 << 10);
        let mut writer = PortWriter::connect(&theirs, &options).expect("a writer");
        writer.send(&patterned(MIB, 3)).expect("sent");
    });
    let (mut ends, mut came, begun) = (Vec::new(), false, Instant::now());
    while !came {
        assert!(begun.elapsed() < Duration::from_secs(30), "it comes; {ends:?}");
        let mut brief = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
        brief.send(b"brief").expect("sent");
        drop(brief);
        while let Ok(received) = port.receive_timeout(&mut buffer, TIME) {
            match received.event {
                Event::Message { bytes } => came |= bytes == MIB,
                Event::Closed(ending) => ends.push(ending),
                event => panic!("{event:?}"),
            }
        }
    }
    assert_eq!(ends.iter().filter(|ending| **ending == Ending::ShutOut).count(), 1);
    sending.join().expect("no panic");
}

/// Its `Closed` waited for the memory as well, for which it had no use any more.
#[test]
fn a_writer_that_waits_for_memory_can_be_shut_out() {
    let (_directory, name) = common::place();
    let options = PortOptions::new().most_unfinished_bytes(1);
    let mut port = Port::create(&name, &options).expect("a port");
    let mut one = Words::enter(&name, &mut port, 64 << 10);
    let mut buffer = [0; 2048];
    let nothing = |port: &mut Port, buffer: &mut [u8]| {
        let error = port.receive_timeout(buffer, TIME).expect_err("nothing is whole");
        assert!(is_nothing(&error), "{error}");
    };
    assert!(one.put(FIRST, &[1; INLINE_BYTES]));
    nothing(&mut port, &mut buffer);
    let mut other = Words::enter(&name, &mut port, 64 << 10);
    assert!(other.put(FIRST, &[2; INLINE_BYTES]));
    nothing(&mut port, &mut buffer);
    let id = port.writers().expect("mine")[1].id;
    port.shut_out(id).expect("there");
    let received = port.receive_timeout(&mut buffer, TIME).expect("its end comes next");
    assert_eq!((received.writer, received.event), (id, Event::Closed(Ending::ShutOut)));
}
