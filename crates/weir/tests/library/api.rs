//! What holds for the whole API (docs/adr/0013-the-api.md): the traits of the public types, and
//! errors that cost nothing where a call is repeated.

use std::fmt::Debug;
use weir::tune::{Ask, Caches, Settings};
use weir::{
    Account, DuplexHandle, Error, ErrorKind, Flags, Handle, Interest, Key, Listener, Loan, Options,
    Pollable, Port, PortOptions, PortWriter, PortWriterOptions, Reader, ReaderOptions,
    RecordDuplex, RecordReader, RecordWriter, Reservation, Sizes, StreamDuplex, Timeout, View,
    ViewMut, Wait, Waiting, Writer, WriterOptions, pipe, records,
};

fn is_shared<T: Debug + Send + Sync + 'static>() {}
fn is_sent<T: Debug + Send>() {}
fn is_value<T: Debug + Clone + Copy + Send + Sync + 'static>() {}

#[test]
fn public_types_are_what_the_documentation_says() {
    is_shared::<Error>();
    is_shared::<Flags>();
    is_shared::<Handle>();
    is_shared::<DuplexHandle>();
    is_shared::<Listener>();
    is_shared::<Options>();
    is_shared::<ReaderOptions>();
    is_shared::<WriterOptions>();
    is_shared::<Settings>();
    is_value::<Account>();
    is_value::<Ask>();
    is_value::<Caches>();
    is_value::<ErrorKind>();
    is_value::<Interest>();
    is_value::<Key<Reader>>();
    is_value::<Sizes>();
    is_value::<Timeout>();
    is_value::<Waiting>();
    is_sent::<Reader>();
    is_sent::<Writer>();
    is_sent::<RecordReader>();
    is_sent::<RecordWriter>();
    is_sent::<RecordDuplex>();
    is_sent::<StreamDuplex>();
    is_sent::<Pollable<Reader>>();
    is_sent::<Loan<'_>>();
    is_sent::<Reservation<'_>>();
    is_sent::<View<'_>>();
    is_sent::<ViewMut<'_>>();
    is_sent::<Wait<'_, u64>>();
}

/// Each of these errors once made two strings.
#[test]
fn a_call_that_would_have_to_wait_allocates_nothing() {
    let small = Options::new().capacity_bytes(4096);
    let (mut writer, mut reader) = pipe(&small).expect("a pipe");
    let (mut sender, mut receiver) = records(&small).expect("made");
    let look = |call: &mut dyn FnMut() -> Result<(), Error>, wanted: ErrorKind| {
        let mut kind = None;
        let used = allocation_counter::measure(|| {
            kind = call().err().map(|error| error.kind());
        });
        assert_eq!((kind, used.count_total), (Some(wanted), 0));
    };
    let nothing = ErrorKind::WouldBlock;
    look(&mut || reader.try_read(&mut [0; 8]).map(drop), nothing);
    look(&mut || receiver.try_receive(&mut [0; 8]).map(drop), nothing);
    let late = std::time::Duration::from_micros(10);
    look(&mut || receiver.receive_timeout(&mut [0; 8], late).map(drop), ErrorKind::TimedOut);
    assert_eq!(writer.try_write(&[0; 4096]).expect("written"), 4096);
    look(&mut || writer.try_write(&[0; 8]).map(drop), nothing);
    while sender.try_send(&[0; 60]).is_ok() {}
    look(&mut || sender.try_send(&[0; 60]), nothing);
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("port");
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let options = PortWriterOptions::new().capacity_bytes(4096);
    let mut writer = PortWriter::connect(&name, &options).expect("a writer");
    writer.send(b"x").expect("sent");
    port.receive(&mut [0; 8]).expect("received");
    look(&mut || port.receive_timeout(&mut [0; 8], Timeout::Now).map(drop), nothing);
    look(&mut || port.receive_timeout(&mut [0; 8], late).map(drop), ErrorKind::TimedOut);
    while writer.try_send(&[0; 60]).is_ok() {}
    look(&mut || writer.try_send(&[0; 60]), nothing);
    look(&mut || writer.send_timeout(&[0; 60], late), ErrorKind::TimedOut);
}

#[test]
fn an_error_becomes_one_of_std_that_fits() {
    let (writer, mut reader) = pipe(&Options::new()).expect("a pipe");
    let kind = |error: Error| std::io::Error::from(error).kind();
    let error = reader.try_read(&mut [0; 8]).expect_err("empty");
    assert_eq!((error.written_bytes(), error.needed_bytes()), (None, None));
    assert_eq!(kind(error), std::io::ErrorKind::WouldBlock);
    drop(reader);
    let mut writer = writer;
    assert_eq!(kind(writer.write(b"x").expect_err("closed")), std::io::ErrorKind::BrokenPipe);
    let nobody = Writer::connect("/nowhere/at/all", &Options::new()).map(drop);
    assert_eq!(kind(nobody.expect_err("nobody")), std::io::ErrorKind::ConnectionRefused);
}
