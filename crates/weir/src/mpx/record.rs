//! What comes of channels, and how it is answered.

use crate::connect::peer::Ending;
use crate::error::{Error, ErrorKind};
use std::fmt;

/// Longest label of a channel, and longest reason of a refusal, in bytes.
pub const LABEL_BYTES: usize = 64;
/// The priority of a channel of which nothing else was said, in the middle of 0 to 63.
pub const DEFAULT_PRIORITY: u8 = 32;

/// One channel, of one participant: it names no other, ever, also once the channel has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl ChannelId {
    /// As a number, to keep it elsewhere.
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// From the number it was made. What never was one is refused where it is used.
    pub fn from_u64(number: u64) -> ChannelId {
        ChannelId { index: number as u32, generation: (number >> 32) as u32 }
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// At the owner: a peer wants a channel, of the label that is in the bytes. It is to be
    /// accepted or refused.
    Open,
    /// At the peer: the owner has accepted the channel.
    Accepted,
    /// At the peer: the owner has refused the channel, for the reason that is in the bytes. It has
    /// ended.
    Refused,
    /// Bytes.
    Data,
    /// A mark the sender set; the channel goes on.
    End,
    /// A number the sender sent.
    Signal(u32),
    /// The channel has ended. There is no more of it.
    Close(Ending),
    /// A send was not taken whole.
    Blocked,
    /// There is room again.
    Unblocked,
}

/// What came of a channel.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Record<'a> {
    /// The channel, of the participant that [`Record::path`] leads to.
    pub channel: ChannelId,
    /// Of what came by way of another mpx that was joined: its channel here, and so on. Else
    /// empty.
    pub path: &'a [ChannelId],
    /// What it is.
    pub kind: Kind,
    /// Of data: the rest of what was sent follows in the next record of the channel.
    pub more: bool,
    /// Data, label or reason.
    pub bytes: &'a [u8],
}

/// One of many answers: see [`super::Mpx::answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// Accept it.
    Accept(ChannelId),
    /// Refuse it, for this reason.
    Refuse(ChannelId, &'a str),
    /// Send bytes.
    Send(ChannelId, &'a [u8]),
    /// Set a mark.
    End(ChannelId),
    /// Send a number.
    Signal(ChannelId, u32),
    /// Close it.
    Close(ChannelId),
}

/// What became of one of many answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Taken {
    /// All of it was done.
    Whole,
    /// Of bytes so many were taken, of a mark or a number nothing: the channel is full. A record
    /// says so too, and another once there is room.
    Bytes(usize),
    /// Nothing was done, for this reason, as the call for one would say.
    Not(ErrorKind),
}

pub(super) fn invalid(operation: &'static str, channel: ChannelId) -> Error {
    let object = format!("channel {channel}");
    Error::new(ErrorKind::Invalid, operation, object, "there is none of that number, or no more")
}
