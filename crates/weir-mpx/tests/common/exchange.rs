//! An owner of an mpx and peers of it, for tests.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::PathBuf;
use std::time::Duration;
use weir::Timeout;
use weir_mpx::{ChannelId, Mpx, MpxOptions, MpxPeer, MpxPeerOptions, Record, RecordKind};

/// The limit for anything that takes almost no time.
pub const LONG: Duration = Duration::from_secs(20);

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub channel: ChannelId,
    pub path: Vec<ChannelId>,
    pub kind: RecordKind,
    pub more: bool,
    pub bytes: Vec<u8>,
}

/// What both sides do in the same way.
pub trait Receives {
    fn all_for(&mut self, time: Duration, see: &mut dyn FnMut(Kept)) -> weir::Result<usize>;
    fn all_now(&mut self, see: &mut dyn FnMut(Kept)) -> weir::Result<usize>;
}

macro_rules! receives {
    ($end:ty) => {
        impl Receives for $end {
            fn all_for(
                &mut self,
                time: Duration,
                see: &mut dyn FnMut(Kept),
            ) -> weir::Result<usize> {
                self.receive_each_timeout(&mut vec![0; 70_000], time, |record| see(kept(&record)))
            }

            fn all_now(&mut self, see: &mut dyn FnMut(Kept)) -> weir::Result<usize> {
                self.receive_each_timeout(&mut vec![0; 70_000], Timeout::Now, |record| {
                    see(kept(&record))
                })
            }
        }
    };
}

receives!(Mpx);
receives!(MpxPeer);

/// Copies a record.
pub fn kept(record: &Record<'_>) -> Kept {
    Kept {
        channel: record.channel,
        path: record.path.to_vec(),
        kind: record.kind,
        more: record.more,
        bytes: record.bytes.to_vec(),
    }
}

/// Receives until there are this many records.
pub fn receive(end: &mut impl Receives, count: usize) -> Vec<Kept> {
    let mut all = Vec::new();
    while all.len() < count {
        end.all_for(LONG, &mut |record| all.push(record)).expect("received");
    }
    assert_eq!(all.len(), count, "{all:?}");
    all
}

/// Receives everything that is there now.
pub fn drain(end: &mut impl Receives) -> Vec<Kept> {
    let mut all = Vec::new();
    while end.all_now(&mut |record| all.push(record)).is_ok() {}
    all
}

/// An owner, and its name.
pub struct Exchange {
    pub name: PathBuf,
    pub owner: Mpx,
    _directory: tempfile::TempDir,
}

/// Makes an owner with the default sizes.
pub fn exchange() -> Exchange {
    exchange_with(&MpxOptions::new())
}

/// Makes an owner with these options.
pub fn exchange_with(options: &MpxOptions) -> Exchange {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("exchange");
    let owner = Mpx::create(&name, options).expect("made");
    Exchange { name, owner, _directory: directory }
}

impl Exchange {
    /// Connects one more peer.
    pub fn peer(&self) -> MpxPeer {
        MpxPeer::connect(&self.name, &MpxPeerOptions::new()).expect("connected")
    }

    /// Opens a channel and accepts it. Returns its id at the owner and at the peer.
    pub fn open(&mut self, peer: &mut MpxPeer, label: &str) -> (ChannelId, ChannelId) {
        let there = peer.open(label.as_bytes()).expect("opened");
        let opened = receive(&mut self.owner, 1).remove(0);
        assert_eq!((opened.kind, &opened.bytes[..]), (RecordKind::Open, label.as_bytes()));
        self.owner.accept(opened.channel).expect("accepted");
        let accepted = receive(peer, 1).remove(0);
        assert_eq!((accepted.kind, accepted.channel), (RecordKind::Accepted, there));
        (opened.channel, there)
    }
}

/// The kinds of these records.
pub fn kinds(records: &[Kept]) -> Vec<RecordKind> {
    records.iter().map(|record| record.kind).collect()
}
