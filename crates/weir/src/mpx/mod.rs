//! Channels by the thousand: [`Mpx`] owns them, [`MpxPeer`] opens them.
//!
//! A *link* is what an owner and one peer share: the peer's memory, and a socket that dies with
//! either. In the order of flow: `link_end` sends on a channel and notifies the other side; `table`
//! knows links and channels, and gathers what the other side has notified; `hot` are the lanes at
//! which this side looks unasked; `turn` makes records of one channel; `multiplexer` accepts peers
//! and goes over all of that, `waiting` where there is nothing; `participant`, `owner` and `peer` are
//! what users call.

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
