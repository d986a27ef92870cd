//! Owners and peers in async programs: records in a runtime of one thread, where one task that blocks
//! would block all (docs/contracts/wait.md, 6).

#![cfg(feature = "tokio")]

use futures::StreamExt;
use std::time::Duration;
use weir::Ending;
use weir_mpx::tokio::MpxStream;
use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};

/// Runs a future to its end, within a time limit.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        tokio::time::timeout(Duration::from_secs(30), future).await.expect("in time")
    })
}

/// Owner and peers in one thread: each channel is answered with what it sent.
#[test]
fn an_mpx_and_its_peers_in_one_thread() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("exchange");
        let owner = Mpx::create(&name, &MpxOptions::new()).expect("an mpx");
        let mut owner = MpxStream::new(owner).expect("registered");
        let peers: Vec<_> = (0..3_u8)
            .map(|seed| {
                let peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("a peer");
                let mut stream = MpxStream::new(peer).expect("registered");
                tokio::spawn(async move {
                    let channel = stream.end().open(&[seed]).expect("opened");
                    let record = stream.next().await.expect("one").expect("received");
                    assert_eq!((record.channel, record.kind), (channel, RecordKind::Accepted));
                    for at in 0..200_u32 {
                        let sent = stream.end().send(channel, &at.to_le_bytes()).expect("sent");
                        assert_eq!(sent, 4);
                        let record = stream.next().await.expect("one").expect("received");
                        assert_eq!(
                            (record.kind, &record.bytes[..]),
                            (RecordKind::Data, &at.to_le_bytes()[..])
                        );
                    }
                    stream.end().close(channel).expect("closed");
                })
            })
            .collect();
        let mut closed = 0;
        while closed < 3 {
            let record = owner.next().await.expect("one").expect("received");
            match record.kind {
                RecordKind::Open => owner.end().accept(record.channel).expect("accepted"),
                RecordKind::Data => {
                    let sent = owner.end().send(record.channel, &record.bytes);
                    assert_eq!(sent.expect("sent"), record.bytes.len());
                }
                RecordKind::Close(ending) => {
                    assert_eq!(ending, Ending::Closed);
                    closed += 1;
                }
                kind => panic!("{kind:?} was not sent"),
            }
        }
        for peer in peers {
            peer.await.expect("no panic");
        }
    });
}

#[test]
fn a_stream_ends_where_nothing_can_come_any_more() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("exchange");
        let owner = Mpx::create(&name, &MpxOptions::new()).expect("an mpx");
        let peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("a peer");
        let mut stream = MpxStream::new(peer).expect("registered");
        let channel = stream.end().open(b"log").expect("opened");
        drop(owner);
        let records: Vec<_> =
            stream.by_ref().take(9).map(|one| one.expect("received")).collect().await;
        let ends = records.iter().filter(|one| one.channel == channel).count();
        assert_eq!((records.len(), ends), (1, 1));
        assert!(stream.next().await.is_none());
    });
}
