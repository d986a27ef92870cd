//! What a wait holds: ends, and an epoll over descriptors.

use super::super::watcher::WatchedDescriptor;
use super::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::park::{Rung, Slept, WaitSource};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// An end in a [`Wait`](super::Wait), which owns it or was lent it.
pub trait WaitItem: Send {
    fn source(&mut self) -> &mut dyn WaitSource;
    /// The end that the key stands for.
    fn end(&self) -> &dyn Any;
    fn end_mut(&mut self) -> &mut dyn Any;
    /// Gives the end back to the caller; `None` if it was lent.
    fn into_end(self: Box<Self>) -> Option<Box<dyn Any>>;
    /// How much room that many bytes need.
    fn wanted(&mut self, bytes: usize) -> u64 {
        bytes as u64
    }
}

pub enum OwnedOrLent<'a, E> {
    Own(E),
    Lent(&'a mut E),
}

impl<E> OwnedOrLent<'_, E> {
    fn get_mut(&mut self) -> &mut E {
        match self {
            OwnedOrLent::Own(end) => end,
            OwnedOrLent::Lent(end) => end,
        }
    }
}

impl<E: Waitable> WaitItem for OwnedOrLent<'_, E> {
    fn source(&mut self) -> &mut dyn WaitSource {
        self.get_mut().source()
    }

    fn end(&self) -> &dyn Any {
        match self {
            OwnedOrLent::Own(end) => end,
            OwnedOrLent::Lent(end) => *end,
        }
    }

    fn end_mut(&mut self) -> &mut dyn Any {
        self.get_mut()
    }

    fn into_end(self: Box<Self>) -> Option<Box<dyn Any>> {
        match *self {
            OwnedOrLent::Own(end) => Some(Box::new(end)),
            OwnedOrLent::Lent(_) => None,
        }
    }

    fn wanted(&mut self, bytes: usize) -> u64 {
        self.get_mut().wanted(bytes)
    }
}

pub enum Waited<'a> {
    Item(Box<dyn WaitItem + 'a>),
    /// A descriptor of the caller. One that cannot be polled (a file on a disk) is always ready.
    Descriptor {
        file: OwnedFd,
        events: EventFlags,
        is_ready: bool,
        is_polled: bool,
    },
}

pub struct WaitEntry<'a, T> {
    pub id: u64,
    pub token: T,
    pub waited: Waited<'a>,
    /// How much is waited for; `None` while the entry is not waited for.
    pub wanted: Option<u64>,
    /// The expected value of its word, while its sleep is announced.
    pub said: Option<u32>,
    /// The copy of its descriptor that the epoll knows, if the source has one.
    pub polled: Option<OwnedFd>,
    /// How many words it had when it was added; an mpx has more once another is joined to it.
    pub words: usize,
}

impl<'a, T> WaitEntry<'a, T> {
    pub fn new(id: u64, token: T, waited: Waited<'a>) -> WaitEntry<'a, T> {
        WaitEntry { id, token, waited, wanted: Some(1), said: None, polled: None, words: 0 }
    }

    /// Adds what it takes of the wait's room.
    pub fn counted(self, polled: Option<OwnedFd>, words: usize) -> WaitEntry<'a, T> {
        WaitEntry { polled, words, ..self }
    }
}

/// The epoll of a wait, and the word that the watcher counts up when it is ready.
pub struct Poll {
    pub epoll: OwnedFd,
    pub watched: WatchedDescriptor,
    pub rung: Arc<Rung>,
}

impl Poll {
    pub fn new() -> Result<Poll> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let (mut watched, rung) = (WatchedDescriptor::copy_of(epoll.as_fd())?, Arc::default());
        watched.start(EventFlags::ONESHOT, &rung)?;
        Ok(Poll { epoll, watched, rung })
    }

    /// Fails in a forked child, which has the same epoll: what it did there, its parent would feel.
    pub fn check_here(&self) -> Result<()> {
        let is_here = self.watched.get().is_some();
        is_here.then_some(()).ok_or_else(|| Error::forked("wait for", "descriptors"))
    }

    /// Adds a descriptor. Returns false if it cannot be polled.
    pub fn add(&self, file: &OwnedFd, id: u64, events: EventFlags) -> Result<bool> {
        self.check_here()?;
        match epoll::add(&self.epoll, file, EventData::new_u64(id), events) {
            Ok(()) => Ok(true),
            Err(Errno::PERM) => Ok(false),
            Err(cause) => Err(Error::os("wait for", "a descriptor", cause)),
        }
    }

    /// Removes a descriptor. Closing it would not do: epoll keeps its entry while another
    /// descriptor keeps the file open.
    pub fn remove(&self, file: &OwnedFd) {
        let _ = self.check_here().map(|()| epoll::delete(&self.epoll, file));
    }
}

/// Entries of which some have announced their sleep. Dropping it takes that back.
pub struct Announced<'w, 'a, T>(pub &'w mut Vec<WaitEntry<'a, T>>);

impl<T> Drop for Announced<'_, '_, T> {
    fn drop(&mut self) {
        for entry in self.0.iter_mut() {
            if let (Some(_), Waited::Item(held)) = (entry.said.take(), &mut entry.waited) {
                held.source().retract();
            }
        }
    }
}

impl<T> WaitEntry<'_, T> {
    pub fn is_ready(&mut self) -> Result<bool> {
        let Some(wanted) = self.wanted else { return Ok(false) };
        match &mut self.waited {
            Waited::Item(held) => unless_corrupt(held.source().is_ready(wanted), true),
            Waited::Descriptor { is_ready, .. } => Ok(*is_ready),
        }
    }

    /// How the source slept since then; `None` for one that had not announced its sleep. `rung`
    /// stands for its word if it has a descriptor in place of one.
    pub fn slept_since(
        &mut self,
        begun: Instant,
        rung: Option<(&AtomicU32, u32)>,
    ) -> Option<Slept> {
        let (Some(said), Waited::Item(held)) = (self.said, &mut self.waited) else { return None };
        let (source, mut words): (&dyn WaitSource, _) = (held.source(), Vec::new());
        source.words(said, &mut words);
        words.extend(rung.filter(|_| self.polled.is_some()));
        Some(Slept::since(begun, &words))
    }

    /// Announces the sleep and looks once more. Returns true if there is nothing.
    pub fn announce<'w>(
        &'w mut self,
        words: &mut Vec<(&'w AtomicU32, u32)>,
        most: &mut Option<Duration>,
    ) -> Result<bool> {
        let (Some(wanted), Waited::Item(held)) = (self.wanted, &mut self.waited) else {
            return Ok(true);
        };
        let source = held.source();
        self.said = unless_corrupt(source.announce(wanted), None)?;
        let Some(said) = self.said else { return Ok(false) };
        let source: &'w dyn WaitSource = source;
        *most = (*most).into_iter().chain(source.most_sleep()).min();
        source.words(said, words);
        Ok(true)
    }
}

/// What a look at an end found. An end whose memory is corrupt is ready, so that its own call says
/// so: as an error of the wait, it would hide which end it is, and hold up all others.
fn unless_corrupt<V>(found: Result<V>, ready: V) -> Result<V> {
    match found {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(ready),
        found => found,
    }
}
