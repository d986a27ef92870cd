//! The options of an mpx and of its peers.

use crate::memory::{LinkExtent, MOST_ARENA_BYTES, MOST_CHANNELS};
use weir::parts::MODE_BITS;
use weir::{Error, ErrorKind, Result, Timeout, Waiting};
use weir_policy::arena::LARGEST_BYTES;

/// The most peers that an mpx can have.
pub const MOST_PEERS: u32 = 4096;

/// Options of an mpx, for [`Mpx::create`](super::Mpx::create).
///
/// ```
/// use weir_mpx::{Mpx, MpxOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// // Any user may connect, with few channels each.
/// let mpx = Mpx::create(&name, &MpxOptions::new().mode(0o666).most_channels(64))?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MpxOptions {
    most: LinkExtent,
    pub(super) most_peers: u32,
    pub(super) mode: u32,
    pub(super) waiting: Waiting,
}

impl Default for MpxOptions {
    fn default() -> MpxOptions {
        let most = LinkExtent { channels: MOST_CHANNELS, arena_bytes: MOST_ARENA_BYTES };
        MpxOptions { most, most_peers: MOST_PEERS, mode: 0o600, waiting: Waiting::default() }
    }
}

impl MpxOptions {
    /// The default options.
    pub fn new() -> MpxOptions {
        MpxOptions::default()
    }

    /// Sets the most channels that a peer may ask for: 16,384 by default.
    pub fn most_channels(mut self, most_channels: u32) -> MpxOptions {
        self.most.channels = most_channels;
        self
    }

    /// Sets the most bytes that a peer may ask for in each of its two arenas: 256 MiB by default.
    pub fn most_arena_bytes(mut self, most_arena_bytes: u32) -> MpxOptions {
        self.most.arena_bytes = most_arena_bytes;
        self
    }

    /// Sets the most peers at once: 4,096 by default and at most.
    pub fn most_peers(mut self, most_peers: u32) -> MpxOptions {
        self.most_peers = most_peers;
        self
    }

    /// Sets who may connect, by the mode of the socket: this user alone (0o600) by default.
    pub fn mode(mut self, mode: u32) -> MpxOptions {
        self.mode = mode;
        self
    }

    /// Sets how the owner waits.
    pub fn waiting(mut self, waiting: Waiting) -> MpxOptions {
        self.waiting = waiting;
        self
    }

    /// Why an owner refuses a peer's memory of these sizes, if it does.
    pub(super) fn objection(&self, extent: LinkExtent) -> Option<String> {
        let more = |asked: u32, most: u32, what: &str| {
            (asked > most).then(|| format!("{asked} {what} are more than its limit of {most}"))
        };
        more(extent.channels, self.most.channels, "channels")
            .or_else(|| more(extent.arena_bytes, self.most.arena_bytes, "bytes of an arena"))
    }

    pub(super) fn check(&self) -> Result<()> {
        let (peers, mode) = (self.most_peers, self.mode);
        let (what, why) = if !(1..=MOST_PEERS).contains(&peers) {
            ("the most peers of an mpx", format!("{peers} is out of range: 1 to {MOST_PEERS}"))
        } else if mode & !MODE_BITS != 0 {
            ("the mode of an mpx", format!("{mode:#o} is out of range: 0o0 to {MODE_BITS:#o}"))
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Invalid, "set", what, why))
    }
}

/// Options of a peer, for [`MpxPeer::connect`](super::MpxPeer::connect).
///
/// ```
/// use std::time::Duration;
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// # let _mpx = Mpx::create(&name, &MpxOptions::new())?;
/// let options = MpxPeerOptions::new().channels(1000).connect_timeout(Duration::from_secs(1));
/// let peer = MpxPeer::connect(&name, &options)?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MpxPeerOptions {
    extent: LinkExtent,
    pub(super) waiting: Waiting,
    pub(super) connect_timeout: Timeout,
}

impl Default for MpxPeerOptions {
    fn default() -> MpxPeerOptions {
        // Eight long lanes in each arena, or 128 short ones. With shorter ones the lines of eight
        // busy lanes stay in the reader's own cache, and the writer waits for each of them
        // (docs/design/port.md).
        let extent = LinkExtent { channels: 64, arena_bytes: 512 << 10 };
        let (waiting, connect_timeout) = (Waiting::default(), Timeout::Now);
        MpxPeerOptions { extent, waiting, connect_timeout }
    }
}

impl MpxPeerOptions {
    /// The default options.
    pub fn new() -> MpxPeerOptions {
        MpxPeerOptions::default()
    }

    /// Sets the channels that the peer can have at once: 1 to 16,384, 64 by default.
    pub fn channels(mut self, channels: u32) -> MpxPeerOptions {
        self.extent.channels = channels;
        self
    }

    /// Sets the bytes of each of the two arenas that its channels share: a multiple of 64 KiB, at
    /// most 256 MiB, 512 KiB by default. 0 is enough for few and short records.
    pub fn arena_bytes(mut self, arena_bytes: u32) -> MpxPeerOptions {
        self.extent.arena_bytes = arena_bytes;
        self
    }

    /// Sets how the peer waits.
    pub fn waiting(mut self, waiting: Waiting) -> MpxPeerOptions {
        self.waiting = waiting;
        self
    }

    /// Sets how long to wait for an owner if there is none: [`Timeout::Now`] by default.
    pub fn connect_timeout(mut self, timeout: impl Into<Timeout>) -> MpxPeerOptions {
        self.connect_timeout = timeout.into();
        self
    }

    pub(super) fn extent(&self) -> Result<LinkExtent> {
        let extent = self.extent;
        if extent.is_sound() {
            return Ok(extent);
        }
        let why = format!(
            "{} channels with arenas of {} bytes; the channels must be 1 to {MOST_CHANNELS}, \
             the bytes a multiple of {LARGEST_BYTES} and at most {MOST_ARENA_BYTES}",
            extent.channels, extent.arena_bytes
        );
        Err(Error::new(ErrorKind::Invalid, "connect with", "these options", why))
    }
}
