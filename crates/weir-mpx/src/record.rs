//! The records that come on channels, and the answers to them.

use std::fmt;
use weir::{Ending, Error, ErrorKind};

/// The longest label of a channel, and the longest reason of a refusal, in bytes.
pub const LABEL_BYTES: usize = 64;
/// The priority of a channel that was given none, in the middle of 0 to 63.
pub const DEFAULT_PRIORITY: u8 = 32;

/// The name of one channel of one participant. It never names another, even after the channel has
/// ended.
///
/// ```
/// use weir_mpx::ChannelId;
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let _owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// let channel = peer.open(b"log")?;
/// let number = channel.to_u64();
/// assert_eq!(ChannelId::from_u64(number), channel);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl ChannelId {
    /// Turns it into a number, to keep it elsewhere.
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Makes it from the number of [`ChannelId::to_u64`]. Calls refuse a number that names no channel.
    pub fn from_u64(number: u64) -> ChannelId {
        ChannelId { index: number as u32, generation: (number >> 32) as u32 }
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

/// The kind of a record.
///
/// ```
/// use weir_mpx::RecordKind;
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let mut owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// peer.open(b"log")?;
/// let mut kinds = Vec::new();
/// owner.receive_each(&mut [0; 4096], |record| kinds.push(record.kind))?;
/// assert_eq!(kinds, [RecordKind::Open]);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordKind {
    /// At the owner: a peer wants a channel; the bytes are its label. The owner accepts or refuses
    /// it.
    Open,
    /// At the peer: the owner has accepted the channel.
    Accepted,
    /// At the peer: the owner has refused the channel, which has ended. The bytes are the reason.
    Refused,
    /// Bytes.
    Data,
    /// A mark that the sender set. The channel continues.
    End,
    /// A number that the sender sent.
    Signal(u32),
    /// The channel has ended. This is its last record.
    Close(Ending),
    /// A send was not taken whole.
    Blocked,
    /// There is room again.
    Unblocked,
    /// The descriptors that were joined to the channel have ended, and the channel continues. The
    /// bytes say why, if it was for an error.
    Released,
}

/// Something that came on a channel.
///
/// ```
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let mut owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// peer.open(b"log")?;
/// let mut label = Vec::new();
/// owner.receive_each(&mut [0; 4096], |record| label.extend_from_slice(record.bytes))?;
/// assert_eq!(label, b"log");
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Record<'a> {
    /// The channel, as named by the participant that [`Record::path`] leads to.
    pub channel: ChannelId,
    /// The way to a joined mpx: its channel here, then the next one's channel there, and so on.
    /// Empty for this participant's own channels.
    pub path: &'a [ChannelId],
    /// The kind.
    pub kind: RecordKind,
    /// With data: the rest of what was sent follows in the next record of the channel.
    pub more: bool,
    /// The data, label or reason.
    pub bytes: &'a [u8],
}

/// One of many answers, for [`super::Mpx::answer`].
///
/// ```
/// use weir_mpx::{Answer, Taken};
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let mut owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// peer.open(b"log")?;
/// let mut opened = Vec::new();
/// owner.receive_each(&mut [0; 4096], |record| opened.push(record.channel))?;
/// let answers = [Answer::Accept(opened[0]), Answer::Send(opened[0], b"welcome")];
/// assert_eq!(owner.answer(&answers)?, [Taken::Whole, Taken::Whole]);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// Accepts the channel.
    Accept(ChannelId),
    /// Refuses the channel, for this reason.
    Refuse(ChannelId, &'a str),
    /// Sends bytes.
    Send(ChannelId, &'a [u8]),
    /// Sends a mark.
    End(ChannelId),
    /// Sends a number.
    Signal(ChannelId, u32),
    /// Closes the channel.
    Close(ChannelId),
}

/// The outcome of one of many answers.
///
/// ```
/// use weir_mpx::{Answer, ChannelId, Taken};
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let mut owner = Mpx::create(&name, &MpxOptions::new())?;
/// let _peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// // No channel has this number.
/// let taken = owner.answer(&[Answer::Close(ChannelId::from_u64(7))])?;
/// assert_eq!(taken, [Taken::Not(weir::ErrorKind::Invalid)]);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Taken {
    /// All of it was done.
    Whole,
    /// The channel is full. This many bytes were taken, or 0 if it was a mark or a number. A
    /// `Blocked` record comes too, and an `Unblocked` one once there is room.
    Bytes(usize),
    /// Nothing was done. The call for a single answer would fail with this kind of error.
    Not(ErrorKind),
}

pub(super) fn invalid(operation: &'static str, channel: ChannelId) -> Error {
    let object = format!("channel {channel}");
    Error::new(ErrorKind::Invalid, operation, object, "there is no such channel, or it has ended")
}
