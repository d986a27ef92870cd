//! Errors of ports name the operation and the object as its user knows them.

use crate::common;
use crate::common::place;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use weir::{ErrorKind, Port, PortHandle, PortOptions, PortWriter, PortWriterOptions, Timeout};

#[test]
fn a_size_of_a_writer_that_is_out_of_range_is_named_as_its_option() {
    let (_directory, name) = place();
    let _port = Port::create(&name, &PortOptions::new()).expect("a port");
    let options = PortWriterOptions::new();
    let least = |asked: u64| {
        let error = PortWriter::connect(&name, &options.clone().piece_bytes(asked));
        error.expect_err("out of range").to_string()
    };
    let range = "bytes are out of range: 1024 to 262144";
    for asked in [0, u64::MAX] {
        let text = format!("cannot set the piece of a writer to a port: {asked} {range}");
        assert_eq!(least(asked), text);
    }
    let error =
        PortWriter::connect(&name, &options.capacity_bytes(u64::MAX)).expect_err("too much");
    let range = format!("{} bytes are out of range: 1 to 1073741824", u64::MAX);
    let text = format!("cannot set the capacity of a writer to a port: {range}");
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Invalid, text));
}

#[test]
fn a_mode_is_named_as_modes_are_written() {
    let (_directory, name) = place();
    let error = Port::create(&name, &PortOptions::new().mode(0o1777)).expect_err("out of range");
    let text = "cannot set the mode of a port: 0o1777 is out of range: 0o0 to 0o777";
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Invalid, text.to_owned()));
}

/// Errors that came from its ring spoke of a pipe.
#[test]
fn a_writer_in_a_forked_child_names_its_port() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
    writer.send(b"x").expect("sent");
    port.receive(&mut [0; 8]).expect("received");
    let why = "it belongs to the process that this one was forked from";
    let text = format!("cannot write to port '{}': {why}", name.display());
    let body = || {
        let long = vec![0; 1 << 20];
        let errors = [
            writer.send(b"y").err(),
            writer.send(b"yy").err(),
            writer.try_send(&long[..200_000]).err(),
            writer.send(&long).err(),
            writer.send_parts(&[b"y", b"z"]).err(),
            writer.room().err(),
            writer.is_let_in().err(),
            writer.account().err(),
            writer.poll_descriptor().err(),
        ];
        let wrong = errors.iter().position(|error| {
            !error
                .as_ref()
                .is_some_and(|error| error.kind() == ErrorKind::Forked && error.to_string() == text)
        });
        wrong.map_or(0, |wrong| wrong as u8 + 1)
    };
    // SAFETY: other threads of the test hold no lock that the body needs.
    let mut child = unsafe { weir_measure::sys::fork::copy(body) };
    let child = child.as_mut().expect("forked");
    assert!(child.succeeded().expect("reaped"), "each names the port");
}

#[test]
fn a_writer_whose_memory_is_invalid_names_its_port() {
    let (_directory, name) = place();
    let _port = Port::create(&name, &PortOptions::new()).expect("a port");
    let options = PortWriterOptions::new().capacity_bytes(4096);
    let mut writer = PortWriter::connect(&name, &options).expect("a writer");
    while writer.try_send(&[7; 60]).is_ok() {}
    let socket = std::fs::metadata(&name).expect("there");
    let ours = Some((socket.dev(), socket.ino()));
    let ring = weir::stat::pipes().into_iter().find(|pipe| pipe.port == ours).expect("a ring");
    let ring = common::open_memory(ring.inode, &ring.holders, true);
    // The reader's position.
    rustix::io::pwrite(&ring, &(u64::MAX / 3).to_le_bytes(), 256).expect("written");
    let error = writer.try_send(&[7; 60]).expect_err("invalid");
    let begin = format!("cannot write to port '{}': ", name.display());
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().starts_with(&begin), "{error}");
    let error = writer.room().expect_err("invalid");
    assert!(error.to_string().starts_with(&begin), "{error}");
}

/// An error of the ring of the writer whose turn it was spoke of a pipe.
#[test]
fn a_reader_in_a_forked_child_names_its_port() {
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
    (0..3).for_each(|_| writer.send(b"x").expect("sent"));
    port.receive(&mut [0; 8]).expect("received");
    let why = "it belongs to the process that this one was forked from";
    let text = format!("cannot read from port '{}': {why}", name.display());
    let body = || {
        let (buffer, now) = (&mut [0; 8][..], Timeout::Now);
        let errors = [
            port.receive(buffer).err(),
            port.receive_timeout(buffer, now).err(),
            port.receive_each_timeout(buffer, now, |_, _| {}).err(),
            port.lend_each_timeout(buffer, now, |_, _| {}).err(),
            port.is_ready().err(),
            port.available().err(),
            port.writers().err(),
            port.poll_descriptor().err(),
        ];
        let texts = errors.map(|error| error.map(|error| (error.kind(), error.to_string())));
        let right = Some((ErrorKind::Forked, text.clone()));
        texts.iter().position(|told| *told != right).map_or(0, |wrong| wrong as u8 + 1)
    };
    // SAFETY: other threads of the test hold no lock that the body needs.
    let mut child = unsafe { weir_measure::sys::fork::copy(body) };
    let child = child.as_mut().expect("forked");
    assert!(child.succeeded().expect("reaped"), "each names the port");
}

/// It was called by the descriptor of the handle, whose number means something else later.
#[test]
fn a_writer_to_a_port_without_a_name_says_that_it_has_none() {
    let (port, handle) = Port::unnamed(&PortOptions::new()).expect("a port");
    let mut writer = PortWriter::open(&handle, &PortWriterOptions::new()).expect("a writer");
    assert_eq!(writer.path(), port.path());
    drop(port);
    let mut error = None;
    common::until("it is told", || {
        error = writer.send(b"x").err();
        error.is_some()
    });
    let text = "cannot write to port '(unnamed)': its reader has closed or died";
    assert_eq!(error.expect("told").to_string(), text);
    let error = PortWriter::open(&handle, &PortWriterOptions::new()).expect_err("no reader");
    assert_eq!(error.to_string(), "cannot open port '(unnamed)': no reader is listening");
}

#[test]
fn who_receives_a_handle_hears_what_came_in_its_place() {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let told = || PortHandle::receive(&ours).expect_err("no handle");
    std::io::Write::write_all(&mut &theirs, b"hello").expect("written");
    let error = told();
    let text = "cannot receive the handle of a port: the message is another one";
    assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::Corrupt, text));
    drop(theirs);
    let error = told();
    let text = "cannot receive the handle of a port: the other side has closed the socket";
    assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::Closed, text));
}
