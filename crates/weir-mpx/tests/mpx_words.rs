//! Peers that write valid frames of an mpx without the library. The frames and their channels are the
//! peer's choice. No call of the owner takes longer than was promised, and honest peers are served
//! meanwhile (docs/contracts/mpx.md, 15).

#[path = "../../weir/tests/common/mod.rs"]
mod common;
#[path = "common/exchange.rs"]
mod exchange;
#[path = "common/mapped.rs"]
mod mapped;

use common::alone;
use exchange::{Exchange, LONG, drain, exchange, kinds, receive};
use mapped::{Mapped, mapped, mapped_by};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir::{Ending, ErrorKind, Timeout, Wait};
use weir_mpx::{ChannelId, Mpx, MpxPeer, MpxPeerOptions, Record, RecordKind};

/// The longest time of a call of 50 ms: many times what is promised, for busy machines.
const BOUND: Duration = Duration::from_secs(3);
/// The most CPU time of one call, without its waiting.
const WORK: Duration = Duration::from_millis(100);
const TIME: Duration = Duration::from_millis(50);
/// Channels of the hostile peer, and bytes of its arena.
const CHANNELS: u32 = 32;
const ARENA_BYTES: u32 = 65_536;
const PAGE: u64 = 4096;
/// Bytes of a lane, and of the ring that is always there.
const LANE: u64 = 256;
const INLINE: u64 = 128;

const OPEN: u8 = 1;
const DATA: u8 = 4;
const END: u8 = 5;
const SIGNAL: u8 = 6;
const CLOSE: u8 = 7;

/// A peer that writes its lanes without the library.
struct Words {
    link: Mapped,
    board: Mapped,
    written: [u64; CHANNELS as usize],
}

impl Words {
    fn connect(exchange: &Exchange) -> (Words, MpxPeer) {
        let options = MpxPeerOptions::new().channels(CHANNELS).arena_bytes(ARENA_BYTES);
        let connect = || MpxPeer::connect(&exchange.name, &options).expect("connected");
        let (peer, link) = mapped_by("weir-link", connect);
        let board = mapped("weir-board").remove(0);
        (Words { link, board, written: [0; CHANNELS as usize] }, peer)
    }

    fn lane(channel: u32) -> u64 {
        3 * PAGE + u64::from(channel) * 2 * LANE
    }

    /// Puts a frame into the small ring of a channel, if there is room.
    fn put(&mut self, channel: u32, kind: u8, more: bool, bytes: &[u8]) {
        let lane = Words::lane(channel);
        let written = &mut self.written[channel as usize];
        let read = self.link.word(lane + 64);
        let takes = 4 + (bytes.len() as u64).next_multiple_of(4);
        if written.wrapping_sub(read) + takes > INLINE {
            return;
        }
        let head = [bytes.len() as u8, 0, kind, u8::from(more)];
        let frame = [&head, bytes].concat();
        let position = *written;
        *written += takes;
        let written = *written;
        for (at, byte) in (position..).zip(frame) {
            self.link.write(lane + INLINE + (at & (INLINE - 1)), &[byte]);
        }
        self.link.write(lane + 8, &0_u64.to_ne_bytes());
        self.link.write(lane, &written.to_ne_bytes());
        self.ring();
    }

    /// Notifies that there is something on each of its channels.
    fn ring(&self) {
        for (map, at) in [(&self.link, PAGE), (&self.board, 0)] {
            map.write_word(at + 800, u64::MAX);
            map.write_word(at + 768, 1);
            map.write_word(at + 640, 1);
        }
    }

    /// Claims again and again, until it is stopped, that a block full of empty frames is
    /// there on each channel.
    fn flood(&self, kind: u8, is_on: &AtomicBool, goes_on: impl Fn() -> bool) {
        let arena = 3 * PAGE + u64::from(CHANNELS) * 2 * LANE;
        let frames = [0, 0, kind, 0].repeat(ARENA_BYTES as usize / 4);
        self.link.write(arena.next_multiple_of(PAGE), &frames);
        let is_read = |lane| self.link.word(lane) == self.link.word(lane + 64);
        for lane in (0..CHANNELS).map(Words::lane) {
            // Everything must have been read before it moves to the block.
            common::until("it is read", || {
                self.ring();
                is_read(lane) || !goes_on()
            });
            self.link.write(lane + 8, &(u64::from(ARENA_BYTES) << 32).to_ne_bytes());
        }
        while goes_on() {
            for lane in (0..CHANNELS).map(Words::lane) {
                let read = self.link.word(lane + 64);
                self.link.write(lane, &(read + u64::from(ARENA_BYTES)).to_ne_bytes());
            }
            self.ring();
            is_on.store(true, Ordering::Relaxed);
        }
    }
}

/// A call of the owner, and a look at what it receives.
type Call = fn(&mut Mpx, &mut dyn FnMut(Record<'_>)) -> weir::Result<usize>;

const CALLS: [(&str, Call); 3] = [
    ("receive_each_timeout", |owner, see| owner.receive_each_timeout(&mut [0; 4096], TIME, see)),
    ("receive each now", |owner, see| {
        owner.receive_each_timeout(&mut [0; 4096], Timeout::Now, see)
    }),
    ("Wait", |owner, see| {
        let mut wait = Wait::new();
        let _ = wait
            .add_borrowed((), &mut *owner)
            .and_then(|_| wait.wait_timeout(&mut Vec::new(), TIME));
        drop(wait);
        owner.receive_each_timeout(&mut [0; 4096], Timeout::Now, see)
    }),
];

/// An honest peer's record and its answer come, and each call until then returns in time.
fn honest_is_served(
    what: &str,
    call: Call,
    exchange: &mut Exchange,
    (here, there): (ChannelId, ChannelId),
    honest: &mut MpxPeer,
) {
    honest.send(there, b"ask").expect("sent");
    let (begun, mut came) = (Instant::now(), false);
    while !came {
        assert!(begun.elapsed() < 3 * BOUND, "{what}: an honest peer is held up");
        let (call_begun, had) = (Instant::now(), common::cpu_time());
        let got = call(&mut exchange.owner, &mut |record| came |= record.channel == here);
        let (took, worked) = (call_begun.elapsed(), common::cpu_time() - had);
        assert!(took < BOUND, "{what}: one call took {took:?}");
        assert!(worked < TIME + WORK, "{what}: one call used {worked:?} of a CPU");
        if let Err(error) = got {
            assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        }
    }
    exchange.owner.send(here, b"answer").expect("sent");
    assert_eq!(receive(honest, 1)[0].bytes, b"answer");
}

/// The ways to a channel of which nothing is shown.
#[derive(Clone, Copy, Debug)]
enum Channel {
    Refused,
    Closed,
    /// An open channel: each frame is a record, and they never end.
    Open,
}

#[test]
fn floods_of_sound_frames_hold_up_no_call_and_no_honest_peer() {
    let _alone = alone();
    for channel in [Channel::Refused, Channel::Closed, Channel::Open] {
        for (name, call) in CALLS {
            let mut exchange = exchange();
            let mut honest = exchange.peer();
            let ids = exchange.open(&mut honest, "honest");
            let (hostile, mut peer) = Words::connect(&exchange);
            for _ in 0..CHANNELS {
                peer.open(b"hostile").expect("opened");
                let opened = receive(&mut exchange.owner, 1).remove(0).channel;
                if let Channel::Refused = channel {
                    exchange.owner.refuse(opened, "no").expect("refused");
                    continue;
                }
                exchange.owner.accept(opened).expect("accepted");
                if let Channel::Closed = channel {
                    exchange.owner.close(opened).expect("closed");
                }
            }
            let (is_on, stop) = (AtomicBool::new(false), AtomicBool::new(false));
            let begun = Instant::now();
            std::thread::scope(|scope| {
                // It ends by itself if a call never returns.
                let goes_on = || !stop.load(Ordering::Relaxed) && begun.elapsed() < LONG;
                let (hostile, is_on) = (&hostile, &is_on);
                scope.spawn(move || hostile.flood(DATA, is_on, goes_on));
                while !is_on.load(Ordering::Relaxed) || begun.elapsed() < 10 * TIME {
                    assert!(begun.elapsed() < LONG, "the flood begins");
                    let what = format!("{channel:?}, {name}");
                    honest_is_served(&what, call, &mut exchange, ids, &mut honest);
                }
                stop.store(true, Ordering::Relaxed);
            });
            assert_eq!(exchange.owner.peers(), 2, "it kept to the words");
        }
    }
}

/// Marks and numbers of a wrong length were moved on. The peer behind a connected channel found them invalid, and
/// shut the owner out for what another peer had written.
#[test]
fn nonsense_on_a_connected_channel_is_not_moved_on() {
    let _alone = alone();
    for (kind, bytes) in [(END, &b"long"[..]), (SIGNAL, b""), (SIGNAL, b"few")] {
        let mut exchange = exchange();
        let mut honest = exchange.peer();
        let (behind, _) = exchange.open(&mut honest, "honest");
        let (mut hostile, _peer) = Words::connect(&exchange);
        common::until("it is let in", || {
            assert!(drain(&mut exchange.owner).is_empty());
            exchange.owner.peers() == 2
        });
        hostile.put(0, OPEN, false, b"hostile");
        let asked = receive(&mut exchange.owner, 1)[0].channel;
        exchange.owner.accept(asked).expect("accepted");
        exchange.owner.connect(asked, behind).expect("connected");
        hostile.put(0, kind, false, bytes);
        let shown = drain(&mut exchange.owner);
        assert_eq!(kinds(&shown), [RecordKind::Close(Ending::ShutOut)], "{kind}, {bytes:?}");
        exchange.owner.send(behind, b"goes on").expect("sent");
        assert_eq!(receive(&mut honest, 1)[0].bytes, b"goes on");
    }
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// A frame of this kind on a channel, its bytes, and whether more follows.
    Frame(u32, u8, bool, usize),
    /// This many empty frames.
    Many(u32, u8, usize),
    /// The owner accepts or refuses an open.
    Answer(bool),
    /// The owner closes a channel that it has accepted.
    Close(usize),
    /// It sends on a channel.
    Send(usize, usize),
    Receive,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = || prop_oneof![4 => Just(DATA), 3 => Just(OPEN), 2 => Just(CLOSE), 2 => 1..=7_u8];
    let bytes = prop_oneof![Just(0), Just(4), 0..64_usize];
    let step = prop_oneof![
        8 => (0..CHANNELS, kind(), prop::bool::weighted(0.1), bytes)
            .prop_map(|(channel, kind, more, bytes)| Step::Frame(channel, kind, more, bytes)),
        3 => (0..CHANNELS).prop_map(|channel| Step::Frame(channel, OPEN, false, 5)),
        3 => (0..CHANNELS).prop_map(|channel| Step::Frame(channel, DATA, false, 9)),
        1 => (0..CHANNELS, kind(), 1..32_usize)
            .prop_map(|(channel, kind, count)| Step::Many(channel, kind, count)),
        4 => prop::bool::weighted(0.7).prop_map(Step::Answer),
        2 => any::<usize>().prop_map(Step::Close),
        1 => (any::<usize>(), 0..9_000_usize).prop_map(|(which, bytes)| Step::Send(which, bytes)),
        5 => Just(Step::Receive),
    ];
    prop::collection::vec(step, 1..100)
}

/// The owner's view of the channels of the hostile peer.
#[derive(Default)]
struct Seen {
    asked: Vec<ChannelId>,
    /// Channels that it accepted and did not close: how often each has closed.
    accepted: HashMap<ChannelId, u32>,
    honest: Option<ChannelId>,
    heard: Vec<u8>,
}

impl Seen {
    fn receive(&mut self, exchange: &mut Exchange) {
        let begun = Instant::now();
        let records = drain(&mut exchange.owner);
        assert!(begun.elapsed() < BOUND, "the calls took {:?}", begun.elapsed());
        for record in records {
            match record.kind {
                _ if Some(record.channel) == self.honest => self.heard.extend(&record.bytes),
                RecordKind::Open => self.asked.push(record.channel),
                RecordKind::Close(_) if self.asked.contains(&record.channel) => {
                    self.asked.retain(|channel| *channel != record.channel);
                }
                RecordKind::Close(_) => {
                    let closes = self.accepted.get_mut(&record.channel).expect("one that is open");
                    *closes += 1;
                    assert_eq!(*closes, 1, "closed twice");
                }
                _ => assert_eq!(self.accepted.get(&record.channel), Some(&0), "{record:?}"),
            }
        }
    }

    fn open(&self, which: usize) -> Option<ChannelId> {
        let mut open: Vec<_> = self.accepted.keys().copied().collect();
        open.sort_by_key(|id| id.to_u64());
        open.get(which % open.len().max(1)).copied()
    }
}

fn act(step: Step, exchange: &mut Exchange, hostile: &mut Words, seen: &mut Seen) {
    match step {
        Step::Frame(channel, kind, more, bytes) => {
            hostile.put(channel, kind, more, &vec![7; bytes])
        }
        Step::Many(channel, kind, count) => {
            (0..count).for_each(|_| hostile.put(channel, kind, false, &[]));
        }
        Step::Answer(accept) => {
            let Some(channel) = seen.asked.pop() else { return };
            if accept {
                seen.accepted.insert(channel, 0);
                let _ = exchange.owner.accept(channel);
            } else {
                let _ = exchange.owner.refuse(channel, "no");
            }
        }
        Step::Close(which) => {
            if let Some(channel) = seen.open(which)
                && exchange.owner.close(channel).is_ok()
            {
                seen.accepted.remove(&channel);
            }
        }
        Step::Send(which, bytes) => {
            let sent = seen.open(which).map(|id| exchange.owner.send(id, &vec![8; bytes]));
            drop(sent);
        }
        Step::Receive => seen.receive(exchange),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn whatever_a_peer_says_harms_nobody_else(steps in steps()) {
        let _alone = alone();
        let mut exchange = exchange();
        let mut honest = exchange.peer();
        let (here, there) = exchange.open(&mut honest, "honest");
        let (mut hostile, peer) = Words::connect(&exchange);
        let mut seen = Seen { honest: Some(here), ..Seen::default() };
        common::until("it is let in", || {
            seen.receive(&mut exchange);
            exchange.owner.peers() == 2
        });
        for step in steps {
            act(step, &mut exchange, &mut hostile, &mut seen);
        }
        honest.send(there, b"goes on").expect("sent");
        common::until("it comes", || {
            seen.receive(&mut exchange);
            seen.heard == b"goes on"
        });
        exchange.owner.send(here, b"and back").expect("sent");
        assert_eq!(receive(&mut honest, 1)[0].bytes, b"and back");
        drop((hostile, peer));
        common::until("all has ended", || {
            seen.receive(&mut exchange);
            for channel in std::mem::take(&mut seen.asked) {
                let _ = exchange.owner.refuse(channel, "no");
            }
            exchange.owner.peers() == 1
        });
        let lost: Vec<_> = seen.accepted.iter().filter(|(_, closes)| **closes != 1).collect();
        assert!(lost.is_empty(), "{lost:?}");
        let error = exchange.owner.receive_each_timeout(&mut [0; 64], LONG / 1000, |_| {});
        assert_eq!(error.expect_err("nothing").kind(), ErrorKind::TimedOut);
    }
}
