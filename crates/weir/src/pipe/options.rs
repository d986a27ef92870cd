//! The options of pipes and their ends, and how the defaults complete them.

use super::defaults::{Settings, out_of_range};
use crate::connect::acceptor::wait_until;
use crate::error::{Error, Result};
use crate::memory;
use crate::park::{Timeout, Waiting};
use std::time::Instant;
use weir_policy::pipe::{OutOfRange, PipeShape};

#[derive(Clone, Debug, Default)]
pub struct EndOptions {
    waiting: Waiting,
    most_bytes: Option<u64>,
}

/// The options of a new pipe, and of its ends until they are handed on.
///
/// Values that are not set come from the environment, from `weir tune`, or from the sizes of this
/// machine's caches.
///
/// ```
/// let options = weir::Options::new().capacity_bytes(1 << 20).segment_bytes(64 << 10);
/// let (writer, _reader) = weir::pipe(&options)?;
/// assert_eq!(writer.sizes().capacity_bytes, 1 << 20);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until a pipe is made with them"]
pub struct Options {
    capacity_bytes: Option<u64>,
    segment_bytes: Option<u64>,
    atomic_bytes: Option<u64>,
    end: EndOptions,
    connect_timeout: Option<Timeout>,
}

impl Options {
    /// Leaves everything to the defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets the bytes the pipe holds: 1 to 1 GiB, rounded up to a power of two of at least a page.
    pub fn capacity_bytes(mut self, bytes: u64) -> Options {
        self.capacity_bytes = Some(bytes);
        self
    }

    /// Sets after how many bytes a longer write is published: from the 256th part of the capacity
    /// to all of it, rounded up to a power of two.
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Sets the longest write that appears whole, in bytes: from 1 to the capacity.
    pub fn atomic_bytes(mut self, bytes: u64) -> Options {
        self.atomic_bytes = Some(bytes);
        self
    }

    /// Sets how long `connect` waits for somebody who listens if nobody does: [`Timeout::Now`] by
    /// default.
    pub fn connect_timeout(mut self, timeout: impl Into<Timeout>) -> Options {
        self.connect_timeout = Some(timeout.into());
        self
    }

    /// Until when `connect` waits; `None` if it does not wait.
    pub(crate) fn connect_until(&self) -> Option<Instant> {
        wait_until(self.connect_timeout.unwrap_or(Timeout::Now))
    }

    /// Sets how both ends wait.
    pub fn waiting(mut self, waiting: Waiting) -> Options {
        self.end.waiting = waiting;
        self
    }

    /// Sets [`WriterOptions::most_bytes`] of the writer.
    pub fn most_bytes(mut self, bytes: u64) -> Options {
        self.end.most_bytes = Some(bytes);
        self
    }

    /// Fills in what is not set.
    pub(crate) fn resolve(&self) -> Result<Resolved> {
        self.resolve_or(out_of_range)
    }

    /// As [`Options::resolve`]; `refused` makes the error for a size that is out of its range.
    pub(crate) fn resolve_or(&self, refused: fn(OutOfRange) -> Error) -> Result<Resolved> {
        let settings = Settings::in_force()?;
        let end = &self.end;
        let usual_bytes = settings.usual_bytes();
        // A size that was not asked for fits itself to those that were.
        let capacity = self.capacity_bytes.unwrap_or(usual_bytes);
        let (asked, usual) = (
            (self.segment_bytes, self.atomic_bytes),
            (settings.segment_of(capacity), settings.atomic_bytes),
        );
        let shape = PipeShape::fitted(memory::page_bytes(), capacity, asked, usual);
        let (waiting, most_bytes) = (end.waiting, end.most_bytes);
        Ok(Resolved { shape: shape.map_err(refused)?, usual_bytes, waiting, most_bytes })
    }
}

impl EndOptions {
    /// Fills in what is not set, for an end over a memory whose sizes are fixed.
    pub(crate) fn resolve_over(&self, map: &memory::Map) -> Result<Resolved> {
        let capacity = Some(map.extent().ring_bytes);
        let sizes = Options { capacity_bytes: capacity, ..Options::default() }.resolve()?;
        let end = Options { end: self.clone(), ..Options::default() }.resolve()?;
        Ok(Resolved { shape: sizes.shape, ..end })
    }
}

/// The options of a pipe's reader.
///
/// ```
/// use weir::{Handle, Options, Reader, ReaderOptions, Waiting};
/// let (_writer, reader) = Handle::stream_pair(&Options::new())?;
/// let options = ReaderOptions::new().waiting(Waiting::Sleep);
/// let reader = Reader::open_with(reader, &options)?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until an end is opened with them"]
pub struct ReaderOptions(EndOptions);

impl ReaderOptions {
    /// Leaves everything to the defaults.
    pub fn new() -> ReaderOptions {
        ReaderOptions::default()
    }

    /// Sets how the end waits.
    pub fn waiting(mut self, waiting: Waiting) -> ReaderOptions {
        self.0.waiting = waiting;
        self
    }
}

impl AsRef<EndOptions> for ReaderOptions {
    fn as_ref(&self) -> &EndOptions {
        &self.0
    }
}

/// The options of a pipe's writer.
///
/// ```
/// use weir::{Handle, Options, Writer, WriterOptions};
/// let (writer, _reader) = Handle::stream_pair(&Options::new())?;
/// let writer = Writer::open_with(writer, &WriterOptions::new().most_bytes(0))?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until an end is opened with them"]
pub struct WriterOptions(EndOptions);

impl WriterOptions {
    /// Leaves everything to the defaults.
    pub fn new() -> WriterOptions {
        WriterOptions::default()
    }

    /// Sets how the end waits.
    pub fn waiting(mut self, waiting: Waiting) -> WriterOptions {
        self.0.waiting = waiting;
        self
    }

    /// Sets the largest capacity that the writer adopts when it is asked from outside: by `weir
    /// tune`, or by the reader, which could be hostile. 0 for none. The default is 16 times the
    /// capacity that it begins with, or the default capacity of pipes if that is more. All
    /// capacities that a writer adopts in its life add up to at most four times this.
    pub fn most_bytes(mut self, bytes: u64) -> WriterOptions {
        self.0.most_bytes = Some(bytes);
        self
    }
}

impl AsRef<EndOptions> for WriterOptions {
    fn as_ref(&self) -> &EndOptions {
        &self.0
    }
}

/// The options of a pipe and an end, completed.
#[derive(Clone, Copy, Debug)]
pub struct Resolved {
    pub shape: PipeShape,
    /// The capacity of pipes of which none was asked for.
    pub usual_bytes: u64,
    pub waiting: Waiting,
    pub most_bytes: Option<u64>,
}
