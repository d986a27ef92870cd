//! What is called for a message of a port may panic: it comes again, and nothing is lost or doubled
//! (docs/contracts/port.md, 12).

use crate::common::{patterned, place, until};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;
use weir::{
    Ending, Event, Lent, Pool, PoolOptions, Port, PortOptions, PortWriter, PortWriterOptions,
    Received,
};

const LONG: Duration = Duration::from_secs(20);
/// Messages of the writers below that are longer come in pieces.
const PIECE_BYTES: usize = 4096;

fn writer(name: &Path) -> PortWriter {
    PortWriter::connect(name, &PortWriterOptions::new().capacity_bytes(16 << 10)).expect("a writer")
}

/// Makes a call that receives, and panics at the first message that it shows.
fn panic_in(call: impl FnOnce(&mut dyn FnMut(Received))) -> Received {
    let mut shown = None;
    let caught = catch_unwind(AssertUnwindSafe(|| {
        call(&mut |received| {
            shown = Some(received);
            panic!("the caller's panic");
        });
    }));
    assert!(caught.is_err(), "it panics on");
    shown.expect("shown")
}

/// What comes next.
fn next(port: &mut Port) -> (Received, Vec<u8>) {
    let mut buffer = vec![0; 1 << 20];
    let received = port.receive_timeout(&mut buffer, LONG).expect("received");
    let bytes = match received.event {
        Event::Message { bytes } | Event::Piece { bytes, .. } => bytes,
        _ => 0,
    };
    (received, buffer[..bytes].to_vec())
}

/// A message that was put together in the buffer had left its ring, and was nowhere else.
#[test]
fn a_message_of_several_pieces_comes_again() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut writer = writer(&name);
    let message = patterned(3 * PIECE_BYTES - 100, 1);
    writer.send(&message).expect("sent");
    let mut buffer = vec![0; 1 << 20];
    let first = panic_in(|see| {
        let _ = port.receive_each_timeout(&mut buffer, LONG, |received, _| see(received));
    });
    let second = panic_in(|see| {
        let show = |received, _: Lent<'_>| see(received);
        let _ = port.lend_each_timeout(&mut buffer, LONG, show);
    });
    assert_eq!((first.event, first.sequence), (Event::Message { bytes: message.len() }, 1));
    assert_eq!(second, first);
    writer.send(b"next").expect("sent");
    let (received, bytes) = next(&mut port);
    assert_eq!(received, first);
    assert!(bytes == message, "its bytes are as they were");
    let (received, bytes) = next(&mut port);
    assert_eq!((received.sequence, &bytes[..]), (2, &b"next"[..]));
    let stat = port.writers().expect("mine")[0];
    assert_eq!((stat.messages, stat.bytes), (2, message.len() as u64 + 4));
    let account = weir::stat::port(&name).expect("a port").account.expect("seen");
    assert_eq!((account.messages, account.bytes), (2, message.len() as u64 + 4));
}

/// The writer had been removed before its end was shown.
#[test]
fn the_end_of_a_writer_comes_again() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut writer = writer(&name);
    writer.send(b"x").expect("sent");
    assert_eq!(next(&mut port).1, b"x");
    drop(writer);
    let first = panic_in(|see| {
        let _ = port.receive_each_timeout(&mut [0; 64], LONG, |received, _| see(received));
    });
    assert_eq!(first.event, Event::Closed(Ending::Closed));
    assert_eq!(next(&mut port).0, first);
    assert_eq!(port.counts().expect("mine").open, 0);
    let account = weir::stat::port(&name).expect("a port").account.expect("seen");
    assert_eq!((account.opened, account.closed, account.died), (1, 1, 0));
}

/// A port that shows pieces shows each as it was: the first as the first.
#[test]
fn a_piece_comes_again() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new().in_pieces()).expect("a port");
    let mut writer = writer(&name);
    let message = patterned(2 * PIECE_BYTES + 10, 2);
    writer.send(&message).expect("sent");
    let mut came = Vec::new();
    for (first, last) in [(true, false), (false, false), (false, true)] {
        let shown = panic_in(|see| {
            let buffer = &mut [0; PIECE_BYTES];
            let _ = port.receive_each_timeout(buffer, LONG, |received, _| see(received));
        });
        let (again, bytes) = next(&mut port);
        assert_eq!(again, shown);
        assert_eq!(again.event, Event::Piece { bytes: bytes.len(), first, last });
        came.extend(bytes);
    }
    assert!(came == message);
}

/// The records of a backlog are shown by the same way as those in pieces.
#[test]
fn a_message_of_a_backlog_comes_again() {
    let (_directory, name) = place();
    let pool = Pool::new(&PoolOptions::new().memory_bytes(4 << 20)).expect("a pool");
    let port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut port = port.elastic(&pool).expect("elastic");
    let mut writer = writer(&name);
    let mut sent = 0_u32;
    until("there is a backlog", || {
        writer.send(&sent.to_le_bytes().repeat(200)).expect("sent");
        sent += 1;
        port.backlog_bytes() > 0
    });
    let mut buffer = [0; 4096];
    let mut came = 0;
    while came < sent {
        let shown = panic_in(|see| {
            let _ = port.receive_each_timeout(&mut buffer, LONG, |received, _| see(received));
        });
        let again = port.receive_timeout(&mut buffer, LONG).expect("received");
        assert_eq!(again, shown);
        assert_eq!(again.event, Event::Message { bytes: 800 });
        assert_eq!(buffer[..800], came.to_le_bytes().repeat(200));
        came += 1;
    }
}

/// The messages that were shown before the one at which it panics are received, and counted.
#[test]
fn what_was_shown_before_a_panic_is_counted() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut writer = writer(&name);
    (0..5).for_each(|number| writer.send(&[number; 100]).expect("sent"));
    let caught = catch_unwind(AssertUnwindSafe(|| {
        port.receive_each_timeout(&mut [0; 4096], LONG, |received, _| {
            assert!(received.sequence < 4, "the caller's panic");
        })
    }));
    assert!(caught.is_err());
    assert_eq!(next(&mut port).1, [3; 100]);
    assert_eq!(next(&mut port).1, [4; 100]);
    let stat = port.writers().expect("mine")[0];
    assert_eq!((stat.messages, stat.bytes), (5, 500));
    let seen = weir::stat::port(&name).expect("a port");
    let account = seen.account.expect("seen");
    assert_eq!((account.messages, account.bytes), (5, 500));
    assert_eq!(seen.writers[0].received, 5);
}
