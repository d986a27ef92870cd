//! Channels by the thousand: [`Mpx`] owns them, [`MpxPeer`] opens them.
//!
//! ```
//! use weir::mpx::{Answer, Kind};
//! use weir::{Mpx, MpxOptions, MpxPeer};
//! # let directory = tempfile::tempdir().expect("a directory");
//! # let name = directory.path().join("exchange");
//! let mut owner = Mpx::create(&name, &MpxOptions::new())?;
//! let mut peer = MpxPeer::connect(&name, &MpxOptions::new())?;
//! let channel = peer.open(b"greetings")?;
//! peer.send(channel, b"hello")?;
//! let mut buffer = [0; 4096];
//! let mut asking = None;
//! owner.receive_each(&mut buffer, |record| asking = Some(record.channel))?;
//! owner.answer(&[Answer::Accept(asking.expect("an open"))])?;
//! owner.receive_each(&mut buffer, |record| {
//!     assert_eq!((record.kind, record.bytes), (Kind::Data, &b"hello"[..]));
//! })?;
//! # Ok::<(), weir::Error>(())
//! ```
//!
//! A *link* is what an owner and one peer share: the peer's memory, and a socket that dies with
//! either. In the order of flow: `link_end` sends on a channel and notifies the other side; `table`
//! knows links and channels, and gathers what the other side has told; `hot` are the lanes at which
//! this side looks of itself; `turn` makes records of one channel; `participant` lets peers in and
//! goes over all of that, `waiting` where there is nothing; `owner` and `peer` are what users call.

mod home;
mod hot;
mod link_end;
mod multiplexer;
mod options;
mod owner;
mod participant;
mod peer;
mod record;
mod table;
#[cfg(test)]
mod tests;
mod turn;
mod waiting;

pub use multiplexer::{Mpx, MpxPeer, Owner, Participant, Peer};
pub use options::{MOST_PEERS, MpxOptions, MpxPeerOptions};
pub use record::{Answer, ChannelId, DEFAULT_PRIORITY, Kind, LABEL_BYTES, Record, Taken};

/// What a peer says first, with its memory.
const HELLO: &[u8] = b"weir-mpx";
/// What errors are about.
const OBJECT: &str = "the mpx";
