//! One wait over ends, flags, descriptors and a timeout.
//!
//! It sleeps on the words of all ends by `futex_waitv` (Linux 5.16; on older kernels, and where a
//! filter forbids it, by short sleeps on one of them). Its descriptors are in an epoll of its own,
//! which the watcher of the process watches while the wait sleeps.

mod entry;
mod pollable;

use crate::error::{Error, ErrorKind, Result};
use crate::park::{Timeout, Until, WaitSource, futex};
pub use entry::WaitItem;
use entry::{Announced, OwnedOrLent, Poll, WaitEntry, Waited};
pub use pollable::Pollable;
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

/// The most words of ends and flags in one wait.
const MOST_WORDS: usize = 120;
/// The most descriptors in one wait.
const MOST_DESCRIPTORS: usize = 1000;

/// What a [`Wait`] waits for at a descriptor.
///
/// ```
/// use weir::{Interest, Wait};
/// let (input, mut output) = std::io::pipe()?;
/// let mut wait = Wait::new();
/// wait.add_descriptor("input", &input, Interest::Read)?;
/// std::io::Write::write_all(&mut output, b"ready")?;
/// let mut ready = Vec::new();
/// wait.wait(&mut ready)?;
/// assert_eq!(ready, ["input"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interest {
    /// Until it can be read.
    Read,
    /// Until it can be written.
    Write,
}

/// An end that a [`Wait`] can wait for and [`Pollable`] can hold: of a pipe, a backlog, a port or an
/// mpx, or an elastic reader. Other crates cannot implement it.
///
/// ```
/// use weir::{Key, Wait, Waitable};
/// fn add_all<E: Waitable>(wait: &mut Wait<usize>, ends: Vec<E>) -> weir::Result<Vec<Key<E>>> {
///     ends.into_iter().enumerate().map(|(number, end)| wait.add(number, end)).collect()
/// }
///
/// let (_quiet, first) = weir::pipe(&weir::Options::new())?;
/// let (mut writer, second) = weir::pipe(&weir::Options::new())?;
/// let mut wait = Wait::new();
/// let keys = add_all(&mut wait, vec![first, second])?;
/// writer.write(b"ready")?;
/// let mut ready = Vec::new();
/// wait.wait(&mut ready)?;
/// assert_eq!(ready, [1]);
/// assert_eq!(wait[keys[1]].read(&mut [0; 64])?, 5);
/// # Ok::<(), weir::Error>(())
/// ```
pub trait Waitable: Send + 'static {
    #[doc(hidden)]
    fn source(&mut self) -> &mut dyn WaitSource;

    #[doc(hidden)]
    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>>;

    #[doc(hidden)]
    fn wanted(&self, bytes: usize) -> u64 {
        bytes as u64
    }
}

/// The place of an end in a [`Wait`]: `wait[key]` is the end.
///
/// ```
/// use weir::{Key, Reader, Wait};
/// let (mut writer, reader) = weir::pipe(&weir::Options::new())?;
/// let mut wait = Wait::new();
/// let key: Key<Reader> = wait.add("input", reader)?;
/// writer.write(b"ready")?;
/// wait.wait(&mut Vec::new())?;
/// assert_eq!(wait[key].read(&mut [0; 64])?, 5);
/// # Ok::<(), weir::Error>(())
/// ```
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
/// The caller adds each thing once, with a token, and [`Wait::wait`] returns the tokens of what is
/// ready, in the order of adding. The wait owns the ends that are added: between two waits the
/// caller uses them as `wait[key]`, by the [`Key`] that adding returned, and [`Wait::remove`] gives
/// them back. [`Wait::add_borrowed`] borrows an end for as long as the wait lives.
///
/// Every wait reports what is ready until the caller has dealt with it. Nothing that happens
/// between two waits is lost.
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
    entries: Vec<WaitEntry<'a, T>>,
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
    /// Makes an empty wait.
    pub fn new() -> Wait<'a, T> {
        Wait::default()
    }

    /// Adds an end, which the wait owns from now on. The wait waits at a reader until there is data
    /// or the writer is gone, at a writer until there is as much room as [`Wait::want`] says (at
    /// first one byte) or the reader is gone.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the wait already has 120 ends and flags, or 1000 descriptors. The
    /// end is dropped then.
    pub fn add<E: Waitable>(&mut self, token: T, end: E) -> Result<Key<E>> {
        self.hold(token, Box::new(OwnedOrLent::Own(end)))
    }

    /// Adds an end that stays the caller's.
    ///
    /// # Errors
    /// Those of [`Wait::add`].
    pub fn add_borrowed<E: Waitable>(&mut self, token: T, end: &'a mut E) -> Result<Key<E>> {
        self.hold(token, Box::new(OwnedOrLent::Lent(end)))
    }

    /// Adds a copy of a descriptor.
    ///
    /// # Errors
    /// Those of [`Wait::add`]; the kernel has no descriptors left.
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
        let waited = Waited::Descriptor { file, events, is_ready: !is_polled, is_polled };
        self.enter(WaitEntry::new(id, token, waited))
    }

    pub(crate) fn hold<E>(&mut self, token: T, mut held: Box<dyn WaitItem + 'a>) -> Result<Key<E>> {
        let id = next_id();
        let (mut polled, mut words) = (None, 0);
        if let Some(descriptor) = held.source().descriptor()? {
            self.check_room(0, 1)?;
            let copy = copy_of(descriptor)?;
            self.poll()?.add(&copy, id, EventFlags::IN)?;
            self.descriptors += 1;
            polled = Some(copy);
        } else {
            words = held.source().word_count();
            self.check_room(words, 0)?;
            self.words += words;
        }
        self.enter(WaitEntry::new(id, token, Waited::Item(held)).counted(polled, words))
    }

    fn enter<E>(&mut self, entry: WaitEntry<'a, T>) -> Result<Key<E>> {
        let id = entry.id;
        self.entries.push(entry);
        Ok(Key { id, end: PhantomData })
    }

    fn check_room(&self, words: usize, descriptors: usize) -> Result<()> {
        if self.words + words <= MOST_WORDS && self.descriptors + descriptors <= MOST_DESCRIPTORS {
            return Ok(());
        }
        let why = format!(
            "it can hold at most {MOST_WORDS} ends and flags, and {MOST_DESCRIPTORS} descriptors"
        );
        Err(Error::new(ErrorKind::Invalid, "add", "to a wait", why))
    }

    fn poll(&mut self) -> Result<&Poll> {
        match &mut self.poll {
            Some(poll) => Ok(poll),
            poll => Ok(poll.insert(Poll::new()?)),
        }
    }

    /// Sets how much room the wait waits for at a writer: for a writer of a stream `bytes`, at most
    /// its capacity; for a writer of records, room for one of `bytes`; for a writer of messages,
    /// for the first piece of one. Readers, descriptors and a writer of a backlog (one byte) wait for
    /// whatever comes. `None` excludes the end until it is set again.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the key is not of this wait, or its end was removed. The kernel has
    /// no memory left. [`ErrorKind::Forked`].
    pub fn want<E>(&mut self, key: Key<E>, bytes: impl Into<Option<usize>>) -> Result<()> {
        let place = self.place(key).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "wait for", "an end", "the key is not of this wait")
        })?;
        let (entry, bytes) = (&mut self.entries[place], bytes.into());
        let (file, events) = match &entry.waited {
            Waited::Item(_) => (entry.polled.as_ref(), EventFlags::IN),
            Waited::Descriptor { file, events, .. } => (Some(file), *events),
        };
        if let (Some(file), Some(poll)) = (file, &self.poll) {
            poll.check_here()?;
            match (entry.wanted, bytes) {
                (Some(_), None) => poll.remove(file),
                (None, Some(_)) => drop(poll.add(file, entry.id, events)?),
                _ => {}
            }
        }
        entry.wanted = bytes.map(|bytes| match &mut entry.waited {
            Waited::Item(held) => held.wanted(bytes),
            Waited::Descriptor { .. } => 1,
        });
        Ok(())
    }

    /// Removes an end and returns it. Returns `None` if the end was borrowed, or if the key is not
    /// of this wait.
    pub fn remove<E: 'static>(&mut self, key: Key<E>) -> Option<E> {
        let entry = self.entries.remove(self.place(key)?);
        let polled = match &entry.waited {
            Waited::Descriptor { file, .. } => Some(file),
            Waited::Item(_) => entry.polled.as_ref(),
        };
        if let (Some(polled), Some(poll)) = (polled, &self.poll) {
            poll.remove(polled);
            self.descriptors -= 1;
        }
        self.words -= entry.words;
        let end = match entry.waited {
            Waited::Item(held) => held.into_end(),
            Waited::Descriptor { file, .. } => Some(Box::new(file) as Box<dyn Any>),
        };
        end?.downcast().ok().map(|end| *end)
    }

    /// The index of a key's entry. Entries are sorted by their ids.
    fn place<E>(&self, key: Key<E>) -> Option<usize> {
        self.entries.binary_search_by_key(&key.id, |entry| entry.id).ok()
    }

    /// Waits until something is ready, as long as it takes. Replaces the content of `ready` by the
    /// tokens of what is ready, in the order of adding.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is nothing to wait for. [`ErrorKind::Forked`] and other errors
    /// of an end; but one whose memory is corrupt is told as ready, and its next call fails.
    pub fn wait(&mut self, ready: &mut Vec<T>) -> Result<()> {
        self.wait_until(ready, Until::Ever)
    }

    /// Waits until something is ready, or the timeout passes.
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
        let mut is_first = true;
        loop {
            self.poll_ready(ready)?;
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
            self.sleep_unless_ready(until, std::mem::take(&mut is_first))?;
        }
    }

    fn poll_ready(&mut self, ready: &mut Vec<T>) -> Result<()> {
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
            if let Waited::Descriptor { is_ready, is_polled, .. } = &mut entry.waited {
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
                && let Waited::Descriptor { is_ready, .. } = &mut self.entries[place].waited
            {
                *is_ready = true;
            }
        }
        Ok(())
    }

    fn sleep_unless_ready(&mut self, until: Until, is_first: bool) -> Result<()> {
        self.poll.as_ref().map_or(Ok(()), Poll::check_here)?;
        // Acquire: pairs with the Release in `Rung::note`.
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
            // The watcher reports an epoll that is ready already at once.
            poll.watched.again(EventFlags::IN | EventFlags::ONESHOT)?;
        }
        let begun = Instant::now();
        let ended = futex::wait_any(&words, until.at_most(most));
        drop(words);
        let sleepers = announced.0.iter_mut();
        let slept = sleepers.map(|entry| entry.slept_since(begun, rung)).collect::<Vec<_>>();
        drop(announced);
        for (entry, slept) in self.entries.iter_mut().zip(slept) {
            if let (Waited::Item(held), Some(slept)) = (&mut entry.waited, slept) {
                let source = held.source();
                if is_first {
                    source.count_wait();
                }
                source.after_sleep(slept)?;
            }
        }
        ended.map_err(|cause| Error::os("wait for", "several things", cause))
    }
}

impl<E: 'static, T: Clone> Index<Key<E>> for Wait<'_, T> {
    type Output = E;

    /// Returns the end of a key.
    ///
    /// # Panics
    /// The key is not of this wait, or its end was removed.
    fn index(&self, key: Key<E>) -> &E {
        let entry = self.place(key).and_then(|place| self.entries.get(place));
        let end = entry.and_then(|entry| match &entry.waited {
            Waited::Item(held) => held.end().downcast_ref(),
            Waited::Descriptor { file, .. } => (file as &dyn Any).downcast_ref(),
        });
        end.expect("the key is of this wait")
    }
}

impl<E: 'static, T: Clone> IndexMut<Key<E>> for Wait<'_, T> {
    fn index_mut(&mut self, key: Key<E>) -> &mut E {
        let entry = self.place(key).and_then(|place| self.entries.get_mut(place));
        let end = entry.and_then(|entry| match &mut entry.waited {
            Waited::Item(held) => held.end_mut().downcast_mut(),
            Waited::Descriptor { file, .. } => (file as &mut dyn Any).downcast_mut(),
        });
        end.expect("the key is of this wait")
    }
}

/// A number that no other entry of any wait has.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: ids only have to differ.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn copy_of(descriptor: BorrowedFd) -> Result<OwnedFd> {
    let copy = descriptor.try_clone_to_owned();
    copy.map_err(|cause| Error::os("copy", "a descriptor", cause))
}
