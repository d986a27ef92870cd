//! The promises of docs/contracts/mpx.md about numbers: channels, peers, memory.

#[path = "../../weir/tests/common/mod.rs"]
mod common;
#[path = "common/exchange.rs"]
mod exchange;

use common::{alone, private_bytes};
use exchange::{LONG, drain, exchange};
use std::collections::HashMap;
use weir::Ending;
use weir_mpx::{Mpx, MpxPeer, MpxPeerOptions, RecordKind};

/// Accepts channels until there are this many.
fn accept_all(owner: &mut Mpx, count: usize) {
    let mut accepted = 0;
    let mut buffer = [0; 4096];
    while accepted < count {
        let mut asked = Vec::new();
        owner
            .receive_each_timeout(&mut buffer, LONG, |record| {
                assert_eq!(record.kind, RecordKind::Open);
                asked.push(record.channel);
            })
            .expect("received");
        accepted += asked.len();
        asked.iter().for_each(|channel| owner.accept(*channel).expect("accepted"));
    }
}

#[test]
fn ten_thousand_channels() {
    const CHANNELS: usize = 10_000;
    let _alone = alone();
    let mut exchange = exchange();
    let options = MpxPeerOptions::new().channels(CHANNELS as u32);
    let mut peer = MpxPeer::connect(&exchange.name, &options).expect("connected");
    let before = private_bytes();
    let there: Vec<_> = (0..CHANNELS).map(|_| peer.open(b"one of many").expect("open")).collect();
    accept_all(&mut exchange.owner, CHANNELS);
    let mut accepted = 0;
    while accepted < CHANNELS {
        accepted += peer
            .receive_each_timeout(&mut [0; 64], LONG, |record| {
                assert_eq!(record.kind, RecordKind::Accepted)
            })
            .expect("received");
    }
    // Both sides are in this process.
    let each = private_bytes().saturating_sub(before) / CHANNELS / 2;
    assert!(each <= 256, "{each} private bytes a channel and side");
    for round in 0..3_u8 {
        for (number, channel) in there.iter().enumerate() {
            let bytes = [&number.to_le_bytes()[..], &[round]].concat();
            assert_eq!(peer.send(*channel, &bytes).expect("sent"), 9);
        }
        let (mut got, mut of) = (0, HashMap::new());
        while got < CHANNELS {
            got += exchange
                .owner
                .receive_each_timeout(&mut [0; 64], LONG, |record| {
                    *of.entry(record.channel).or_insert(0) += 1;
                    assert_eq!(record.bytes[8], round);
                })
                .expect("received");
        }
        assert!(of.len() == CHANNELS && of.values().all(|count| *count == 1));
    }
    drop(peer);
    let mut closed = 0;
    while closed < CHANNELS {
        closed += exchange
            .owner
            .receive_each_timeout(&mut [0; 64], LONG, |record| {
                assert_eq!(record.kind, RecordKind::Close(Ending::Closed));
            })
            .expect("received");
    }
    assert_eq!((exchange.owner.peers(), exchange.owner.channels()), (0, 0));
}

#[test]
fn idle_channels_cost_what_is_said() {
    let _alone = alone();
    let shared = |channels: u32| {
        let exchange = exchange();
        let options = MpxPeerOptions::new().channels(channels).arena_bytes(0);
        let _peer = MpxPeer::connect(&exchange.name, &options).expect("connected");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("there");
        let line = maps.lines().find(|line| line.contains("weir-link")).expect("mapped");
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let (from, to) = range.expect("a range");
        let number = |text| usize::from_str_radix(text, 16).expect("a number");
        number(to) - number(from)
    };
    let difference = shared(10_008) - shared(8);
    assert_eq!(difference, 10_000 * 512, "512 bytes each");
}

#[test]
fn a_thousand_peers() {
    const PEERS: usize = 1_000;
    let _alone = alone();
    if !has_descriptors(3 * PEERS as u64 + 200) {
        eprintln!("SKIPPED: too few descriptors are allowed for both sides in one process");
        return;
    }
    let mut exchange = exchange();
    let options = MpxPeerOptions::new().channels(4).arena_bytes(0);
    let mut peers: Vec<_> = (0..PEERS)
        .map(|number| {
            let mut peer = MpxPeer::connect(&exchange.name, &options).expect("connected");
            let channel = peer.open(b"mine").expect("opened");
            peer.send(channel, &number.to_le_bytes()).expect("sent");
            (peer, channel)
        })
        .collect();
    accept_all(&mut exchange.owner, PEERS);
    let (mut came, mut channels) = (vec![false; PEERS], Vec::new());
    while channels.len() < PEERS {
        exchange
            .owner
            .receive_each_timeout(&mut [0; 64], LONG, |record| {
                let number = usize::from_le_bytes(record.bytes.try_into().expect("eight"));
                assert!(!std::mem::replace(&mut came[number], true), "twice");
                channels.push((record.channel, number));
            })
            .expect("received");
    }
    assert_eq!(exchange.owner.peers(), PEERS);
    // For each peer this process has a socket of either side, and the memory that the peer keeps.
    let of = |start: &str| {
        let to = std::fs::read_dir("/proc/self/fd").expect("there").flatten();
        let to = to.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        to.filter(|to| to.to_string_lossy().starts_with(start)).count()
    };
    assert_eq!(of("/memfd:weir-link"), PEERS);
    let others = of("") - PEERS;
    assert!(others < 2 * PEERS + 100, "{others}");
    for (channel, number) in &channels {
        exchange.owner.send(*channel, &number.to_le_bytes()).expect("sent");
    }
    for (number, (peer, channel)) in peers.iter_mut().enumerate() {
        let records = drain(peer);
        assert_eq!(records.len(), 2);
        assert_eq!(
            (records[1].channel, &records[1].bytes[..]),
            (*channel, &number.to_le_bytes()[..])
        );
    }
    peers.truncate(1);
    let mut closed = 0;
    while closed < PEERS - 1 {
        let see = |kind| assert_eq!(kind, RecordKind::Close(Ending::Closed));
        closed += exchange
            .owner
            .receive_each_timeout(&mut [0; 64], LONG, |record| see(record.kind))
            .expect("received");
    }
    assert_eq!(exchange.owner.peers(), 1);
}

/// Raises the limit of descriptors to this many, if it may.
fn has_descriptors(count: u64) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= count);
    enough(current)
        || enough(maximum)
            && setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum }).is_ok()
}
