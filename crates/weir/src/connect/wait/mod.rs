//! One wait over ends, flags, descriptors and a time.
//!
//! It sleeps on the words of all it waits for by `futex_waitv` (Linux 5.16; before, and where a
//! filter forbids it, short sleeps on one of them). Its descriptors lie in an epoll of its own, which
//! the process's watcher looks after while the wait sleeps.

mod entry;

use crate::error::{Error, ErrorKind, Result};
use crate::park::{Source, Timeout, Until, futex};
pub use entry::Held;
use entry::{Announced, End, Entry, Kind, Poll};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::any::{Any, type_name};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// Most words of ends and flags of one wait.
const MOST_WORDS: usize = 120;
/// Most descriptors of one wait.
const MOST_DESCRIPTORS: usize = 1000;

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interest {
    /// That it can be read.
    Read,
    /// That it can be written.
    Write,
}

/// An end a [`Wait`] can wait for: the ends of pipes, ports, mpxes and elastic readers. No other
/// crate can implement it.
pub trait Waitable: Send + 'static {
    #[doc(hidden)]
    fn source(&mut self) -> &mut dyn Source;

    #[doc(hidden)]
    fn wanted(&self, bytes: usize) -> u64 {
        bytes as u64
    }
}

/// Where in a [`Wait`] an end lies: `wait[key]` is the end.
pub struct Key<E> {
    id: u64,
    end: PhantomData<fn() -> E>,
}

impl<E> Clone for Key<E> {
    fn clone(&self) -> Key<E> {
        *self
    }
}

impl<E> Copy for Key<E> {}

impl<E> fmt::Debug for Key<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key<{}>({})", type_name::<E>(), self.id)
    }
}

/// Waits for whichever of several things comes first: data, room, messages, flags, descriptors.
///
/// Each thing is added once, with a token of the caller's; [`Wait::wait`] returns the tokens of what
/// is ready, in the order of adding. The wait owns the ends that are given to it: the caller uses
/// them between two waits by the [`Key`] that adding returned, as `wait[key]`, and takes them out by
/// [`Wait::remove`]. [`Wait::add_borrowed`] takes an end that somebody else owns, for as long as the wait
/// lives.
///
/// What is ready is told by each wait until the caller has dealt with it. What happens between two
/// waits is not lost.
///
/// ```
/// use weir::{Flags, Options, Timeout, Wait};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Token {
///     Input,
///     Stop,
/// }
///
/// let (mut writer, reader) = weir::pipe(&Options::new())?;
/// let stop = Flags::local();
/// let mut wait = Wait::new();
/// let input = wait.add(Token::Input, reader)?;
/// wait.add_flags(Token::Stop, &stop, 1)?;
///
/// writer.write(b"some bytes")?;
/// stop.set(1);
/// let mut ready = Vec::new();
/// wait.wait(&mut ready)?;
/// assert_eq!(ready, [Token::Input, Token::Stop]);
///
/// let mut buffer = [0; 64];
/// assert_eq!(wait[input].read(&mut buffer)?, 10);
/// stop.clear(1);
/// assert!(wait.wait_timeout(&mut ready, Timeout::Now).is_err());
/// # Ok::<(), weir::Error>(())
/// ```
#[must_use = "a wait does nothing until its `wait` is called"]
pub struct Wait<'a, T> {
    entries: Vec<Entry<'a, T>>,
    words: usize,
    descriptors: usize,
    poll: Option<Poll>,
}

impl<T> Default for Wait<'_, T> {
    fn default() -> Self {
        Wait { entries: Vec::new(), words: 0, descriptors: 0, poll: None }
    }
}

impl<T> fmt::Debug for Wait<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut wait = f.debug_struct("Wait");
        wait.field("words", &self.words).field("descriptors", &self.descriptors);
        wait.finish_non_exhaustive()
    }
}

impl<'a, T: Clone> Wait<'a, T> {
    /// Makes a wait for nothing yet.
    pub fn new() -> Wait<'a, T> {
        Wait::default()
    }

    /// Adds an end that the wait owns from now on. A reader waits for data or the end, a writer for
    /// room or for its reader to be gone: for as much room as [`Wait::want`] says, at first a byte.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the wait has 120 ends and flags, or 1000 descriptors. The end is
    /// dropped then.
    pub fn add<E: Waitable>(&mut self, token: T, end: E) -> Result<Key<E>> {
        self.hold(token, Box::new(End::Own(end)))
    }

    /// Adds an end that somebody else owns.
    ///
    /// # Errors
    /// Those of [`Wait::add`].
    pub fn add_borrowed<E: Waitable>(&mut self, token: T, end: &'a mut E) -> Result<Key<E>> {
        self.hold(token, Box::new(End::Lent(end)))
    }

    /// Adds a copy of a descriptor.
    ///
    /// # Errors
    /// Those of [`Wait::add`]; the kernel has no descriptors.
    pub fn add_descriptor(
        &mut self,
        token: T,
        descriptor: impl AsFd,
        interest: Interest,
    ) -> Result<Key<OwnedFd>> {
        self.check_room(0, 1)?;
        let file = copy_of(descriptor.as_fd())?;
        let events = if interest == Interest::Read { EventFlags::IN } else { EventFlags::OUT };
        let id = next_id();
        let is_polled = self.poll()?.add(&file, id, events)?;
        self.descriptors += 1;
        self.enter(
            id,
            token,
            Kind::Descriptor { file, events, is_ready: !is_polled, is_polled },
            None,
        )
    }

    pub(crate) fn hold<E>(&mut self, token: T, mut held: Box<dyn Held + 'a>) -> Result<Key<E>> {
        let id = next_id();
        let mut polled = None;
        if let Some(descriptor) = held.source().descriptor()? {
            self.check_room(0, 1)?;
            let copy = copy_of(descriptor)?;
            self.poll()?.add(&copy, id, EventFlags::IN)?;
            self.descriptors += 1;
            polled = Some(copy);
        } else {
            let words = held.source().word_count();
            self.check_room(words, 0)?;
            self.words += words;
        }
        self.enter(id, token, Kind::Held(held), polled)
    }

    fn enter<E>(
        &mut self,
        id: u64,
        token: T,
        kind: Kind<'a>,
        polled: Option<OwnedFd>,
    ) -> Result<Key<E>> {
        self.entries.push(Entry { id, token, kind, wanted: Some(1), said: None, polled });
        Ok(Key { id, end: PhantomData })
    }

    fn check_room(&self, words: usize, descriptors: usize) -> Result<()> {
        if self.words + words <= MOST_WORDS && self.descriptors + descriptors <= MOST_DESCRIPTORS {
            return Ok(());
        }
        let why =
            format!("{MOST_WORDS} ends and flags, or {MOST_DESCRIPTORS} descriptors, are the most");
        Err(Error::new(ErrorKind::Invalid, "add", "to a wait", why))
    }

    fn poll(&mut self) -> Result<&Poll> {
        match &mut self.poll {
            Some(poll) => Ok(poll),
            poll => Ok(poll.insert(Poll::new()?)),
        }
    }

    /// Sets what is waited for of an end: for a writer of a stream so many bytes of room, at most its
    /// capacity; for a writer of records or messages room for one of so many bytes. Readers and
    /// descriptors wait for whatever comes. `None` waits for nothing of it until it is set again.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the key is not of this wait, or its end was removed. The kernel has no
    /// memory.
    pub fn want<E>(&mut self, key: Key<E>, bytes: impl Into<Option<usize>>) -> Result<()> {
        let place = self.place(key).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "wait for", "an end", "the key is not of this wait")
        })?;
        let (entry, bytes) = (&mut self.entries[place], bytes.into());
        let (file, events) = match &entry.kind {
            Kind::Held(_) => (entry.polled.as_ref(), EventFlags::IN),
            Kind::Descriptor { file, events, .. } => (Some(file), *events),
        };
        if let (Some(file), Some(poll)) = (file, &self.poll) {
            match (entry.wanted, bytes) {
                (Some(_), None) => poll.remove(file),
                (None, Some(_)) => drop(poll.add(file, entry.id, events)?),
                _ => {}
            }
        }
        entry.wanted = bytes.map(|bytes| match &mut entry.kind {
            Kind::Held(held) => held.wanted(bytes),
            Kind::Descriptor { .. } => 1,
        });
        Ok(())
    }

    /// Takes an end out. Returns it if the wait owns it: `None` if it was lent, or if the key is not
    /// of this wait.
    pub fn remove<E: 'static>(&mut self, key: Key<E>) -> Option<E> {
        let entry = self.entries.remove(self.place(key)?);
        let polled = match &entry.kind {
            Kind::Descriptor { file, .. } => Some(file),
            Kind::Held(_) => entry.polled.as_ref(),
        };
        if let (Some(polled), Some(poll)) = (polled, &self.poll) {
            poll.remove(polled);
            self.descriptors -= 1;
        }
        let end = match entry.kind {
            Kind::Held(mut held) => {
                let is_slept_on = entry.polled.is_none();
                self.words -= if is_slept_on { held.source().word_count() } else { 0 };
                held.into_end()
            }
            Kind::Descriptor { file, .. } => Some(Box::new(file) as Box<dyn Any>),
        };
        end?.downcast().ok().map(|end| *end)
    }

    /// Where the entry of a key is: the entries are in the order of their numbers.
    fn place<E>(&self, key: Key<E>) -> Option<usize> {
        self.entries.binary_search_by_key(&key.id, |entry| entry.id).ok()
    }

    /// Waits until something is ready, as long as it takes. `ready` becomes the tokens of what is,
    /// in the order of adding.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is nothing to wait for. An end's error, as
    /// [`ErrorKind::Corrupt`].
    pub fn wait(&mut self, ready: &mut Vec<T>) -> Result<()> {
        self.wait_until(ready, Until::Ever)
    }

    /// Waits until something is ready, or the timeout is over.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`], [`ErrorKind::WouldBlock`]: nothing was ready in time. Those of
    /// [`Wait::wait`].
    pub fn wait_timeout(&mut self, ready: &mut Vec<T>, timeout: impl Into<Timeout>) -> Result<()> {
        self.wait_until(ready, timeout.into().start())
    }

    fn wait_until(&mut self, ready: &mut Vec<T>, until: Until) -> Result<()> {
        ready.clear();
        if until == Until::Ever && self.entries.iter().all(|entry| entry.wanted.is_none()) {
            let why = "there is nothing to wait for";
            return Err(Error::new(ErrorKind::Invalid, "wait", "for ever", why));
        }
        loop {
            self.look(ready)?;
            if !ready.is_empty() {
                return Ok(());
            }
            if until == Until::Now {
                let why = "nothing is ready";
                return Err(Error::new(ErrorKind::WouldBlock, "wait for", "any of these", why));
            }
            if until.is_over() {
                let why = "nothing was ready in time";
                return Err(Error::new(ErrorKind::TimedOut, "wait for", "any of these", why));
            }
            self.sleep_unless_ready(until)?;
        }
    }

    /// Finds what is ready now.
    fn look(&mut self, ready: &mut Vec<T>) -> Result<()> {
        self.poll_descriptors()?;
        for entry in &mut self.entries {
            if entry.is_ready()? {
                ready.push(entry.token.clone());
            }
        }
        Ok(())
    }

    fn poll_descriptors(&mut self) -> Result<()> {
        let Some(poll) = &self.poll else { return Ok(()) };
        for entry in &mut self.entries {
            if let Kind::Descriptor { is_ready, is_polled, .. } = &mut entry.kind {
                *is_ready = !*is_polled;
            }
        }
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = vec![none; self.descriptors.max(1)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = match epoll::wait(&poll.epoll, &mut events[..], Some(&now)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(cause) => return Err(Error::os("wait for", "descriptors", cause)),
        };
        for event in &events[..count] {
            let place = self.entries.binary_search_by_key(&event.data.u64(), |entry| entry.id);
            if let Ok(place) = place
                && let Kind::Descriptor { is_ready, .. } = &mut self.entries[place].kind
            {
                *is_ready = true;
            }
        }
        Ok(())
    }

    fn sleep_unless_ready(&mut self, until: Until) -> Result<()> {
        // Acquire pairs with the release of who counts it up.
        let rung =
            self.poll.as_ref().map(|poll| (&poll.rung.0, poll.rung.0.load(Ordering::Acquire)));
        let announced = Announced(&mut self.entries);
        let mut words: Vec<(&AtomicU32, u32)> = rung.into_iter().collect();
        let mut most = None;
        for entry in announced.0.iter_mut() {
            if !entry.announce(&mut words, &mut most)? {
                return Ok(());
            }
        }
        if let Some(poll) = &self.poll {
            // One that is ready already is told at once.
            poll.watched.again(EventFlags::IN | EventFlags::ONESHOT)?;
        }
        let begun = Instant::now();
        futex::wait_any(&words, until.at_most(most))
            .map_err(|cause| Error::os("wait for", "several things", cause))?;
        let slept = begun.elapsed();
        drop(words);
        drop(announced);
        for entry in &mut self.entries {
            if let (Kind::Held(held), Some(_)) = (&mut entry.kind, entry.wanted) {
                held.source().after_sleep(slept)?;
            }
        }
        Ok(())
    }
}

impl<E: 'static, T: Clone> Index<Key<E>> for Wait<'_, T> {
    type Output = E;

    /// The end of that key.
    ///
    /// # Panics
    /// The key is not of this wait, or its end was removed.
    fn index(&self, key: Key<E>) -> &E {
        let entry = self.place(key).and_then(|place| self.entries.get(place));
        let end = entry.and_then(|entry| match &entry.kind {
            Kind::Held(held) => held.end().downcast_ref(),
            Kind::Descriptor { file, .. } => (file as &dyn Any).downcast_ref(),
        });
        end.expect("the key is of this wait")
    }
}

impl<E: 'static, T: Clone> IndexMut<Key<E>> for Wait<'_, T> {
    fn index_mut(&mut self, key: Key<E>) -> &mut E {
        let entry = self.place(key).and_then(|place| self.entries.get_mut(place));
        let end = entry.and_then(|entry| match &mut entry.kind {
            Kind::Held(held) => held.end_mut().downcast_mut(),
            Kind::Descriptor { file, .. } => (file as &mut dyn Any).downcast_mut(),
        });
        end.expect("the key is of this wait")
    }
}

/// The number of the next entry, which no entry of another wait has.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only to be different.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn copy_of(descriptor: BorrowedFd) -> Result<OwnedFd> {
    let copy = descriptor.try_clone_to_owned();
    copy.map_err(|cause| Error::os("copy", "a descriptor", cause))
}
