//! The two sides of an mpx, an owner and a peer, and what both have in common.

use super::listener::PeerListener;
use super::table::ChannelTable;
use super::waiting::Idle;
use std::sync::Arc;
use std::time::Instant;
use weir::parts::{Doorbell, Inbox};
use weir_sys::forks::ParentOnly;

/// One side of an mpx: its owner, [`Mpx`], or a peer, [`MpxPeer`].
///
/// Both sides receive records of channels and send on channels. A send never waits for room.
///
/// ```
/// use weir_mpx::{Answer, RecordKind};
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let mut owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// let channel = peer.open(b"echo")?;
/// peer.send(channel, b"hello")?;
///
/// let mut buffer = [0; 4096];
/// let mut echoed = false;
/// while !echoed {
///     let mut back = Vec::new();
///     owner.receive_each(&mut buffer, |record| back.push((record.channel, record.kind, record.bytes.to_vec())))?;
///     for (channel, kind, bytes) in back {
///         match kind {
///             RecordKind::Open => owner.accept(channel)?,
///             RecordKind::Data => echoed = owner.send(channel, &bytes)? == 5,
///             _ => {}
///         }
///     }
/// }
/// let mut came = Vec::new();
/// while came.is_empty() {
///     peer.receive_each(&mut buffer, |record| came.extend_from_slice(record.bytes))?;
/// }
/// assert_eq!(came, b"hello");
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct Participant<R> {
    pub(super) inner: Multiplexer,
    pub(super) role: R,
}

/// The role of an owner.
///
/// ```
/// use weir_mpx::{Owner, Participant};
/// use weir_mpx::{Mpx, MpxOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let owner: Participant<Owner> = Mpx::create(&name, &MpxOptions::new())?;
/// assert_eq!(owner.peers(), 0);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Owner;

/// The role of a peer.
///
/// ```
/// use weir_mpx::{Participant, Peer};
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let _owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer: Participant<Peer> = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// peer.open(b"log")?;
/// assert_eq!(peer.channels(), 1);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct Peer {
    pub(super) channels: u32,
    /// The link's memory. Other processes find the account by this descriptor.
    pub(super) _memory: ParentOnly,
}

/// The owner of an mpx. Dropping it ends all its channels and removes its name.
///
/// ```
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let mut owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// peer.open(b"log")?;
/// assert_eq!(owner.receive_each(&mut [0; 4096], |_| {})?, 1);
/// assert_eq!(owner.peers(), 1);
/// # Ok::<(), weir::Error>(())
/// ```
pub type Mpx = Participant<Owner>;

/// A process that is connected to an mpx and opens channels there. Dropping it ends them; the owner
/// still receives what was sent.
///
/// ```
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let _owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// let channel = peer.open(b"log")?;
/// // This waits until the owner has accepted the channel.
/// assert_eq!(peer.send(channel, b"started")?, 7);
/// # Ok::<(), weir::Error>(())
/// ```
pub type MpxPeer = Participant<Peer>;

/// The part that both sides of an mpx have in common.
#[derive(Debug)]
pub struct Multiplexer {
    pub table: ChannelTable,
    /// An owner has one.
    pub listener: Option<PeerListener>,
    /// The mpx that were joined to this one, each with its entry in the table.
    pub children: Vec<(u32, Mpx)>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) doorbell: Option<Doorbell>,
    pub(super) looked: Instant,
    pub(super) calls: u32,
    /// The value of its sleep word when it announced its sleep.
    pub(super) announced: u32,
    /// The channel whose turn it is.
    pub(super) serving: Option<u32>,
    pub(super) idle: Idle,
    pub(super) epoch: u32,
}
