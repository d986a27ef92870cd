//! kill -9 of peers and owners of an mpx at random moments. Others continue, each accepted channel
//! closes once, and what was sent is whole and in order. A stopped process is not dead.
//!
//! `WEIR_KILLS=10000` for more.

#[path = "../../weir/tests/common/mod.rs"]
mod common;
#[path = "common/exchange.rs"]
mod exchange;

use common::{Random, alone, fork_within, hear, kill, kills, say, start};
use exchange::{Exchange, LONG, drain, exchange, kinds, receive};
use std::collections::HashMap;
use std::process::Child;
use std::time::Duration;
use weir::{Ending, ErrorKind, Timeout};
use weir_mpx::{ChannelId, Mpx, MpxOptions, MpxPeer, MpxPeerOptions, Participant, RecordKind};

/// The record of a number: the number, and bytes that are computed from it.
fn body(number: u32) -> Vec<u8> {
    let count = 4 + (number * 37 % 3000) as usize;
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(count, number as u8);
    bytes
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let (role, name) = role.split_once(':').expect("a role and a name");
    match role {
        "peer" => send_without_end(name),
        "owner" => own(name),
        "quiet" => {
            let mut peer = MpxPeer::connect(name, &MpxPeerOptions::new()).expect("connected");
            peer.open(b"quiet").expect("opened");
            say(std::io::stdin(), b"up");
            let _ = peer.receive_each(&mut [0; 64], |_| {});
            hear(std::io::stdin());
        }
        _ => panic!("no such role"),
    }
}

/// Opens channels and closes them, and sends numbers on each.
fn send_without_end(name: &str) {
    let mut peer = MpxPeer::connect(name, &MpxPeerOptions::new()).expect("connected");
    let mut random = Random(u64::from(std::process::id()) + 1);
    let mut channels: Vec<(ChannelId, u32, usize)> = Vec::new();
    say(std::io::stdin(), b"up");
    loop {
        if channels.len() < 8
            && let Ok(channel) = peer.open(b"killed")
        {
            channels.push((channel, 0, 0));
        }
        let which = random.below(channels.len() as u64) as usize;
        let (channel, number, offset) = &mut channels[which];
        let bytes = body(*number);
        *offset += peer.send(*channel, &bytes[*offset..]).expect("sent");
        if *offset == bytes.len() {
            (*number, *offset) = (*number + 1, 0);
            if random.below(50) == 0 {
                peer.close(*channel).expect("closed");
                channels.swap_remove(which);
            }
        }
        let _ = peer.receive_each_timeout(&mut [0; 8192], Timeout::Now, |_| {});
    }
}

/// Accepts channels, and sends back what comes.
fn own(name: &str) {
    let mut owner = Mpx::create(name, &MpxOptions::new()).expect("made");
    say(std::io::stdin(), b"up");
    let mut buffer = vec![0; 70_000];
    loop {
        let (mut asked, mut back) = (Vec::new(), Vec::new());
        let received = owner.receive_each(&mut buffer, |record| match record.kind {
            RecordKind::Open => asked.push(record.channel),
            RecordKind::Data => back.push((record.channel, record.bytes.to_vec())),
            _ => {}
        });
        received.expect("received");
        asked.into_iter().for_each(|channel| owner.accept(channel).expect("accepted"));
        for (channel, bytes) in back {
            let _ = owner.send(channel, &bytes);
        }
    }
}

fn start_in(role: &str, exchange: &Exchange) -> (Child, std::os::fd::OwnedFd) {
    let (child, socket) = start(&format!("{role}:{}", exchange.name.display()));
    assert_eq!(hear(&socket), b"up");
    (child, socket)
}

/// What came on the channels of the peers that are killed.
#[derive(Default)]
struct Seen {
    /// The next number on each channel, and what came on it.
    open: HashMap<ChannelId, (u32, Vec<u8>)>,
    asked: Vec<ChannelId>,
    records: u64,
    died: u64,
}

impl Seen {
    fn receive(&mut self, exchange: &mut Exchange, honest: ChannelId) -> Option<Vec<u8>> {
        let (mut asked, mut heard) = (std::mem::take(&mut self.asked), None);
        let mut buffer = vec![0; 70_000];
        let received = exchange.owner.receive_each_timeout(&mut buffer, Timeout::Now, |record| {
            self.records += 1;
            match record.kind {
                RecordKind::Data if record.channel == honest => heard = Some(record.bytes.to_vec()),
                RecordKind::Open => asked.push(record.channel),
                RecordKind::Data => {
                    let (next, part) = self.open.get_mut(&record.channel).expect("accepted");
                    part.extend_from_slice(record.bytes);
                    if !record.more {
                        assert!(std::mem::take(part) == body(*next), "{next} is torn or another");
                        *next += 1;
                    }
                }
                RecordKind::Close(ending) => {
                    assert_ne!(ending, Ending::ShutOut);
                    self.died += u64::from(ending == Ending::Died);
                    assert!(
                        self.open.remove(&record.channel).is_some(),
                        "closed twice, or unknown"
                    );
                }
                other => panic!("{other:?}"),
            }
        });
        drop(received);
        for channel in asked {
            exchange.owner.accept(channel).expect("accepted");
            self.open.insert(channel, (0, Vec::new()));
        }
        heard
    }
}

#[test]
fn killed_peers_hold_nobody_up_and_close_once() {
    let _alone = alone();
    let mut exchange = exchange();
    let mut honest = exchange.peer();
    let (here, there) = exchange.open(&mut honest, "honest");
    let (mut random, mut seen) = (Random(0x5eed_0003), Seen::default());
    for round in 0..kills(200) {
        let (mut child, _socket) = start_in("peer", &exchange);
        for _ in 0..random.below(60) {
            seen.receive(&mut exchange, here);
        }
        kill(&mut child);
        // The other peer is served all the time, and all channels of the killed one end.
        let wanted = round.to_le_bytes();
        honest.send(there, &wanted).expect("sent");
        let mut heard = None;
        common::until("what is left has come", || {
            heard = seen.receive(&mut exchange, here).or(heard.take());
            heard.is_some() && seen.open.is_empty() && exchange.owner.peers() == 1
        });
        assert_eq!(heard.expect("heard"), wanted);
        assert_eq!(exchange.owner.channels(), 1);
    }
    assert!(seen.died > 0 && seen.records > 0);
}

#[test]
fn peers_of_a_killed_owner_hear_of_it() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("exchange");
    let mut random = Random(0x5eed_0004);
    for _ in 0..kills(200) / 10 {
        let (mut child, socket) = start(&format!("owner:{}", name.display()));
        assert_eq!(hear(&socket), b"up");
        let error = Mpx::create(&name, &MpxOptions::new()).expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::Taken);
        let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("connected");
        let channel = peer.open(b"left").expect("opened");
        let mut got = 0;
        for number in 0..random.below(200) as u32 {
            let _ = peer.send(channel, &number.to_le_bytes());
            got += drain(&mut peer).iter().filter(|record| record.kind == RecordKind::Data).count();
        }
        kill(&mut child);
        let (mut closes, mut buffer) = (0, vec![0; 70_000]);
        let error = loop {
            let received = peer.receive_each_timeout(&mut buffer, LONG, |record| {
                got += usize::from(record.kind == RecordKind::Data);
                closes += u32::from(record.kind == RecordKind::Close(Ending::Died));
            });
            if let Err(error) = received {
                break error;
            }
        };
        assert_eq!((error.kind(), closes), (ErrorKind::Closed, 1));
        assert!(got <= 200);
        // The name is free again.
        drop(Mpx::create(&name, &MpxOptions::new()).expect("made"));
    }
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("sent");
}

#[test]
fn a_stopped_process_is_not_dead() {
    use rustix::process::{Pid, Signal};
    let _alone = alone();
    let mut here = exchange();
    let (mut child, _socket) = start_in("quiet", &here);
    let channel = receive(&mut here.owner, 1)[0].channel;
    common::stop(Pid::from_child(&child));
    here.owner.accept(channel).expect("accepted");
    here.owner.send(channel, b"while it is stopped").expect("sent");
    let time = Duration::from_millis(300);
    let error = here.owner.receive_each_timeout(&mut [0; 64], time, |_| {}).expect_err("nothing");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    signal(&child, Signal::CONT);
    kill(&mut child);
    assert_eq!(kinds(&receive(&mut here.owner, 1)), [RecordKind::Close(Ending::Died)]);

    // The owner is stopped. A peer that connects can still send.
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("exchange");
    let (mut child, socket) = start(&format!("owner:{}", name.display()));
    assert_eq!(hear(&socket), b"up");
    common::stop(Pid::from_child(&child));
    let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("connected");
    let channel = peer.open(b"patient").expect("opened");
    assert_eq!(peer.send(channel, b"early").expect("sent"), 5);
    let error = peer.receive_each_timeout(&mut [0; 64], time, |_| {}).expect_err("nothing");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(!peer.is_taken_in());
    signal(&child, Signal::CONT);
    let records = receive(&mut peer, 2);
    assert_eq!(kinds(&records), [RecordKind::Accepted, RecordKind::Data]);
    assert_eq!(records[1].bytes, b"early");
    assert!(peer.is_taken_in());
    kill(&mut child);
}

/// Receives what has come, and forks when the first record is shown. Returns the kinds that came.
fn fork_at_the_first<R>(
    side: &mut Participant<R>,
    channel: &mut Option<ChannelId>,
) -> Vec<RecordKind> {
    let mut came = Vec::new();
    let count = fork_within(|fork| {
        side.receive_each(&mut [0; 4096], |record| {
            *channel = Some(record.channel);
            came.push(record.kind);
            if came.len() == 1 {
                fork();
            }
        })
    });
    assert_eq!(count, came.len());
    came
}

/// The child that is forked there once panicked: at data, and later at each other kind.
#[test]
fn what_is_called_for_a_record_may_fork() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("mpx");
    let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("an mpx");
    let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("a peer");
    let there = peer.open(b"").expect("opened");
    let mut here = None;
    assert_eq!(fork_at_the_first(&mut owner, &mut here), [RecordKind::Open]);
    owner.accept(here.expect("a channel")).expect("accepted");
    assert_eq!(fork_at_the_first(&mut peer, &mut None), [RecordKind::Accepted]);
    for _ in 0..3 {
        assert_eq!(peer.send(there, b"record").expect("sent"), 6);
    }
    assert_eq!(fork_at_the_first(&mut owner, &mut here), [RecordKind::Data; 3]);
    assert!(peer.signal(there, 7).expect("sent") && peer.end(there).expect("sent"));
    assert_eq!(fork_at_the_first(&mut owner, &mut here), [RecordKind::Signal(7), RecordKind::End]);
    assert!(peer.end(there).expect("sent"));
    assert_eq!(fork_at_the_first(&mut owner, &mut here), [RecordKind::End]);
    // More than the lane takes.
    while peer.send(there, &[1; 4096]).expect("sent") == 4096 {}
    assert_eq!(fork_at_the_first(&mut peer, &mut None), [RecordKind::Blocked]);
    while drain_data(&mut owner) {}
    assert_eq!(fork_at_the_first(&mut peer, &mut None), [RecordKind::Unblocked]);
    peer.close(there).expect("closed");
    assert_eq!(fork_at_the_first(&mut owner, &mut here), [RecordKind::Close(Ending::Closed)]);
    assert_eq!(owner.channels(), 0);
}

/// Receives data that has come: whether there was any.
fn drain_data(owner: &mut Mpx) -> bool {
    owner.receive_each_timeout(&mut [0; 8192], Timeout::Now, |_| {}).is_ok()
}
