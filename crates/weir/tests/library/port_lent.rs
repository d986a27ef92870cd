//! Messages shown in place, in their writer's ring.

use crate::common;
use crate::common::place;
use crate::words;
use std::io::Read;
use std::os::fd::AsFd;
use weir::{Event, Lent, Port, PortOptions, PortWriter, PortWriterOptions, Timeout};

#[test]
fn messages_are_shown_in_place_and_written_on_from_there() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let options = PortWriterOptions::new().capacity_bytes(16 << 10).piece_bytes(2048);
    let mut writer = PortWriter::connect(&name, &options).expect("a writer");
    let (mut from, to) = std::io::pipe().expect("a pipe");
    for message in [&b"head and payload"[..], b"", &[7; 2048]] {
        writer.send(message).expect("sent");
    }
    let mut seen = Vec::new();
    let mut buffer = [0; 8192];
    while seen.len() < 3 {
        let shown = port.lend_each_timeout(&mut buffer, Timeout::Never, |received, lent| {
            assert!(matches!(lent, Lent::InPlace(_)), "it came in one piece");
            let mut start = [0; 4];
            if lent.len() >= 4 {
                lent.copy_to(0, &mut start);
                let went = lent.write_to(to.as_fd(), b"<head>", 2, lent.len() - 2);
                assert_eq!(went.expect("written"), 6 + lent.len() - 2);
            }
            seen.push((received.sequence, lent.len(), start));
        });
        shown.expect("received");
    }
    assert_eq!(seen, [(1, 16, *b"head"), (2, 0, [0; 4]), (3, 2048, [7; 4])]);
    drop(to);
    let mut all = Vec::new();
    from.read_to_end(&mut all).expect("read");
    let wanted = [&b"<head>ad and payload<head>"[..], &[7; 2046]].concat();
    assert_eq!(all, wanted);
}

#[test]
fn a_message_of_several_pieces_is_put_together_and_an_end_is_shown() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let options = PortWriterOptions::new().capacity_bytes(16 << 10).piece_bytes(2048);
    let mut writer = PortWriter::connect(&name, &options).expect("a writer");
    let long: Vec<u8> = (0..5000).map(|at| at as u8).collect();
    writer.send(b"short").expect("sent");
    writer.send(&long).expect("sent");
    drop(writer);
    let mut buffer = [0; 8192];
    let mut seen = Vec::new();
    let mut ended = false;
    while !ended {
        let shown = port.lend_each_timeout(&mut buffer, Timeout::Never, |received, lent| {
            match received.event {
                Event::Closed(ending) => {
                    assert_eq!((ending, lent.is_empty()), (weir::Ending::Closed, true));
                    ended = true;
                }
                _ => {
                    let mut whole = vec![0; lent.len()];
                    lent.copy_to(0, &mut whole);
                    seen.push(whole);
                }
            }
        });
        shown.expect("received");
    }
    assert_eq!(seen, [b"short".to_vec(), long]);
}

/// A writer that has sent a part of a message, as every writer of long messages has for a moment.
/// A reader that looks often finds that there is nothing to receive yet.
#[test]
fn a_look_that_finds_a_part_of_a_message_shows_nothing() {
    let (_directory, name) = common::place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut writer = words::Words::enter(&name, &mut port, 8192);
    let mut buffer = [0; 64];
    assert!(writer.put(words::FIRST, b"two "));
    for _ in 0..5 {
        if port.is_ready().expect("no error") {
            let looked = port.lend_each_timeout(&mut buffer, Timeout::Now, |_, _| {});
            assert_eq!(looked.expect_err("a part").kind(), weir::ErrorKind::WouldBlock);
        }
    }
    assert!(writer.put(words::LAST, b"pieces"));
    assert!(port.is_ready().expect("no error"));
    let mut seen = Vec::new();
    let shown = port.lend_each_timeout(&mut buffer, Timeout::Now, |_, lent| {
        seen.resize(lent.len(), 0);
        lent.copy_to(0, &mut seen);
    });
    assert_eq!((shown.expect("shown"), &seen[..]), (1, &b"two pieces"[..]));
}

/// The buffer is for messages of several pieces only. The call panicked at one in place that was longer.
#[test]
fn a_message_in_place_may_be_longer_than_the_buffer() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
    writer.send(&[7; 5000]).expect("sent");
    let mut last = [0; 3];
    let shown = port.lend_each_timeout(&mut [], Timeout::Never, |_, lent| {
        lent.copy_to(4997, &mut last);
    });
    assert_eq!((shown.expect("received"), last), (1, [7; 3]));
}
