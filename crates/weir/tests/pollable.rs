//! Ends together with their descriptors, in polls and reactors of others.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use weir::mpx::RecordKind;
use weir::{
    ErrorKind, Mpx, MpxOptions, MpxPeer, MpxPeerOptions, Options, Pollable, Pool, PoolOptions,
    Port, PortOptions, PortWriter, PortWriterOptions, Timeout, Waitable, pipe, records,
};

/// Whether the descriptor becomes readable within ten seconds, or at once.
fn is_readable(end: &impl AsFd, seconds: i64) -> bool {
    let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&timeout)).expect("polled") > 0
}

/// Checks that the descriptor follows the end: it waits after `attempt` has failed with
/// `WouldBlock`, and becomes readable when `other` has acted.
fn follows<E: Waitable>(
    end: E,
    attempt: impl Fn(&mut E) -> weir::Result<()>,
    mut other: impl FnMut(),
) -> Pollable<E> {
    let mut end = Pollable::new(end).expect("a descriptor");
    assert_eq!(end.as_fd().as_raw_fd(), end.as_raw_fd());
    for round in 0..3 {
        let mut quiet = false;
        while !quiet {
            // A port and an mpx have work of their own after they were connected to.
            match attempt(end.get_mut()) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    quiet = !is_readable(&end, 0)
                }
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        other();
        assert!(is_readable(&end, 10), "round {round}");
    }
    end
}

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
fn a_descriptor_follows_a_port_and_an_mpx() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("port");
    let port = Port::create(&name, &PortOptions::new()).expect("created");
    let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("connected");
    follows(
        port,
        |port| port.receive_timeout(&mut [0; 64], Timeout::Now).map(drop),
        || writer.send(b"ding").expect("sent"),
    );

    let name = directory.path().join("mpx");
    let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("created");
    let peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("connected");
    let mut peer = Pollable::new(peer).expect("a descriptor");
    let to_owner = peer.get_mut().open(b"label").expect("opened");
    let mut to_peer = None;
    while to_peer.is_none() {
        let each = |record: weir::mpx::Record<'_>| to_peer = Some(record.channel);
        owner.receive_each_timeout(&mut [0; 64], Timeout::Never, each).expect("received");
    }
    let to_peer = to_peer.expect("a channel");
    owner.accept(to_peer).expect("accepted");
    assert!(is_readable(&peer, 10), "the answer");
    let mut kinds = Vec::new();
    let each = |record: weir::mpx::Record<'_>| kinds.push((record.channel, record.kind));
    peer.get_mut().receive_each_timeout(&mut [0; 64], Timeout::Never, each).expect("received");
    assert_eq!(kinds, [(to_owner, RecordKind::Accepted)]);
    let take = |peer: &mut MpxPeer| {
        peer.receive_each_timeout(&mut [0; 64], Timeout::Now, |_| ()).map(drop)
    };
    follows(peer.into_inner(), take, || {
        owner.send(to_peer, b"ding").expect("sent");
    });
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
