//! What a pipe and its ends are asked to be, and what they become by the defaults.

use super::defaults::{Settings, out_of_range};
use crate::error::Result;
use crate::memory;
use crate::park::Waiting;
use weir_policy::pipe::{Levers, PipeShape};

/// What an end is asked to do.
#[derive(Clone, Debug, Default)]
pub struct Habits {
    waiting: Waiting,
    dirties: Option<bool>,
    backoff_ns: Option<u64>,
    most_bytes: Option<u64>,
}

/// What a new pipe is asked to be, and its ends, until they are handed on.
///
/// What is not set comes from the environment, from `weir tune`, from what was measured on this
/// machine, or from the sizes of its caches.
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
    habits: Habits,
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

    /// Sets the bytes after which a longer write is published: the 256th part of the capacity to all
    /// of it, rounded up to a power of two.
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Sets the longest write that appears whole: 1 to a segment.
    pub fn atomic_bytes(mut self, bytes: u64) -> Options {
        self.atomic_bytes = Some(bytes);
        self
    }

    /// Sets how both ends wait.
    pub fn waiting(mut self, waiting: Waiting) -> Options {
        self.habits.waiting = waiting;
        self
    }

    /// Sets [`ReaderOptions::dirties`] of the reader.
    pub fn dirties(mut self, dirties: bool) -> Options {
        self.habits.dirties = Some(dirties);
        self
    }

    /// Sets [`ReaderOptions::backoff_ns`] of the reader.
    pub fn backoff_ns(mut self, ns: u64) -> Options {
        self.habits.backoff_ns = Some(ns);
        self
    }

    /// Sets [`WriterOptions::most_bytes`] of the writer.
    pub fn most_bytes(mut self, bytes: u64) -> Options {
        self.habits.most_bytes = Some(bytes);
        self
    }

    /// With what is not set filled in.
    pub(crate) fn resolve(&self) -> Result<Resolved> {
        let settings = Settings::in_force()?;
        let habits = &self.habits;
        let mut levers = settings.levers();
        levers.dirties = habits.dirties.unwrap_or(levers.dirties);
        levers.slip_ns = habits.backoff_ns.unwrap_or(levers.slip_ns);
        // A size that was not asked for fits itself to those that were.
        let capacity = self.capacity_bytes.or(settings.capacity_bytes);
        let capacity = capacity.unwrap_or(levers.capacity_bytes);
        let (asked, usual) = (
            (self.segment_bytes, self.atomic_bytes),
            (settings.segment_bytes, settings.atomic_bytes),
        );
        let shape = PipeShape::fitted(memory::page_bytes(), capacity, asked, usual);
        let (waiting, most_bytes) = (habits.waiting, habits.most_bytes);
        Ok(Resolved { shape: shape.map_err(out_of_range)?, levers, waiting, most_bytes })
    }
}

impl Habits {
    /// For an end over a memory that exists, which has its sizes.
    pub(crate) fn resolve_over(&self, map: &memory::Map) -> Result<Resolved> {
        let capacity = Some(map.extent().ring_bytes);
        let sizes = Options { capacity_bytes: capacity, ..Options::default() }.resolve()?;
        let habits = Options { habits: self.clone(), ..Options::default() }.resolve()?;
        Ok(Resolved { shape: sizes.shape, ..habits })
    }
}

/// What the reading end of a pipe is asked to do.
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
pub struct ReaderOptions(Habits);

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

    /// Sets whether the reader stores into the lines it has read. By default what was measured.
    pub fn dirties(mut self, dirties: bool) -> ReaderOptions {
        self.0.dirties = Some(dirties);
        self
    }

    /// Sets how long a streaming reader lets the writer get ahead when it runs dry; 0 for not at all.
    pub fn backoff_ns(mut self, ns: u64) -> ReaderOptions {
        self.0.backoff_ns = Some(ns);
        self
    }
}

impl AsRef<Habits> for ReaderOptions {
    fn as_ref(&self) -> &Habits {
        &self.0
    }
}

/// What the writing end of a pipe is asked to do.
///
/// ```
/// use weir::{Handle, Options, Writer, WriterOptions};
/// let (writer, _reader) = Handle::stream_pair(&Options::new())?;
/// let writer = Writer::open_with(writer, &WriterOptions::new().most_bytes(0))?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until an end is opened with them"]
pub struct WriterOptions(Habits);

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

    /// Sets the largest capacity that the writer takes up when it is asked from outside: by `weir
    /// tune`, or by the reader, who could mean harm. 0 for none. By default 16 times the capacity it
    /// begins with, or what a pipe has by default where that is more. What is taken up in a writer's
    /// life is four times that in all.
    pub fn most_bytes(mut self, bytes: u64) -> WriterOptions {
        self.0.most_bytes = Some(bytes);
        self
    }
}

impl AsRef<Habits> for WriterOptions {
    fn as_ref(&self) -> &Habits {
        &self.0
    }
}

/// An end's settings, complete.
#[derive(Clone, Copy, Debug)]
pub struct Resolved {
    pub shape: PipeShape,
    pub levers: Levers,
    pub waiting: Waiting,
    pub most_bytes: Option<u64>,
}
