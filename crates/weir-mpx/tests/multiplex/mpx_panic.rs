//! What is called may panic: nothing else is lost, and channels continue.

use crate::exchange::{LONG, exchange};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir::{Ending, ErrorKind, Timeout};
use weir_mpx::{Mpx, MpxOptions, RecordKind};

/// Receives, and panics at the first record of this kind.
fn panic_at(owner: &mut Mpx, mut kind: impl FnMut(RecordKind) -> bool) {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        owner.receive_each_timeout(&mut [0; 4096], LONG, |record| {
            assert!(!kind(record.kind), "the caller's panic");
        })
    }));
    assert!(caught.is_err());
}

/// What comes until nothing is left: kinds and first bytes.
fn rest(owner: &mut Mpx) -> Vec<(RecordKind, Option<u8>)> {
    let mut seen = Vec::new();
    while let Ok(1..) = owner.receive_each_timeout(&mut [0; 4096], Timeout::Now, |record| {
        seen.push((record.kind, record.bytes.first().copied()));
    }) {}
    seen
}

/// The channel whose record was being shown left the queue, and nobody put it back: what its other
/// side had sent never came, nor its end.
#[test]
fn a_panic_at_a_record_loses_none_of_the_others() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (_, there) = exchange.open(&mut peer, "x");
    for number in 0..3 {
        assert_eq!(peer.send(there, &[number; 8]).expect("sent"), 8);
    }
    panic_at(&mut exchange.owner, |kind| kind == RecordKind::Data);
    assert_eq!(peer.send(there, &[3; 8]).expect("sent"), 8);
    peer.close(there).expect("closed");
    let came: Vec<_> = (1..4).map(|byte| (RecordKind::Data, Some(byte))).collect();
    let seen = rest(&mut exchange.owner);
    assert_eq!(seen[..3], came);
    assert_eq!(seen[3..], [(RecordKind::Close(Ending::Closed), None)]);
    assert_eq!(exchange.owner.channels(), 0);
}

/// The same for a channel of an mpx that was joined to the one that receives.
#[test]
fn a_panic_at_a_record_of_a_joined_mpx_loses_none_either() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (_, there) = exchange.open(&mut peer, "x");
    let directory = tempfile::tempdir().expect("a directory");
    let outer = Mpx::create(directory.path().join("outer"), &MpxOptions::new());
    let mut outer = outer.expect("made");
    outer.join(exchange.owner, 5).expect("joined");
    for number in 0..3 {
        assert_eq!(peer.send(there, &[number; 8]).expect("sent"), 8);
    }
    panic_at(&mut outer, |kind| kind == RecordKind::Data);
    assert_eq!(rest(&mut outer).len(), 2);
}

/// A channel has ended once its end is shown, also to one who panics at it.
#[test]
fn a_panic_at_a_close_leaves_no_channel_behind() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (_, there) = exchange.open(&mut peer, "x");
    peer.close(there).expect("closed");
    panic_at(&mut exchange.owner, |kind| matches!(kind, RecordKind::Close(_)));
    assert_eq!(rest(&mut exchange.owner), []);
    assert_eq!(exchange.owner.channels(), 0);
    let error = peer.send(there, b"x").expect_err("it has ended");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

/// The records that were shown before, and the one at which it panics, were received. They were counted
/// nowhere.
#[test]
fn what_was_shown_before_a_panic_is_counted() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (_, there) = exchange.open(&mut peer, "x");
    for number in 0..5 {
        assert_eq!(peer.send(there, &[number; 8]).expect("sent"), 8);
    }
    let mut shown = 0;
    panic_at(&mut exchange.owner, |kind| {
        shown += u64::from(kind == RecordKind::Data);
        shown == 3
    });
    assert_eq!(rest(&mut exchange.owner).len(), 2);
    let socket = std::fs::metadata(&exchange.name).expect("there");
    let of = (socket.dev(), socket.ino());
    let owner = weir::stat::mpxes().into_iter().find(|one| one.is_owner && one.socket == of);
    let account = owner.expect("the owner").account;
    assert_eq!((account.records_in, account.bytes_in), (5, 40));
}
