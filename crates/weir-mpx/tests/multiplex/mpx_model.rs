//! An mpx beside a simple model: a list of what was sent, for each direction of each channel.

use crate::common;
use crate::common::patterned;
use crate::exchange::{Exchange, Kept, drain, exchange};
use proptest::prelude::*;
use std::collections::HashMap;
use weir::Ending;
use weir_mpx::{ChannelId, MpxPeer, MpxPeerOptions, RecordKind};

const PEERS: usize = 2;

/// What was sent or received: bytes, ends of sends between them, marks, numbers, the end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Byte(u8),
    Whole,
    End,
    Signal(u32),
    Close,
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Answer(usize, bool),
    Send(bool, usize, usize),
    End(bool, usize),
    Signal(bool, usize, u32),
    Close(bool, usize),
    Receive,
    Hear(usize),
    Rank(usize, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (side, which) = (any::<bool>(), any::<usize>());
    let length = prop_oneof![1..40_usize, 90..130_usize, 1..9_000_usize, 1..90_000_usize];
    let step = prop_oneof![
        3 => (0..PEERS).prop_map(Step::Open),
        3 => (which, prop::bool::weighted(0.8)).prop_map(|(which, yes)| Step::Answer(which, yes)),
        6 => (side, which, length).prop_map(|(side, which, n)| Step::Send(side, which, n)),
        1 => (side, which).prop_map(|(side, which)| Step::End(side, which)),
        1 => (side, which, any::<u32>()).prop_map(|(side, which, n)| Step::Signal(side, which, n)),
        1 => (side, which).prop_map(|(side, which)| Step::Close(side, which)),
        3 => Just(Step::Receive),
        3 => (0..PEERS).prop_map(Step::Hear),
        1 => (which, 0..64_u8).prop_map(|(which, priority)| Step::Rank(which, priority)),
    ];
    prop::collection::vec(step, 1..150)
}

/// One side of a channel in the model.
#[derive(Default)]
struct End {
    id: Option<ChannelId>,
    sent: Vec<Item>,
    got: Vec<Item>,
    /// This side has closed it, and nothing more comes on it.
    closed: bool,
    blocked: bool,
}

/// A channel: the owner's side, and the peer's.
#[derive(Default)]
struct Channel {
    peer: usize,
    ends: [End; 2],
    accepted: bool,
    refused: bool,
}

struct Both {
    exchange: Exchange,
    peers: Vec<MpxPeer>,
    channels: Vec<Channel>,
    asked: Vec<usize>,
    /// By side (0 is the owner), peer and number.
    known: HashMap<(usize, usize, ChannelId), usize>,
}

impl Both {
    fn new() -> Both {
        let mut exchange = exchange();
        let options = MpxPeerOptions::new().channels(6).arena_bytes(65_536);
        let connect = || MpxPeer::connect(&exchange.name, &options).expect("connected");
        let peers: Vec<_> = (0..PEERS).map(|_| connect()).collect();
        common::until("they are let in", || {
            assert!(drain(&mut exchange.owner).is_empty());
            exchange.owner.peers() == PEERS
        });
        let (channels, asked, known) = (Vec::new(), Vec::new(), HashMap::new());
        Both { exchange, peers, channels, asked, known }
    }

    fn open(&mut self, peer: usize) {
        let label = (self.channels.len() as u32).to_le_bytes();
        let Ok(id) = self.peers[peer].open(&label) else { return };
        self.known.insert((1, peer, id), self.channels.len());
        let mut channel = Channel { peer, ..Channel::default() };
        channel.ends[1].id = Some(id);
        self.channels.push(channel);
    }

    fn answer(&mut self, which: usize, yes: bool) {
        if self.asked.is_empty() {
            return;
        }
        let number = self.asked.remove(which % self.asked.len());
        let id = self.channels[number].ends[0].id.expect("asked");
        if yes {
            self.exchange.owner.accept(id).expect("asked for");
            self.channels[number].accepted = true;
        } else {
            self.exchange.owner.refuse(id, "no").expect("asked for");
            self.channels[number].refused = true;
        }
    }

    /// A channel on which a side may send.
    fn sending(&self, side: usize, which: usize) -> Option<(usize, ChannelId)> {
        let may = |channel: &Channel| {
            let own = &channel.ends[side];
            let known = own.id.is_some() && !own.closed && own.got.last() != Some(&Item::Close);
            known && (side == 1 || channel.accepted)
        };
        let numbers: Vec<_> =
            (0..self.channels.len()).filter(|number| may(&self.channels[*number])).collect();
        let number = *numbers.get(which % numbers.len().max(1))?;
        Some((number, self.channels[number].ends[side].id?))
    }

    fn send(&mut self, side: usize, which: usize, length: usize) {
        let Some((number, id)) = self.sending(side, which) else { return };
        let bytes = patterned(length, number + length);
        let taken = match side {
            0 => self.exchange.owner.send(id, &bytes),
            _ => self.peers[self.channels[number].peer].send(id, &bytes),
        };
        let taken = taken.expect("there");
        let end = &mut self.channels[number].ends[side];
        end.sent.extend(bytes[..taken].iter().map(|byte| Item::Byte(*byte)));
        if taken == length {
            end.sent.push(Item::Whole);
        }
    }

    fn send_small(&mut self, side: usize, which: usize, signal: Option<u32>) {
        let Some((number, id)) = self.sending(side, which) else { return };
        let (owner, peer) = (&mut self.exchange.owner, &mut self.peers[self.channels[number].peer]);
        let taken = match (side, signal) {
            (0, None) => owner.end(id),
            (0, Some(signal)) => owner.signal(id, signal),
            (_, None) => peer.end(id),
            (_, Some(signal)) => peer.signal(id, signal),
        };
        if taken.expect("there") {
            let item = signal.map_or(Item::End, Item::Signal);
            self.channels[number].ends[side].sent.push(item);
        }
    }

    fn close(&mut self, side: usize, which: usize) {
        let Some((number, id)) = self.sending(side, which) else { return };
        match side {
            0 => self.exchange.owner.close(id),
            _ => self.peers[self.channels[number].peer].close(id),
        }
        .expect("there");
        let end = &mut self.channels[number].ends[side];
        end.sent.push(Item::Close);
        end.closed = true;
    }

    fn receive(&mut self) -> usize {
        let records = drain(&mut self.exchange.owner);
        let count = records.len();
        for record in records {
            if record.kind == RecordKind::Open {
                let label = record.bytes[..].try_into().expect("four");
                let number = u32::from_le_bytes(label) as usize;
                let peer = self.channels[number].peer;
                self.channels[number].ends[0].id = Some(record.channel);
                assert!(self.known.insert((0, 0, record.channel), number).is_none(), "a new id");
                assert!(peer < PEERS);
                self.asked.push(number);
            } else {
                let number = self.known[&(0, 0, record.channel)];
                note(&mut self.channels[number].ends[0], record);
            }
        }
        count
    }

    fn hear(&mut self, peer: usize) -> usize {
        let records = drain(&mut self.peers[peer]);
        let count = records.len();
        for record in records {
            let channel = &mut self.channels[self.known[&(1, peer, record.channel)]];
            match record.kind {
                RecordKind::Accepted => assert!(channel.accepted),
                RecordKind::Refused => {
                    assert!(channel.refused && record.bytes == b"no");
                    channel.ends[1].got.push(Item::Close);
                }
                _ => note(&mut channel.ends[1], record),
            }
        }
        count
    }
}

fn note(end: &mut End, record: Kept) {
    assert!(!end.closed, "it is closed, and {record:?} came");
    assert_ne!(end.got.last(), Some(&Item::Close), "it has ended, and {record:?} came");
    match record.kind {
        RecordKind::Data => {
            end.got.extend(record.bytes.iter().map(|byte| Item::Byte(*byte)));
            if !record.more {
                end.got.push(Item::Whole);
            }
        }
        RecordKind::End => end.got.push(Item::End),
        RecordKind::Signal(number) => end.got.push(Item::Signal(number)),
        RecordKind::Close(Ending::Closed) => end.got.push(Item::Close),
        RecordKind::Blocked => assert!(!std::mem::replace(&mut end.blocked, true), "twice"),
        RecordKind::Unblocked => assert!(std::mem::take(&mut end.blocked), "it was not"),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn behaves_as_lists_do(steps in steps()) {
        let mut both = Both::new();
        for step in steps {
            match step {
                Step::Open(peer) => both.open(peer),
                Step::Answer(which, yes) => both.answer(which, yes),
                Step::Send(side, which, length) => both.send(side.into(), which, length),
                Step::End(side, which) => both.send_small(side.into(), which, None),
                Step::Signal(side, which, n) => both.send_small(side.into(), which, Some(n)),
                Step::Close(side, which) => both.close(side.into(), which),
                Step::Receive => drop(both.receive()),
                Step::Hear(peer) => drop(both.hear(peer)),
                Step::Rank(which, priority) => {
                    if let Some((_, id)) = both.sending(0, which) {
                        both.exchange.owner.set_priority(id, priority).expect("there");
                    }
                }
            }
        }
        // Receives to the end.
        loop {
            let mut moved = both.receive();
            moved += both.asked.len();
            while !both.asked.is_empty() {
                both.answer(0, true);
            }
            moved += (0..PEERS).map(|peer| both.hear(peer)).sum::<usize>();
            if moved == 0 {
                break;
            }
        }
        for (number, channel) in both.channels.iter().enumerate() {
            for (side, end) in channel.ends.iter().enumerate() {
                let other = &channel.ends[1 - side];
                let ended = end.closed || channel.refused;
                prop_assert!(ended || end.got == other.sent, "channel {number}, side {side}");
                prop_assert!(
                    other.sent.starts_with(&end.got) || channel.refused,
                    "channel {number}, side {side}"
                );
                let over = ended || other.closed || end.got.last() == Some(&Item::Close);
                prop_assert!(over || !end.blocked, "channel {number}, side {side} stays blocked");
            }
        }
        let open = both.channels.iter().filter(|channel| {
            channel.accepted && !channel.ends.iter().any(|end| end.closed)
        });
        prop_assert_eq!(both.exchange.owner.channels(), open.count());
    }
}
