//! What a wait holds: ends, and the epoll of its descriptors.

use super::super::watcher::Watched;
use super::Waitable;
use crate::error::{Error, Result};
use crate::park::{Rung, Source};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// What is waited for, in a [`Wait`] that owns it or was lent it.
pub trait Held: Send {
    /// How to wait for it.
    fn source(&mut self) -> &mut dyn Source;
    /// What the caller gets at by its key.
    fn end(&self) -> &dyn Any;
    /// The same, to be changed.
    fn end_mut(&mut self) -> &mut dyn Any;
    /// What the caller gets back; `None` of what was lent.
    fn into_end(self: Box<Self>) -> Option<Box<dyn Any>>;
    /// How much room that many bytes need.
    fn wanted(&mut self, bytes: usize) -> u64 {
        bytes as u64
    }
}

/// An end that is waited for.
pub enum End<'a, E> {
    Own(E),
    Lent(&'a mut E),
}

impl<E> End<'_, E> {
    fn get_mut(&mut self) -> &mut E {
        match self {
            End::Own(end) => end,
            End::Lent(end) => end,
        }
    }
}

impl<E: Waitable> Held for End<'_, E> {
    fn source(&mut self) -> &mut dyn Source {
        self.get_mut().source()
    }

    fn end(&self) -> &dyn Any {
        match self {
            End::Own(end) => end,
            End::Lent(end) => *end,
        }
    }

    fn end_mut(&mut self) -> &mut dyn Any {
        self.get_mut()
    }

    fn into_end(self: Box<Self>) -> Option<Box<dyn Any>> {
        match *self {
            End::Own(end) => Some(Box::new(end)),
            End::Lent(_) => None,
        }
    }

    fn wanted(&mut self, bytes: usize) -> u64 {
        self.get_mut().wanted(bytes)
    }
}

pub enum Kind<'a> {
    Held(Box<dyn Held + 'a>),
    /// A descriptor of the caller's, and whether it is ready now. One that cannot be polled, as a
    /// file of a disk, always is.
    Descriptor {
        file: OwnedFd,
        events: EventFlags,
        is_ready: bool,
        is_polled: bool,
    },
}

pub struct Entry<'a, T> {
    pub id: u64,
    pub token: T,
    pub kind: Kind<'a>,
    /// How much is waited for; `None` for nothing just now.
    pub wanted: Option<u64>,
    /// What to expect of its word, once it has said that it sleeps.
    pub said: Option<u32>,
    /// The copy of its descriptor that the epoll knows, of a source that has one.
    pub polled: Option<OwnedFd>,
}

/// The epoll of a wait, and what tells the wait of it.
pub struct Poll {
    pub epoll: OwnedFd,
    pub watched: Watched,
    pub rung: Arc<Rung>,
}

impl Poll {
    pub fn new() -> Result<Poll> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let (mut watched, rung) = (Watched::copy_of(epoll.as_fd())?, Arc::default());
        watched.start(EventFlags::ONESHOT, &rung)?;
        Ok(Poll { epoll, watched, rung })
    }

    /// Takes a descriptor in. `false`: it cannot be polled.
    pub fn add(&self, file: &OwnedFd, id: u64, events: EventFlags) -> Result<bool> {
        match epoll::add(&self.epoll, file, EventData::new_u64(id), events) {
            Ok(()) => Ok(true),
            Err(Errno::PERM) => Ok(false),
            Err(cause) => Err(Error::os("wait for", "a descriptor", cause)),
        }
    }

    /// Takes one out. The file may live on with another descriptor, and epoll would go on knowing it.
    pub fn remove(&self, file: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, file);
    }
}

/// Some of these have said that they sleep. Dropping it takes that back.
pub struct Announced<'w, 'a, T>(pub &'w mut Vec<Entry<'a, T>>);

impl<T> Drop for Announced<'_, '_, T> {
    fn drop(&mut self) {
        for entry in self.0.iter_mut() {
            if let (Some(_), Kind::Held(held)) = (entry.said.take(), &mut entry.kind) {
                held.source().retract();
            }
        }
    }
}

impl<T> Entry<'_, T> {
    pub fn is_ready(&mut self) -> Result<bool> {
        let Some(wanted) = self.wanted else { return Ok(false) };
        match &mut self.kind {
            Kind::Held(held) => held.source().is_ready(wanted),
            Kind::Descriptor { is_ready, .. } => Ok(*is_ready),
        }
    }

    /// Says that it is about to be slept on, and looks once more: whether there is nothing.
    pub fn announce<'w>(
        &'w mut self,
        words: &mut Vec<(&'w AtomicU32, u32)>,
        most: &mut Option<Duration>,
    ) -> Result<bool> {
        let (Some(wanted), Kind::Held(held)) = (self.wanted, &mut self.kind) else {
            return Ok(true);
        };
        let source = held.source();
        self.said = source.announce(wanted)?;
        let Some(said) = self.said else { return Ok(false) };
        let source: &'w dyn Source = source;
        *most = (*most).into_iter().chain(source.most_sleep()).min();
        source.words(said, words);
        Ok(true)
    }
}
