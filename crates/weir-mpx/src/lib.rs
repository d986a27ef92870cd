//! Records over thousands of channels: an [`Mpx`] owns them, its [`MpxPeer`]s open them.
//!
//! A *link* joins an owner and one peer. It is the peer's memory, and a socket that dies with either.
//! `sides` holds the types. The other modules, in the order of flow: `link_end` sends on a channel and
//! notifies the other side; `table` knows links and channels, and finds the channels that the other
//! side has notified; `hot` keeps the lanes at which this side looks by itself; `turn` makes the frames
//! of one channel into records, or moves it to or from the descriptors that are joined to the channel
//! (`descriptor`, `descriptors`, `joining`); `listener` takes peers in; `multiplexer` serves all
//! channels and sleeps; `waiting` lets writers run ahead and spins before a sleep; `elastic` moves what
//! accumulates to a pool (`overflow`, `backlog`); `participant`, `owner` and `peer` hold the public
//! calls. `memory` holds the memory of a link.
//!
//! A [`weir::Wait`] waits for an owner or a peer beside ends of the library, [`weir::Pollable`] puts it
//! into other reactors, and the feature `tokio` makes it a stream.

#![deny(unsafe_code)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("weir runs on 64-bit Linux only");

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
#[allow(unsafe_code, reason = "the words and bytes of a mapping")]
mod memory;
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
#[cfg(feature = "tokio")]
pub mod tokio;
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
