//! Ends together with their descriptors, in polls and reactors of others.

use crate::follow::{follows, is_readable};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use weir::{
    ErrorKind, Options, Pollable, Pool, PoolOptions, Port, PortOptions, PortWriter,
    PortWriterOptions, Timeout, pipe, records,
};

#[test]
fn a_descriptor_follows_its_end() {
    let small = Options::new().capacity_bytes(4096);
    let (mut writer, reader) = pipe(&small).expect("made");
    let reader = follows(
        reader,
        |reader| reader.try_read(&mut [0; 64]).map(drop),
        || assert_eq!(writer.write(b"ding").expect("written"), 4),
    );
    drop(writer);
    let mut reader = reader.into_inner();
    assert_eq!(reader.read(&mut [0; 64]).expect("read"), 4);
    assert_eq!(reader.read(&mut [0; 64]).expect("read"), 0);

    let (writer, mut reader) = pipe(&small).expect("made");
    follows(
        writer,
        |writer| writer.try_write(&[1; 512]).map(drop),
        || assert_eq!(reader.read(&mut [0; 4096]).expect("read"), 4096),
    );

    let (mut writer, reader) = records(&small).expect("made");
    let reader = follows(
        reader,
        |reader| reader.try_receive(&mut [0; 64]).map(drop),
        || writer.send(b"ding").expect("sent"),
    );
    assert_eq!(reader.get_ref().account().expect("open").records, 2);

    let (mut writer, reader) = pipe(&small).expect("made");
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20)).expect("a pool");
    follows(
        reader.elastic(&pool).expect("elastic"),
        |reader| reader.try_read(&mut [0; 64]).map(drop),
        || assert_eq!(writer.write(b"ding").expect("written"), 4),
    );
}

/// Its reader had no news for it, so nothing made the descriptor readable.
#[test]
fn a_writer_that_gives_itself_room_is_readable() {
    let (writer, _reader) = pipe(&Options::new().capacity_bytes(4096)).expect("made");
    let mut writer = Pollable::new(writer).expect("a descriptor");
    writer.get_mut().write(&[1; 4096]).expect("written");
    let full = writer.get_mut().try_write(&[1]).expect_err("full");
    assert_eq!((full.kind(), is_readable(&writer, 0)), (ErrorKind::WouldBlock, false));
    writer.get_mut().resize(8192).expect("resized");
    assert!(is_readable(&writer, 0), "there is room");
    assert_eq!(writer.get_mut().try_write(&[1; 4096]).expect("written"), 4096);
}

#[test]
fn a_descriptor_follows_a_port() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("port");
    let port = Port::create(&name, &PortOptions::new()).expect("created");
    let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("connected");
    follows(
        port,
        |port| port.receive_timeout(&mut [0; 64], Timeout::Now).map(drop),
        || writer.send(b"ding").expect("sent"),
    );
}

/// `AsyncFd` of tokio stands for any reactor that takes a type with a descriptor.
#[test]
fn a_reactor_that_knows_nothing_of_weir_waits_for_an_end() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("made");
    let (mut writer, reader) = pipe(&Options::new()).expect("made");
    let thread = std::thread::spawn(move || {
        for _ in 0..200 {
            writer.write(b"ding").expect("written");
            // sleep: so that the reader mostly finds nothing and has to wait.
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    let bytes = runtime.block_on(async {
        #[allow(deprecated, reason = "unsound for types that are no descriptors; this is one")]
        let mut reader = AsyncFd::new(Pollable::new(reader).expect("a descriptor")).expect("added");
        let (mut bytes, mut buffer) = (0, [0; 64]);
        loop {
            let mut guard = reader.readable_mut().await.expect("readable");
            match guard.get_inner_mut().get_mut().try_read(&mut buffer) {
                Ok(0) => break bytes,
                Ok(more) => bytes += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) => panic!("{error}"),
            }
        }
    });
    thread.join().expect("no panic");
    assert_eq!(bytes, 800);
}
