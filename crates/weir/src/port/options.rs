//! The options of a port and of a writer to it.

use crate::error::{Error, ErrorKind, Result};
use crate::park::{Timeout, Waiting};
use crate::pipe::defaults::out_of_range;
use crate::pipe::options::{Options, Resolved};
use rustix::fs::Mode;
use std::time::Instant;
use weir_policy::pipe::PipeShape;
use weir_ring::board::MOST_RINGS;

/// The default bytes of a writer's ring.
const RING_BYTES: u64 = 256 << 10;
/// The default limit of a message's bytes.
const MESSAGE_BYTES: u64 = 16 << 20;
/// The default limit of the bytes of unfinished messages, of all writers together.
const UNFINISHED_BYTES: u64 = 64 << 20;
/// The bits that the mode of a socket may have.
pub const MODE_BITS: u32 = 0o777;
/// The default limit of writers.
const WRITERS: u32 = 1024;

/// Options of a port, for [`Port::create`](super::Port::create).
///
/// ```
/// use weir::{Port, PortOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// // Writers of this user's group as well, and messages of at most 64 KiB.
/// let options = PortOptions::new().mode(0o660).most_message_bytes(64 << 10);
/// let port = Port::create(&name, &options)?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PortOptions {
    waiting: Waiting,
    pub(super) most_message_bytes: u64,
    pub(super) most_unfinished_bytes: u64,
    pub(super) most_writers: u32,
    mode: u32,
    pub(super) in_pieces: bool,
}

impl Default for PortOptions {
    fn default() -> PortOptions {
        PortOptions {
            waiting: Waiting::default(),
            most_message_bytes: MESSAGE_BYTES,
            most_unfinished_bytes: UNFINISHED_BYTES,
            most_writers: WRITERS,
            mode: 0o600,
            in_pieces: false,
        }
    }
}

impl PortOptions {
    /// The default options.
    pub fn new() -> PortOptions {
        PortOptions::default()
    }

    setters! { PortOptions;
        /// Sets how the reader waits.
        waiting: Waiting => waiting;
        /// Sets the longest message the port takes: 16 MiB by default, at most 1 GiB.
        most_message_bytes: u64 => most_message_bytes;
        /// Sets the most memory for unfinished messages, whose last pieces have not come yet, of all
        /// writers together: 64 MiB by default. A writer whose piece finds no room is held up. The
        /// writer whose message began first may always finish it.
        most_unfinished_bytes: u64 => most_unfinished_bytes;
        /// Sets the most writers at once: 1,024 by default, at most 16,384. Each takes a descriptor.
        most_writers: u32 => most_writers;
        /// Sets the permissions of the socket: 0o600 by default. Only those to write matter.
        mode: u32 => mode;
    }

    /// Shows the pieces of long messages as they come, instead of putting them together.
    pub fn in_pieces(mut self) -> PortOptions {
        self.in_pieces = true;
        self
    }

    /// The options of the reader's ends of its writers' rings.
    pub(super) fn resolve(&self) -> Result<Resolved> {
        Options::new().capacity_bytes(RING_BYTES).waiting(self.waiting).resolve()
    }

    pub(super) fn check(&self) -> Result<()> {
        let refused = |what: &str, reason: String| {
            Err(Error::new(ErrorKind::Invalid, "set", format!("{what} of a port"), reason))
        };
        let within = |what: &str, asked: u64, least: u64, most: u64| {
            if (least..=most).contains(&asked) {
                return Ok(());
            }
            refused(what, format!("{asked} is out of range: {least} to {most}"))
        };
        let most_bytes = weir_policy::pipe::MOST_BYTES;
        within("the most bytes of a message", self.most_message_bytes, 1, most_bytes)?;
        within("the most writers", self.most_writers.into(), 1, MOST_RINGS.into())?;
        if self.mode & !MODE_BITS == 0 {
            return Ok(());
        }
        refused("the mode", format!("{:#o} is out of range: 0o0 to {MODE_BITS:#o}", self.mode))
    }

    pub(super) fn mode_bits(&self) -> Mode {
        Mode::from_raw_mode(self.mode)
    }
}

/// Options of a writer to a port, for [`PortWriter::connect`](super::PortWriter::connect).
///
/// ```
/// use std::time::Duration;
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// # let _port = Port::create(&name, &PortOptions::new())?;
/// let options = PortWriterOptions::new().connect_timeout(Duration::from_secs(1));
/// let writer = PortWriter::connect(&name, &options)?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PortWriterOptions {
    pipe: Options,
    has_piece_bytes: bool,
}

impl Default for PortWriterOptions {
    fn default() -> PortWriterOptions {
        let pipe = Options::new().capacity_bytes(RING_BYTES);
        PortWriterOptions { pipe, has_piece_bytes: false }
    }
}

impl PortWriterOptions {
    /// The default options.
    pub fn new() -> PortWriterOptions {
        PortWriterOptions::default()
    }

    /// Sets the bytes that the writer's ring holds, as [`Options::capacity_bytes`] does: 256 KiB by
    /// default.
    pub fn capacity_bytes(mut self, bytes: u64) -> PortWriterOptions {
        self.pipe = self.pipe.capacity_bytes(bytes);
        self
    }

    /// Sets the longest piece of a message, as [`Options::segment_bytes`] does: a quarter of the
    /// ring by default.
    pub fn piece_bytes(mut self, bytes: u64) -> PortWriterOptions {
        self.pipe = self.pipe.segment_bytes(bytes);
        self.has_piece_bytes = true;
        self
    }

    /// Sets how the writer waits for room.
    pub fn waiting(mut self, waiting: Waiting) -> PortWriterOptions {
        self.pipe = self.pipe.waiting(waiting);
        self
    }

    /// Sets how long to wait for a reader if there is none, as [`Options::connect_timeout`] does.
    pub fn connect_timeout(mut self, timeout: impl Into<Timeout>) -> PortWriterOptions {
        self.pipe = self.pipe.connect_timeout(timeout);
        self
    }

    pub(super) fn connect_until(&self) -> Option<Instant> {
        self.pipe.connect_until()
    }

    pub(super) fn resolve(&self) -> Result<Resolved> {
        self.pipe.resolve_or(|refused| {
            // Its pieces are the segments of its ring.
            let what = if refused.what == "segment" { "piece" } else { refused.what };
            out_of_range(refused).of("set", format!("the {what} of a writer to a port"))
        })
    }

    /// The longest piece in a ring of these sizes.
    pub(super) fn longest_piece(&self, shape: &PipeShape) -> usize {
        let quarter = shape.capacity_bytes() / 4;
        (if self.has_piece_bytes { shape.segment_bytes() } else { quarter }) as usize
    }
}
