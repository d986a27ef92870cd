//! What a pipe is asked to be, and what it becomes by the defaults.

use super::defaults::{Settings, out_of_range};
use crate::error::Result;
use crate::memory;
use crate::park::Waiting;
use weir_policy::pipe::{Levers, Shape};

/// What a pipe is asked to be. What is not said comes from the environment, from `weir tune`, from
/// what was measured on this machine, or from the sizes of its caches.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) segment_bytes: Option<u64>,
    pub(crate) atomic_bytes: Option<u64>,
    pub(crate) waiting: Waiting,
    pub(crate) dirties: Option<bool>,
    pub(crate) slip_ns: Option<u64>,
    pub(crate) most_bytes: Option<u64>,
}

impl Options {
    /// All by default.
    pub fn new() -> Options {
        Options::default()
    }

    /// Bytes the pipe holds: 1 to 1 GiB, rounded up to a power of two of at least a page.
    pub fn capacity_bytes(mut self, bytes: u64) -> Options {
        self.capacity_bytes = Some(bytes);
        self
    }

    /// Bytes after which a longer write is published: the 256th part of the capacity to all of it,
    /// rounded up to a power of two.
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Longest write that appears whole: 1 to a segment.
    pub fn atomic_bytes(mut self, bytes: u64) -> Options {
        self.atomic_bytes = Some(bytes);
        self
    }

    /// Largest capacity that the writer takes up when it is asked from outside: by `weir tune`, or
    /// by the reader, who could mean harm. 0 for none. Where nothing else is said, 16 times the
    /// capacity it begins with, or what a pipe has by default where that is more. What is taken up
    /// in a writer's life is four times that in all.
    pub fn most_bytes(mut self, bytes: u64) -> Options {
        self.most_bytes = Some(bytes);
        self
    }

    /// How both ends wait, until they are handed on.
    pub fn waiting(mut self, waiting: Waiting) -> Options {
        self.waiting = waiting;
        self
    }

    /// Whether the reader stores into the lines it has read. By default what was measured.
    pub fn dirties(mut self, dirties: bool) -> Options {
        self.dirties = Some(dirties);
        self
    }

    /// How long a streaming reader lets the writer get ahead when it runs dry; 0 for not at all.
    pub fn slip_ns(mut self, ns: u64) -> Options {
        self.slip_ns = Some(ns);
        self
    }

    /// With what is not said filled in.
    pub(crate) fn resolve(&self) -> Result<Resolved> {
        let settings = Settings::in_force()?;
        let mut levers = settings.levers();
        levers.dirties = self.dirties.unwrap_or(levers.dirties);
        levers.slip_ns = self.slip_ns.unwrap_or(levers.slip_ns);
        // A size that was not asked for fits itself to those that were.
        let capacity = self.capacity_bytes.or(settings.capacity_bytes);
        let capacity = capacity.unwrap_or(levers.capacity_bytes);
        let (asked, usual) = (
            (self.segment_bytes, self.atomic_bytes),
            (settings.segment_bytes, settings.atomic_bytes),
        );
        let shape = Shape::fitted(memory::page_bytes(), capacity, asked, usual);
        let (waiting, most_bytes) = (self.waiting, self.most_bytes);
        Ok(Resolved { shape: shape.map_err(out_of_range)?, levers, waiting, most_bytes })
    }
}

impl Options {
    /// For an end over a memory that exists, which has its sizes.
    pub(crate) fn resolve_over(&self, map: &memory::Map) -> Result<Resolved> {
        let sizes = Options { capacity_bytes: Some(map.extent().ring_bytes), ..Options::default() };
        let habits = Options { capacity_bytes: None, segment_bytes: None, ..self.clone() };
        let Resolved { shape, .. } = Options { ..sizes }.resolve()?;
        Ok(Resolved { shape, ..habits.resolve()? })
    }
}

/// An end's settings, complete.
#[derive(Clone, Copy, Debug)]
pub struct Resolved {
    pub shape: Shape,
    pub levers: Levers,
    pub waiting: Waiting,
    pub most_bytes: Option<u64>,
}
