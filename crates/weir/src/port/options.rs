//! What a port, or a writer to it, is asked to be.

use crate::error::{Error, ErrorKind, Result};
use crate::park::Waiting;
use crate::pipe::options::{Options, Resolved};
use rustix::fs::Mode;
use std::time::Duration;
use weir_policy::pipe::Shape;
use weir_ring::board::MOST_RINGS;

/// Bytes of a writer's ring.
const RING_BYTES: u64 = 256 << 10;
/// Most bytes of a message.
const MESSAGE_BYTES: u64 = 16 << 20;
/// Most bytes of messages that are not yet whole, of all writers.
const UNFINISHED_BYTES: u64 = 64 << 20;
/// Most writers.
const WRITERS: u32 = 1024;

/// What a port, or a writer to it, is asked to be.
#[derive(Clone, Debug)]
pub struct PortOptions {
    pipe: Options,
    pub(super) most_message_bytes: u64,
    pub(super) most_unfinished_bytes: u64,
    pub(super) most_writers: u32,
    pub(super) mode: u32,
    pub(super) in_pieces: bool,
    has_piece_bytes: bool,
    pub(super) reader_time: Option<Duration>,
}

impl Default for PortOptions {
    fn default() -> PortOptions {
        PortOptions {
            pipe: Options::new().capacity_bytes(RING_BYTES),
            most_message_bytes: MESSAGE_BYTES,
            most_unfinished_bytes: UNFINISHED_BYTES,
            most_writers: WRITERS,
            mode: 0o600,
            in_pieces: false,
            has_piece_bytes: false,
            reader_time: None,
        }
    }
}

impl PortOptions {
    /// All by default.
    pub fn new() -> PortOptions {
        PortOptions::default()
    }

    /// Of a writer: bytes its ring holds, as [`Options::capacity_bytes`]. 256 KiB by default.
    pub fn capacity_bytes(mut self, bytes: u64) -> PortOptions {
        self.pipe = self.pipe.capacity_bytes(bytes);
        self
    }

    /// Of a writer: longest piece of a message, as [`Options::segment_bytes`]. A quarter of the
    /// ring by default.
    pub fn piece_bytes(mut self, bytes: u64) -> PortOptions {
        self.pipe = self.pipe.segment_bytes(bytes);
        self.has_piece_bytes = true;
        self
    }

    /// How it waits.
    pub fn waiting(mut self, waiting: Waiting) -> PortOptions {
        self.pipe = self.pipe.waiting(waiting);
        self
    }

    /// Of a port: the longest message it takes, 16 MiB by default, at most 1 GiB.
    pub fn most_message_bytes(mut self, bytes: u64) -> PortOptions {
        self.most_message_bytes = bytes;
        self
    }

    /// Of a port: the most memory for messages of which there are pieces yet to come, of all its
    /// writers, 64 MiB by default. A writer for whose piece there is no room is held up; the one
    /// whose message was begun first may always finish it.
    pub fn most_unfinished_bytes(mut self, bytes: u64) -> PortOptions {
        self.most_unfinished_bytes = bytes;
        self
    }

    /// Of a port: most writers at once, 1,024 by default, at most 16,384. Each takes a descriptor.
    pub fn most_writers(mut self, writers: u32) -> PortOptions {
        self.most_writers = writers;
        self
    }

    /// Of a port: the permissions of its socket, of which those to write count. 0o600 by default.
    pub fn mode(mut self, mode: u32) -> PortOptions {
        self.mode = mode;
        self
    }

    /// Of a port: long messages are shown in their pieces, as they come, and not put together.
    pub fn in_pieces(mut self) -> PortOptions {
        self.in_pieces = true;
        self
    }

    /// Of a writer: how long to wait for a reader where there is none. Not at all by default.
    pub fn wait_for_reader(mut self, time: Duration) -> PortOptions {
        self.reader_time = Some(time);
        self
    }

    pub(super) fn resolve(&self) -> Result<Resolved> {
        self.pipe.resolve()
    }

    /// The longest piece, in a ring of these sizes.
    pub(super) fn longest_piece(&self, shape: &Shape) -> usize {
        let quarter = shape.capacity_bytes() / 4;
        (if self.has_piece_bytes { shape.segment_bytes() } else { quarter }) as usize
    }

    /// Refuses what cannot be of a port.
    pub(super) fn check(&self) -> Result<()> {
        let within = |what: &str, asked: u64, least: u64, most: u64| {
            if (least..=most).contains(&asked) {
                return Ok(());
            }
            let reason = format!("{asked} is out of range: {least} to {most}");
            Err(Error::new(ErrorKind::Invalid, "set", format!("{what} of a port"), reason))
        };
        let most_bytes = weir_policy::pipe::MOST_BYTES;
        within("the most bytes of a message", self.most_message_bytes, 1, most_bytes)?;
        within("the most writers", self.most_writers.into(), 1, MOST_RINGS.into())?;
        within("the mode", self.mode.into(), 0, 0o777)
    }

    pub(super) fn mode_bits(&self) -> Mode {
        Mode::from_raw_mode(self.mode)
    }
}
