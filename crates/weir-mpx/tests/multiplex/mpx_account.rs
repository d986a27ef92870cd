//! The accounts of owners and peers of an mpx, read from outside (docs/contracts/account.md).

use crate::common;
use crate::exchange::{LONG, drain, exchange};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use weir::stat::{MpxStat, mpxes};
use weir::{Pool, PoolOptions, Wait};
use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};

/// The participants of the mpx whose socket this is: the owner, and its peers.
fn seen(socket: (u64, u64)) -> (MpxStat, Vec<MpxStat>) {
    let mut found = mpxes();
    found.retain(|stat| stat.socket == socket);
    let owner = found.remove(0);
    assert!(owner.is_owner && found.iter().all(|stat| !stat.is_owner));
    (owner, found)
}

fn socket(name: &Path) -> (u64, u64) {
    let socket = std::fs::metadata(name).expect("there");
    (socket.dev(), socket.ino())
}

/// Receives until this many records of data, marks and numbers have come.
fn receive(owner: &mut Mpx, count: usize) {
    let mut left = count;
    while left > 0 {
        let received = owner.receive_each_timeout(&mut [0; 4096], LONG, |record| {
            assert!(matches!(
                record.kind,
                RecordKind::Data | RecordKind::End | RecordKind::Signal(_)
            ));
            left -= 1;
        });
        received.expect("received");
    }
}

/// Receives until a channel has closed.
fn receive_to_the_end(owner: &mut Mpx) {
    let mut closed = false;
    while !closed {
        let see =
            |record: weir_mpx::Record<'_>| closed = matches!(record.kind, RecordKind::Close(_));
        owner.receive_each_timeout(&mut [0; 65_536], LONG, see).expect("received");
    }
}

/// Sends a hundred records, each of which is received before the next.
fn send_a_hundred(peer: &mut MpxPeer, channel: weir_mpx::ChannelId, owner: &mut Mpx) {
    for _ in 0..100 {
        assert_eq!(peer.send(channel, b"ten bytes.").expect("sent"), 10);
        receive(owner, 1);
    }
}

/// In the small ring a writer would have to look at the reader's position for each record.
#[test]
fn lanes_that_are_used_again_get_blocks_while_most_of_the_arena_is_free() {
    let mut exchange = exchange();
    let options = MpxPeerOptions::new().channels(20).arena_bytes(64 << 10);
    let mut peer = MpxPeer::connect(&exchange.name, &options).expect("connected");
    let channels: Vec<_> = (0..20).map(|_| peer.open(b"").expect("opened")).collect();
    let (mut asking, used) = (Vec::new(), |name: &Path| seen(socket(name)).1[0].account);
    while asking.len() < 20 {
        let see = |record: weir_mpx::Record<'_>| asking.push(record.channel);
        exchange.owner.receive_each_timeout(&mut [0; 64], LONG, see).expect("received");
    }
    asking.drain(..).for_each(|channel| exchange.owner.accept(channel).expect("accepted"));
    assert_eq!(used(&exchange.name).arena_used_bytes, 0, "nothing was used twice");
    for channel in &channels {
        send_a_hundred(&mut peer, *channel, &mut exchange.owner);
    }
    assert_eq!(
        used(&exchange.name).arena_used_bytes,
        32 << 10,
        "the other half is for larger ones"
    );
    // A record that needs a block gets one all the same.
    let long = [7; 30_000];
    assert_eq!(peer.send(channels[19], &long).expect("sent"), long.len());
    receive(&mut exchange.owner, long.len().div_ceil(4096));
    assert_eq!(used(&exchange.name).blocked, 0);
}

#[test]
fn counts_are_exact_and_seen_from_outside() {
    let mut exchange = exchange();
    let options = MpxPeerOptions::new().channels(4);
    let mut peer = MpxPeer::connect(&exchange.name, &options).expect("connected");
    let channel = peer.open(b"counted").expect("opened");
    let socket = socket(&exchange.name);
    let mut asking = None;
    let see = |record: weir_mpx::Record<'_>| asking = Some(record.channel);
    exchange.owner.receive_each_timeout(&mut [0; 64], LONG, see).expect("received");
    let answered = asking.expect("an open");
    exchange.owner.accept(answered).expect("accepted");
    send_a_hundred(&mut peer, channel, &mut exchange.owner);
    assert!(peer.end(channel).expect("sent") && peer.signal(channel, 7).expect("sent"));
    receive(&mut exchange.owner, 2);
    assert_eq!(exchange.owner.send(answered, b"back").expect("sent"), 4);
    assert_eq!(drain(&mut peer).len(), 2, "that it was accepted, and what was sent back");
    let (owner, peers) = seen(socket);
    let [of_peer] = &peers[..] else { panic!("{peers:?}") };
    let (owner, one) = (owner.account, of_peer.account);
    assert_eq!((owner.pid, one.pid), (std::process::id(), std::process::id()));
    assert_eq!((one.records_out, one.bytes_out, one.records_in, one.bytes_in), (102, 1000, 1, 4));
    assert_eq!(
        (owner.records_in, owner.bytes_in, owner.records_out, owner.bytes_out),
        (102, 1000, 1, 4)
    );
    assert_eq!((owner.peers, owner.channels, one.peers, one.channels), (1, 1, 1, 1));
    assert_eq!((owner.arena_bytes, one.arena_bytes), (512 << 10, 512 << 10));
    assert_eq!(one.blocked, 0, "there was always room");
    assert_eq!((one.arena_used_bytes, owner.arena_used_bytes), (4096, 0), "one is used again");
    // Other tests look at all memory too: for a moment they have a descriptor of it.
    assert!(!of_peer.holders.is_empty(), "its peer and its owner are here");
    // More than fits.
    let sent = peer.send(channel, &[1; 200_000]).expect("sent");
    assert!(sent < 200_000);
    let one = seen(socket).1[0].account;
    assert_eq!((one.blocked, one.arena_used_bytes), (1, 64 << 10));
    assert_eq!((one.bytes_out, one.records_out), (1000 + sent as u64, 103));
    drop(peer);
    receive_to_the_end(&mut exchange.owner);
    // Another test that looks at all memory may still have a descriptor of it.
    common::until("its memory is gone", || seen(socket).1.is_empty());
    let owner = seen(socket).0.account;
    assert_eq!((owner.peers, owner.channels, owner.arena_bytes), (0, 0, 0));
    assert_eq!((owner.records_in, owner.bytes_in), (103, 1000 + sent as u64));
}

#[test]
fn waits_and_sleeps_are_counted() {
    let mut exchange = exchange();
    let socket = socket(&exchange.name);
    // So long that also a thread that waits for a CPU meanwhile sleeps for a part of it.
    let time = Duration::from_millis(200);
    let nothing = exchange.owner.receive_each_timeout(&mut [0; 64], time, |_| {});
    assert!(nothing.is_err());
    let before = seen(socket).0.account;
    assert!(before.waits >= 1 && before.slept >= 1 && before.slept_ns > 0, "{before:?}");
    assert_eq!(before.wakes_taken, 0, "nobody was there");
    let name = exchange.name.clone();
    let peer = std::thread::spawn(move || {
        let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("connected");
        // The owner sleeps, and has looked away from the link.
        let given = || seen(socket).1.first().map_or(0, |stat| stat.account.wakes_given);
        while !peer.is_taken_in() {
            std::thread::yield_now();
        }
        let channel = peer.open(b"").expect("opened");
        let begun = std::time::Instant::now();
        while given() == 0 && begun.elapsed() < LONG {
            // sleep: gives the owner time to go to sleep, which this thread cannot see.
            std::thread::sleep(Duration::from_millis(20));
            peer.send(channel, b"awake?").expect("sent");
        }
        given()
    });
    while !peer.is_finished() {
        let mut asking = Vec::new();
        let wait = Duration::from_millis(200);
        let _ = exchange.owner.receive_each_timeout(&mut [0; 64], wait, |record| {
            asking.extend((record.kind == RecordKind::Open).then_some(record.channel));
        });
        asking.iter().for_each(|channel| exchange.owner.accept(*channel).expect("accepted"));
    }
    assert!(peer.join().expect("no panic") >= 1, "the peer woke the owner");
    let after = seen(socket).0.account;
    assert!(after.wakes_taken >= 1, "{after:?}");
}

/// An elastic owner waits by a descriptor, and what it slept was in no account.
#[test]
fn a_sleep_of_an_elastic_mpx_is_counted() {
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20)).expect("a pool");
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("mpx");
    let made = Mpx::create(&name, &MpxOptions::new()).expect("an mpx");
    let mut wait = Wait::new();
    wait.add("mpx", made.elastic(&pool).expect("elastic")).expect("added");
    // Ten times what is asked of it below: the thread may have to wait for a CPU meanwhile.
    let (mut ready, time) = (Vec::new(), Duration::from_millis(200));
    assert!(wait.wait_timeout(&mut ready, time).is_err(), "nothing comes");
    let inode = std::fs::metadata(&name).expect("there").ino();
    let mpx = mpxes().into_iter().find(|one| one.socket.1 == inode).expect("seen").account;
    assert!(mpx.waits == 1 && mpx.slept >= 1 && mpx.slept_ns > 20_000_000, "{mpx:?}");
    assert_eq!(mpx.wakes_taken, 0);
}
