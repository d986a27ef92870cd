//! Channels by the thousand: [`Mpx`] owns them, [`MpxPeer`] opens them.
//!
//! A *link* joins an owner and one peer. It is the peer's memory, and a socket that dies with either.
//! `sides` holds the types. The other modules, in the order of flow: `link_end` sends on a channel and
//! notifies the other side; `table` knows links and channels, and finds the channels that the other
//! side has notified; `hot` keeps the lanes at which this side looks by itself; `turn` makes the frames
//! of one channel into records, or moves it to or from the descriptors that are joined to the channel
//! (`descriptor`, `descriptors`, `joining`); `listener` takes peers in; `multiplexer` serves all
//! channels and sleeps; `waiting` lets writers run ahead and spins before a sleep; `elastic` moves what
//! accumulates to a pool (`overflow`, `backlog`); `participant`, `owner` and `peer` hold the public
//! calls.

mod backlog;
mod blocks;
mod channels;
mod descriptor;
mod descriptors;
mod elastic;
mod home;
mod hot;
mod joining;
mod link_end;
mod listener;
mod multiplexer;
mod options;
mod other_side;
mod overflow;
mod owner;
mod participant;
mod peer;
mod record;
mod sides;
mod table;
#[cfg(test)]
mod tests;
mod turn;
mod waiting;

pub use elastic::{ElasticMpx, ElasticMpxPeer, ElasticParticipant, Locked};
pub use options::{MOST_PEERS, MpxOptions, MpxPeerOptions};
pub use record::{Answer, ChannelId, DEFAULT_PRIORITY, LABEL_BYTES, Record, RecordKind, Taken};
pub use sides::{Mpx, MpxPeer, Owner, Participant, Peer};

/// The first message of a peer, sent with its memory.
const HELLO: &[u8] = b"weir-mpx";
/// The object that errors name.
const OBJECT: &str = "the mpx";
