//! What an mpx, or a peer of one, is asked to be.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{LinkExtent, MOST_ARENA_BYTES, MOST_CHANNELS};
use crate::park::Waiting;
use std::time::Duration;
use weir_policy::arena::LARGEST_BYTES;

/// Most peers of an mpx.
pub const MOST_PEERS: u32 = 4096;
/// Channels a peer asks for where nothing is said.
const CHANNELS: u32 = 64;
/// Bytes of an arena where nothing is said: two long lanes, or 32 short ones.
const ARENA_BYTES: u32 = 128 << 10;

/// What an mpx, or a peer of one, is asked to be.
#[derive(Clone, Debug)]
pub struct MpxOptions {
    channels: Option<u32>,
    arena_bytes: Option<u32>,
    pub(super) peers: u32,
    pub(super) mode: u32,
    pub(super) waiting: Waiting,
    pub(super) owner_time: Option<Duration>,
}

impl Default for MpxOptions {
    fn default() -> MpxOptions {
        let (channels, arena_bytes, owner_time) = (None, None, None);
        let (peers, mode, waiting) = (MOST_PEERS, 0o600, Waiting::default());
        MpxOptions { channels, arena_bytes, peers, mode, waiting, owner_time }
    }
}

impl MpxOptions {
    /// All by default.
    pub fn new() -> MpxOptions {
        MpxOptions::default()
    }

    /// Of a peer: channels it can have at once, 1 to 16,384, 64 by default. Of an owner: most that
    /// a peer may ask for, 16,384 by default.
    pub fn channels(mut self, channels: u32) -> MpxOptions {
        self.channels = Some(channels);
        self
    }

    /// Of a peer: bytes of each of the two arenas its channels share, a multiple of 64 KiB, at
    /// most 256 MiB, 128 KiB by default; none where its records are short and few. Of an owner:
    /// most that a peer may ask for, 256 MiB by default.
    pub fn arena_bytes(mut self, bytes: u32) -> MpxOptions {
        self.arena_bytes = Some(bytes);
        self
    }

    /// Of an owner: most peers at once, at most and by default 4,096.
    pub fn peers(mut self, peers: u32) -> MpxOptions {
        self.peers = peers;
        self
    }

    /// Of an owner: who may connect, as the mode of its socket. This user alone by default.
    pub fn mode(mut self, mode: u32) -> MpxOptions {
        self.mode = mode;
        self
    }

    /// How it waits.
    pub fn waiting(mut self, waiting: Waiting) -> MpxOptions {
        self.waiting = waiting;
        self
    }

    /// Of a peer: how long it waits for an owner to come. Not at all by default.
    pub fn owner_time(mut self, time: Duration) -> MpxOptions {
        self.owner_time = Some(time);
        self
    }

    /// What a peer's memory is to be.
    pub(super) fn peer_extent(&self) -> Result<LinkExtent> {
        let channels = self.channels.unwrap_or(CHANNELS);
        let extent = LinkExtent { channels, arena_bytes: self.arena_bytes.unwrap_or(ARENA_BYTES) };
        if extent.is_sound() {
            return Ok(extent);
        }
        let why = format!(
            "{channels} channels with arenas of {} bytes; channels are 1 to {MOST_CHANNELS}, \
             bytes a multiple of {LARGEST_BYTES}, at most {MOST_ARENA_BYTES}",
            extent.arena_bytes
        );
        Err(Error::new(ErrorKind::Invalid, "connect with", "these options", why))
    }

    /// Why an owner does not take a memory of these sizes.
    pub(super) fn objection(&self, extent: LinkExtent) -> Option<String> {
        let channels = self.channels.unwrap_or(MOST_CHANNELS);
        let arena_bytes = self.arena_bytes.unwrap_or(MOST_ARENA_BYTES);
        if extent.channels > channels {
            return Some(format!("{} channels are more than {channels}", extent.channels));
        }
        let bytes = extent.arena_bytes;
        (bytes > arena_bytes)
            .then(|| format!("arenas of {bytes} bytes, {arena_bytes} are the most"))
    }

    /// Refuses what cannot be of an owner.
    pub(super) fn check_owner(&self) -> Result<()> {
        if (1..=MOST_PEERS).contains(&self.peers) && self.mode & !0o777 == 0 {
            return Ok(());
        }
        let why = format!("peers are 1 to {MOST_PEERS}, a mode 0 to 0o777");
        Err(Error::new(ErrorKind::Invalid, "create an mpx with", "these options", why))
    }
}
