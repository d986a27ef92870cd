//! `room` of a writer and `available` of a port are lower bounds (docs/contracts/port.md, 14).

use crate::common;
use crate::common::place;
use crate::words::{FIRST, INLINE_BYTES, LAST, Words};
use weir::{ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions, Timeout};

/// Pieces of a message that is not whole were counted, though nothing could be received.
#[test]
fn what_is_not_whole_is_not_available() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut writer = Words::enter(&name, &mut port, 64 << 10);
    let mut buffer = [0; 4 * INLINE_BYTES];
    assert_eq!(port.available().expect("mine"), 0);
    assert!(writer.put(FIRST, &[1; INLINE_BYTES]));
    assert_eq!(port.available().expect("mine"), 0);
    let error = port.receive_timeout(&mut buffer, Timeout::Now).expect_err("it is not whole");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(writer.put(0, &[2; INLINE_BYTES]));
    assert_eq!(port.available().expect("mine"), 0);
    let _ = port.receive_timeout(&mut buffer, Timeout::Now).expect_err("it is not whole");
    assert!(writer.put(LAST, &[3; 10]));
    let available = port.available().expect("mine");
    assert_eq!(available, 2 * INLINE_BYTES + 10, "the last piece makes it whole");
    let received = port.receive_timeout(&mut buffer, Timeout::Now).expect("it is whole");
    assert_eq!(received.event, Event::Message { bytes: available });
}

/// A piece of a port that shows pieces is there as soon as it has come.
#[test]
fn pieces_are_available_where_they_are_shown() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new().in_pieces()).expect("a port");
    let mut writer = Words::enter(&name, &mut port, 64 << 10);
    assert!(writer.put(FIRST, &[1; 7]));
    assert_eq!(port.available().expect("mine"), 7);
}

/// It said that there was room for messages that the port does not take.
#[test]
fn there_is_no_room_for_more_than_the_port_takes() {
    let (_directory, name) = place();
    let options = PortOptions::new().most_message_bytes(1000);
    let mut port = Port::create(&name, &options).expect("a port");
    let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
    common::until("it is let in", || {
        port.counts().expect("mine").open == 1 && writer.is_let_in().expect("mine")
    });
    assert_eq!(writer.room().expect("mine"), 1000);
    writer.try_send(&[1; 1000]).expect("as it said");
}
