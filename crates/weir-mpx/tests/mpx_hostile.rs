//! The promises of docs/contracts/mpx.md about peers that write anything anywhere.
//!
//! The tests spoil a peer's memory through `/proc/self/mem`, as its own process could.

#[path = "../../weir/tests/common/mod.rs"]
mod common;
#[path = "common/exchange.rs"]
mod exchange;
#[path = "common/mapped.rs"]
mod mapped;

use common::alone;
use exchange::{Exchange, LONG, drain, exchange, exchange_with, kinds, receive};
use mapped::{Mapped, mapped, mapped_by};
use proptest::prelude::*;
use std::collections::HashMap;
use weir::{Ending, ErrorKind};
use weir_mpx::{ChannelId, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};

/// A peer whose memory the test can write.
fn hostile(exchange: &Exchange, options: &MpxPeerOptions) -> (MpxPeer, Mapped) {
    let connect = || MpxPeer::connect(&exchange.name, options).expect("connected");
    mapped_by("weir-link", connect)
}

#[derive(Clone, Debug)]
enum Step {
    /// Spoils a word of the header, the boards or the lanes.
    Spoil(u64, u64),
    /// Changes a position or a place a little.
    Bend(u64, u64),
    Open,
    Send(usize, usize),
    Close(usize),
    Hear,
    Receive,
    Answer(bool),
    Reply(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let word = prop_oneof![any::<u64>(), 0..200_u64, Just(0), Just(u64::MAX), Just(1 << 44)];
    let step = prop_oneof![
        1 => (any::<u64>(), word).prop_map(|(at, word)| Step::Spoil(at, word)),
        1 => (any::<u64>(), 0..300_u64).prop_map(|(at, word)| Step::Bend(at, word)),
        3 => Just(Step::Open),
        4 => (any::<usize>(), 0..9_000_usize).prop_map(|(which, count)| Step::Send(which, count)),
        1 => any::<usize>().prop_map(Step::Close),
        2 => Just(Step::Hear),
        4 => Just(Step::Receive),
        3 => prop::bool::weighted(0.8).prop_map(Step::Answer),
        2 => (any::<usize>(), 0..9_000_usize).prop_map(|(which, count)| Step::Reply(which, count)),
    ];
    prop::collection::vec(step, 1..120)
}

/// The owner's view of channels: how often each has closed.
#[derive(Default)]
struct Seen {
    asked: Vec<ChannelId>,
    accepted: HashMap<ChannelId, u32>,
    /// What came on the other peer's channel.
    honest: Option<ChannelId>,
    heard: Vec<u8>,
}

impl Seen {
    fn receive(&mut self, exchange: &mut Exchange) {
        for record in drain(&mut exchange.owner) {
            match record.kind {
                _ if Some(record.channel) == self.honest => self.heard.extend(&record.bytes),
                RecordKind::Open => self.asked.push(record.channel),
                RecordKind::Close(_) => {
                    self.asked.retain(|channel| *channel != record.channel);
                    if let Some(closes) = self.accepted.get_mut(&record.channel) {
                        *closes += 1;
                        assert_eq!(*closes, 1, "closed twice");
                    }
                }
                _ => assert_eq!(self.accepted.get(&record.channel), Some(&0), "{record:?}"),
            }
        }
    }
}

fn act(step: Step, exchange: &mut Exchange, peer: &mut MpxPeer, map: &Mapped, seen: &mut Seen) {
    let ids = |seen: &Seen| seen.accepted.keys().copied().collect::<Vec<_>>();
    match step {
        Step::Spoil(at, word) => {
            let bytes = map.bytes.min(3 * 4096 + 16 * 512);
            map.write_word(at % (bytes / 8) * 8, word);
        }
        Step::Bend(at, word) => {
            // The words of the first lanes.
            let line = at / 4 % 16 * 256 + [0, 8, 64, 72][at as usize % 4];
            map.write_word(3 * 4096 + line, word);
        }
        Step::Open => drop(peer.open(b"hostile")),
        Step::Send(which, count) => {
            let id = ChannelId::from_u64((1 << 32) + which as u64 % 8);
            let _ = peer.send(id, &vec![7; count]);
        }
        Step::Close(which) => {
            let _ = peer.close(ChannelId::from_u64((1 << 32) + which as u64 % 8));
        }
        Step::Hear => drop(drain(peer)),
        Step::Receive => seen.receive(exchange),
        Step::Answer(accept) => {
            let Some(channel) = seen.asked.pop() else { return };
            if accept {
                seen.accepted.insert(channel, 0);
                let _ = exchange.owner.accept(channel);
            } else {
                exchange.owner.refuse(channel, "no").expect("asked");
            }
        }
        Step::Reply(which, count) => {
            let ids = ids(seen);
            if let Some(channel) = ids.get(which % ids.len().max(1)) {
                let _ = exchange.owner.send(*channel, &vec![8; count]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn whatever_a_peer_writes_harms_nobody_else(steps in steps()) {
        let _alone = alone();
        let mut exchange = exchange();
        let mut honest = exchange.peer();
        let (here, there) = exchange.open(&mut honest, "honest");
        let options = MpxPeerOptions::new().channels(8).arena_bytes(65_536);
        let (mut peer, map) = hostile(&exchange, &options);
        let mut seen = Seen { honest: Some(here), ..Seen::default() };
        for step in steps {
            act(step, &mut exchange, &mut peer, &map, &mut seen);
        }
        seen.receive(&mut exchange);
        honest.send(there, b"goes on").expect("sent");
        common::until("it comes", || {
            seen.receive(&mut exchange);
            seen.heard == b"goes on"
        });
        exchange.owner.send(here, b"and back").expect("sent");
        assert_eq!(receive(&mut honest, 1)[0].bytes, b"and back");
        drop(peer);
        // Opens that are left are answered. Then each accepted channel has closed once.
        common::until("all has ended", || {
            seen.receive(&mut exchange);
            for channel in std::mem::take(&mut seen.asked) {
                let _ = exchange.owner.refuse(channel, "no");
            }
            exchange.owner.peers() == 1
        });
        let lost: Vec<_> = seen.accepted.iter().filter(|(_, closes)| **closes != 1).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}

#[test]
fn nonsense_shuts_a_peer_out() {
    let _alone = alone();
    let mut exchange = exchange();
    let mut honest = exchange.peer();
    exchange.open(&mut honest, "honest");
    let (mut peer, map) = hostile(&exchange, &MpxPeerOptions::new());
    let channels = [exchange.open(&mut peer, "one"), exchange.open(&mut peer, "two")];
    // The position of the peer's second lane.
    map.write_word(3 * 4096 + 512, 3);
    peer.send(channels[0].1, b"x").expect("sent");
    let mut ended = 0;
    common::until("both have ended", || {
        for record in drain(&mut exchange.owner) {
            if record.kind != RecordKind::Data {
                assert_eq!(record.kind, RecordKind::Close(Ending::ShutOut));
                ended += 1;
            }
        }
        // Invalid frames of which no bit tells are found by the look at all links.
        let _ = peer.send(channels[1].1, b"x");
        map.write_word(3 * 4096 + 512, 3);
        ended == 2
    });
    assert_eq!((exchange.owner.peers(), exchange.owner.channels()), (1, 1));
    let ended = receive(&mut peer, 2);
    assert_eq!(
        kinds(&ended),
        [RecordKind::Close(Ending::Closed); 2],
        "it sees that the owner hung up"
    );
}

#[test]
fn a_spoilt_board_holds_nobody_up_for_long() {
    let _alone = alone();
    let mut exchange = exchange();
    let mut honest = exchange.peer();
    let (_, there) = exchange.open(&mut honest, "honest");
    let board = mapped("weir-board").remove(0);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                board.write(0, &[0; 4096]);
            }
        });
        for number in 0..20_u8 {
            honest.send(there, &[number]).expect("sent");
            assert_eq!(receive(&mut exchange.owner, 1)[0].bytes, [number]);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn who_hands_over_no_link_is_refused() {
    let _alone = alone();
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect};
    let mut exchange = exchange_with(&MpxOptions::new());
    let dial = || {
        let kind = SocketType::SEQPACKET;
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(family, kind, flags, None).expect("a socket");
        let address = SocketAddrUnix::new(&exchange.name).expect("an address");
        connect(&socket, &address).expect("connected");
        socket
    };
    let (silent, wrong, empty) = (dial(), dial(), dial());
    common::say(&wrong, b"weir-mpx");
    drop(empty);
    let error =
        exchange.owner.receive_each_timeout(&mut [0; 64], LONG / 100, |_| {}).expect_err("no");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let said = common::hear(&wrong);
    assert!(said.starts_with(b"weir-no "), "{}", said.escape_ascii());
    let mut peer = exchange.peer();
    exchange.open(&mut peer, "meanwhile");
    drop(silent);
}
