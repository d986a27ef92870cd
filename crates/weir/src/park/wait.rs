//! One wait over ends, flags, descriptors and a time.
//!
//! ```
//! use weir::{Flags, Options, Wait};
//! let (mut writer, mut reader) = weir::pipe(&Options::new())?;
//! let flags = Flags::local();
//! writer.write(b"x")?;
//! let ready = Wait::new().reader(&mut reader)?.flags(&flags, 1)?.wait(None)?;
//! assert_eq!(ready, [0]);
//! # Ok::<(), weir::Error>(())
//! ```
//!
//! All of it are futexes: `futex_waitv` (Linux 5.16; before, and where a filter forbids it, short
//! sleeps on one of them) sleeps on the word of each end and cluster, and on one word that the
//! watcher counts up when a descriptor is ready. Each sleep follows the
//! protocol of its object, so that what happens between looking and sleeping is seen.

use crate::connect::watcher::{Rung, Watched, watch_descriptor};
use crate::error::{Error, ErrorKind, Result};
use crate::flags::Flags;
use crate::mpx::{Mpx, MpxPeer, Waiter};
use crate::park::futex;
use crate::pipe::end::{End, WRITER_SLICE};
use crate::pipe::record::{RecordReader, RecordWriter};
use crate::pipe::stream::{Reader, Writer};
use crate::pool::elastic::ElasticReader;
use crate::port::{Port, PortWriter};
use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir_ring::sleep;

/// Most ends and clusters of one wait.
pub const MOST_WORDS: usize = 120;
/// Most descriptors of one wait.
pub const MOST_DESCRIPTORS: usize = 1000;

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// That it can be read.
    Read,
    /// That it can be written.
    Write,
}

enum Item<'a> {
    Stream(&'a mut Reader),
    Room(&'a mut Writer, u64),
    Records(&'a mut RecordReader),
    Sending(&'a mut RecordWriter, usize),
    Port(&'a mut Port),
    Hub(Waiter<'a>),
    Flags(&'a Flags, u64, bool),
    Descriptor(BorrowedFd<'a>, Interest),
}

/// A wait that is being put together.
#[derive(Default)]
pub struct Wait<'a> {
    items: Vec<Item<'a>>,
    words: usize,
    descriptors: usize,
}

impl<'a> Wait<'a> {
    /// For nothing yet.
    pub fn new() -> Wait<'a> {
        Wait::default()
    }

    fn add(mut self, item: Item<'a>) -> Result<Wait<'a>> {
        let is_descriptor = matches!(item, Item::Descriptor(..));
        self.descriptors += usize::from(is_descriptor);
        self.words += match &item {
            Item::Hub(hub) => hub.word_count(),
            _ => usize::from(!is_descriptor),
        };
        if self.words > MOST_WORDS || self.descriptors > MOST_DESCRIPTORS {
            let most = format!(
                "more than {MOST_WORDS} ends and clusters, or {MOST_DESCRIPTORS} descriptors"
            );
            return Err(Error::new(ErrorKind::Invalid, "wait for", "so many", most));
        }
        self.items.push(item);
        Ok(self)
    }

    /// For data of a stream, or its end.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there are too many already. So of all that follow.
    pub fn reader(self, reader: &'a mut Reader) -> Result<Wait<'a>> {
        self.add(Item::Stream(reader))
    }

    /// For data of an elastic reader, in memory, or the end of its stream. It counts as a
    /// descriptor.
    ///
    /// # Errors
    /// There are too many already; the kernel has no descriptors.
    pub fn elastic_reader(self, reader: &'a mut ElasticReader) -> Result<Wait<'a>> {
        self.add(Item::Descriptor(reader.armed_descriptor()?, Interest::Read))
    }

    /// For so much room in a stream, at most its capacity; or for its reader to be gone.
    ///
    /// # Errors
    /// There are too many already.
    pub fn writer(self, writer: &'a mut Writer, room: u64) -> Result<Wait<'a>> {
        self.add(Item::Room(writer, room))
    }

    /// For a record, or the end of them.
    ///
    /// # Errors
    /// There are too many already.
    pub fn record_reader(self, reader: &'a mut RecordReader) -> Result<Wait<'a>> {
        self.add(Item::Records(reader))
    }

    /// For room for a record of so many bytes; or for the reader to be gone.
    ///
    /// # Errors
    /// There are too many already.
    pub fn record_writer(self, writer: &'a mut RecordWriter, bytes: usize) -> Result<Wait<'a>> {
        self.add(Item::Sending(writer, bytes))
    }

    /// For a message of a port, or the end of one of its writers.
    ///
    /// # Errors
    /// There are too many already.
    pub fn port(self, port: &'a mut Port) -> Result<Wait<'a>> {
        self.add(Item::Port(port))
    }

    /// For room for a message of so many bytes, or for its first piece; or for the reader to be
    /// gone.
    ///
    /// # Errors
    /// There are too many already.
    pub fn port_writer(self, writer: &'a mut PortWriter, bytes: usize) -> Result<Wait<'a>> {
        let (ring, bytes) = writer.ring(bytes);
        self.add(Item::Sending(ring, bytes))
    }

    /// For what comes of the channels of an mpx. That there is something for its calls to do may
    /// also be what they do without a record.
    ///
    /// # Errors
    /// There are too many already; each that is joined to it counts.
    pub fn mpx(self, mpx: &'a mut Mpx) -> Result<Wait<'a>> {
        self.add(Item::Hub(mpx.waiter()))
    }

    /// The same of a peer of one, also that its owner is gone.
    ///
    /// # Errors
    /// There are too many already.
    pub fn mpx_peer(self, peer: &'a mut MpxPeer) -> Result<Wait<'a>> {
        self.add(Item::Hub(peer.waiter()))
    }

    /// For any of these flags.
    ///
    /// # Errors
    /// There are too many already.
    pub fn flags(self, flags: &'a Flags, mask: u64) -> Result<Wait<'a>> {
        self.add(Item::Flags(flags, mask, false))
    }

    /// For all of these flags at once.
    ///
    /// # Errors
    /// There are too many already.
    pub fn all_flags(self, flags: &'a Flags, mask: u64) -> Result<Wait<'a>> {
        self.add(Item::Flags(flags, mask, true))
    }

    /// For a descriptor to be ready, or in error.
    ///
    /// # Errors
    /// There are too many already.
    pub fn descriptor(self, descriptor: BorrowedFd<'a>, interest: Interest) -> Result<Wait<'a>> {
        self.add(Item::Descriptor(descriptor, interest))
    }

    /// Waits until something is ready: the places of what is, in the order of adding.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]; [`ErrorKind::Corrupt`] of an end; [`ErrorKind::Invalid`]: there is
    /// nothing to wait for.
    pub fn wait(&mut self, time: Option<Duration>) -> Result<Vec<usize>> {
        let until = time.and_then(|time| Instant::now().checked_add(time));
        if self.items.is_empty() && until.is_none() {
            return Err(Error::new(ErrorKind::Invalid, "wait", "for ever", "nothing was added"));
        }
        let rung: Arc<Rung> = Arc::default();
        let mut watched = Vec::new();
        loop {
            let ready = self.ready()?;
            if !ready.is_empty() {
                return Ok(ready);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                let why = "nothing was ready in time";
                return Err(Error::new(ErrorKind::TimedOut, "wait for", "any of these", why));
            }
            // Acquire pairs with the release of the watcher.
            let seen = rung.0.load(Ordering::Acquire);
            watched.clear();
            for item in &self.items {
                if let Item::Descriptor(descriptor, interest) = item {
                    watched.extend(watch(*descriptor, *interest, &rung)?);
                }
            }
            let slept = self.sleep_unless_ready((&rung.0, seen), until);
            self.retract();
            slept?;
        }
    }

    /// Says of each that it is about to be slept on, looks once more, and sleeps if there is
    /// nothing.
    fn sleep_unless_ready(
        &mut self,
        rung: (&AtomicU32, u32),
        until: Option<Instant>,
    ) -> Result<()> {
        let mut expected = Vec::new();
        let mut nothing = Ok(true);
        // All of them, since all are retracted.
        for item in &mut self.items {
            match item.announce(&mut expected) {
                Ok(found_nothing) => nothing = nothing.map(|so_far| so_far && found_nothing),
                Err(error) => nothing = Err(error),
            }
        }
        if nothing? && !self.any_after_announcing()? {
            self.sleep(&expected, rung, until)?;
        }
        Ok(())
    }

    /// What is ready now.
    fn ready(&mut self) -> Result<Vec<usize>> {
        let mut ready = Vec::new();
        for (place, item) in self.items.iter_mut().enumerate() {
            if item.is_ready()? {
                ready.push(place);
            }
        }
        Ok(ready)
    }

    /// The second look, after all have said that they sleep. Those that let others in have looked
    /// when they said so: what came then is news, which has kept them from sleeping.
    fn any_after_announcing(&mut self) -> Result<bool> {
        for item in &mut self.items {
            if !matches!(item, Item::Port(..) | Item::Hub(..)) && item.is_ready()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn retract(&mut self) {
        self.items.iter_mut().for_each(Item::retract);
    }

    fn sleep(
        &mut self,
        expected: &[u32],
        (rung, seen): (&AtomicU32, u32),
        until: Option<Instant>,
    ) -> Result<()> {
        // Room of less than a segment is looked for, as an end does that sleeps alone.
        let is_writer = |item: &Item| matches!(item, Item::Room(..) | Item::Sending(..));
        let slice = self.items.iter().any(is_writer).then_some(WRITER_SLICE);
        let ports = self.items.iter().filter_map(|item| match item {
            Item::Port(port) => port.most_sleep(),
            Item::Hub(hub) => hub.most_sleep(),
            _ => None,
        });
        let (begun, slice) = (Instant::now(), slice.into_iter().chain(ports).min());
        let until = until.into_iter().chain(slice.map(|slice| begun + slice)).min();
        let mut words = vec![(rung, seen)];
        let mut expected = expected.iter();
        for item in &mut self.items {
            if let Item::Hub(hub) = item {
                hub.words(&mut words);
                continue;
            }
            let word = match item {
                Item::Flags(flags, ..) => Some(&flags.cluster().generation),
                Item::Port(port) => Some(port.sleep_word()),
                _ => item.end()?.map(|end| end.sleep_word()),
            };
            if let (Some(word), Some(expected)) = (word, word.and_then(|_| expected.next())) {
                words.push((word, *expected));
            }
        }
        let time = until.map(|until| until.saturating_duration_since(Instant::now()));
        let slept = futex::wait_any(&words, time);
        slept.map_err(|cause| Error::os("wait for", "several things", cause))?;
        for item in &mut self.items {
            if let Item::Port(port) = item
                && port.most_sleep().is_some_and(|slice| begun.elapsed() >= slice)
            {
                port.look_at_all()?;
            }
            if let Item::Hub(hub) = item {
                hub.after_sleep(Duration::ZERO)?;
            }
        }
        Ok(())
    }
}

impl Item<'_> {
    fn is_ready(&mut self) -> Result<bool> {
        match self {
            Item::Stream(reader) => reader.is_ready(),
            Item::Room(writer, room) => writer.is_ready(*room),
            Item::Records(reader) => reader.is_ready(),
            Item::Sending(writer, bytes) => writer.is_ready(*bytes),
            Item::Port(port) => port.is_ready(),
            Item::Hub(hub) => hub.0.is_ready(),
            Item::Flags(flags, mask, all) => {
                Ok(weir_ring::cluster::matching(flags.read(), *mask, *all).is_some())
            }
            Item::Descriptor(descriptor, interest) => is_ready(*descriptor, *interest),
        }
    }

    /// Says that it is about to be slept on, and what to expect of its word. Whether there is
    /// nothing, as far as this has looked.
    fn announce(&mut self, expected: &mut Vec<u32>) -> Result<bool> {
        match self {
            Item::Flags(flags, ..) => expected.push(flags.cluster().count_in()),
            Item::Port(port) => match port.announce()? {
                Some(said) if port.falls_asleep() => expected.push(said),
                _ => return Ok(false),
            },
            Item::Hub(hub) => return hub.announce(),
            _ => {
                if let Some(end) = self.end()? {
                    expected.push(end.announce(sleep::ASLEEP));
                    // That the other is gone is seen by the look that follows.
                    end.life.falls_asleep();
                }
            }
        }
        Ok(true)
    }

    fn retract(&mut self) {
        match self {
            Item::Flags(flags, ..) => flags.cluster().count_out(),
            Item::Port(port) => port.retract(),
            Item::Hub(hub) => hub.retract(),
            _ => {
                // One that is not this process's did not sleep either.
                if let Ok(Some(end)) = self.end() {
                    end.life.wakes_up();
                    sleep::retract(end.sleep_word(), sleep::ASLEEP);
                }
            }
        }
    }

    fn end(&mut self) -> Result<Option<&mut End>> {
        Ok(match self {
            Item::Stream(reader) => Some(reader.parts()?.0),
            Item::Room(writer, room) => Some(writer.announce_room(*room)?),
            Item::Records(reader) => Some(reader.parts()?.0),
            Item::Sending(writer, bytes) => Some(writer.announce_room(*bytes)?),
            Item::Port(..) | Item::Hub(..) | Item::Flags(..) | Item::Descriptor(..) => None,
        })
    }
}

fn watch(fd: BorrowedFd, interest: Interest, rung: &Arc<Rung>) -> Result<Option<Watched>> {
    let events = match interest {
        Interest::Read => EventFlags::IN | EventFlags::RDHUP,
        Interest::Write => EventFlags::OUT,
    };
    match watch_descriptor(fd, events, rung) {
        Ok(watched) => Ok(Some(watched)),
        // A file of a disk is always ready, which looking has said.
        Err(error) if is_no_event_source(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_no_event_source(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.is_some_and(|cause: &std::io::Error| {
        cause.raw_os_error() == Some(Errno::PERM.raw_os_error())
    })
}

fn is_ready(descriptor: BorrowedFd, interest: Interest) -> Result<bool> {
    let flags = if interest == Interest::Read { PollFlags::IN } else { PollFlags::OUT };
    let mut asked = [PollFd::from_borrowed_fd(descriptor, flags)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut asked, Some(&now)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(cause) => Err(Error::os("wait for", "a descriptor", cause)),
    }
}
