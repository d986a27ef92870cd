//! The reader of a port: what its owner calls.

use super::lent::Lent;
use super::rings::{Effort, Rings};
use super::slot::{Manner, Step};
use super::{Counts, Event, PortOptions, READ, Received, WriterId, WriterStat};
use crate::connect::name::{self, Subject};
use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::park::{Source, Until};
use rustix::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

const CREATE: Subject = Subject { operation: "make", noun: "port" };
/// Rounds of letting in before writers are counted: those who come without end are not waited for.
const MOST_ROUNDS: u32 = 64;

/// The reader of a port. Dropping it closes the port, and its name goes.
#[derive(Debug)]
pub struct Port {
    rings: Rings,
}

impl Port {
    /// Makes a port and listens. What its name means says `docs/contracts/port.md`.
    ///
    /// # Errors
    /// [`ErrorKind::Taken`]: the name has a reader, or is another program's file;
    /// [`ErrorKind::Invalid`]: the name or an option cannot be; the kernel's.
    pub fn create(name: impl AsRef<Path>, options: &PortOptions) -> Result<Port> {
        let path = name::resolve(&CREATE, name.as_ref())?;
        Ok(Port { rings: Rings::listen(&CREATE, &path, options)? })
    }

    /// Receives the next message of any writer into `buffer`, or that one is gone, waiting for it
    /// as long as it takes.
    ///
    /// # Errors
    /// [`ErrorKind::TooSmall`]: the buffer; the message stays, [`Error::needed_bytes`] is its
    /// length. [`ErrorKind::Forked`].
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        self.receive_until(buffer, Until::Ever)
    }

    /// The same, if there is something.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: there is nothing. Those of [`Port::receive`].
    pub fn try_receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        self.receive_until(buffer, Until::Now)
    }

    /// The same, if something comes in that time.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing came. Those of [`Port::receive`].
    pub fn receive_for(&mut self, buffer: &mut [u8], time: Duration) -> Result<Received> {
        self.receive_until(buffer, Until::after(time))
    }

    #[inline]
    fn receive_until(&mut self, buffer: &mut [u8], until: Until) -> Result<Received> {
        let mut got = None;
        self.copy_each(buffer, 1, until, |received, _| got = Some(received))?;
        got.ok_or_else(|| READ.error(ErrorKind::WouldBlock, self.path(), "no message is whole"))
    }

    /// Receives the next message as [`Port::receive`] does, and with it those that the same writer
    /// has sent by then, to the end of its turn, each through `buffer`, which is shown to `see`:
    /// how many. Cheaper than one at a time where messages are short and many.
    ///
    /// # Errors
    /// Those of [`Port::receive`].
    pub fn receive_each(
        &mut self,
        buffer: &mut [u8],
        see: impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        self.receive_each_until(buffer, Until::Ever, see)
    }

    /// The same, if there is something.
    ///
    /// # Errors
    /// Those of [`Port::try_receive`].
    pub fn try_receive_each(
        &mut self,
        buffer: &mut [u8],
        see: impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        self.receive_each_until(buffer, Until::Now, see)
    }

    /// The same, if something comes in that time.
    ///
    /// # Errors
    /// Those of [`Port::receive_for`].
    pub fn receive_each_for(
        &mut self,
        buffer: &mut [u8],
        time: Duration,
        see: impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        self.receive_each_until(buffer, Until::after(time), see)
    }

    fn receive_each_until(
        &mut self,
        buffer: &mut [u8],
        until: Until,
        see: impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        self.copy_each(buffer, usize::MAX, until, see)
    }

    /// At most so many messages of the writer that is next, each through `buffer`: how many.
    #[inline]
    fn copy_each(
        &mut self,
        buffer: &mut [u8],
        most: usize,
        until: Until,
        mut see: impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        // In a stream of messages of the same writer there is nothing else to look at.
        if let Some(place) = self.rings.choice.current_place()
            && let served @ 1.. = self.copy_of_writer(place, buffer, most, &mut see)?
        {
            return Ok(served);
        }
        let mut effort = Effort::new(until);
        loop {
            let place = self.rings.next_of(&mut effort)?;
            if let served @ 1.. = self.copy_of_writer(place, buffer, most, &mut see)? {
                return Ok(served);
            }
            if let Some(received) = self.step(place, buffer, &mut effort)? {
                see(received, &buffer[..received.event.bytes()]);
                return Ok(1);
            }
        }
    }

    #[inline]
    fn copy_of_writer(
        &mut self,
        place: u32,
        buffer: &mut [u8],
        most: usize,
        see: &mut impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        let manner = self.manner();
        let slot = self.rings.choice.slot(place)?;
        let (writer, identity, before) = (slot.id, slot.identity, slot.bytes);
        let served = slot.serve_short(buffer, most, manner, |sequence, bytes| {
            let event = Event::Message { bytes: bytes.len() };
            see(Received { writer, identity, sequence, event }, bytes);
        })?;
        if served > 0 {
            let bytes = slot.bytes - before;
            self.served(place, served, bytes)?;
        }
        Ok(served)
    }

    /// As [`Port::receive_each`], but messages that came in one piece are shown where they lie,
    /// and not copied. `buffer` is for the others. An end of a writer is shown as well, as an empty
    /// message.
    ///
    /// # Errors
    /// Those of [`Port::receive`].
    pub fn receive_each_lent(
        &mut self,
        buffer: &mut [u8],
        see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        self.receive_each_lent_until(buffer, Until::Ever, see)
    }

    /// The same, if there is something.
    ///
    /// # Errors
    /// Those of [`Port::try_receive`].
    pub fn try_receive_each_lent(
        &mut self,
        buffer: &mut [u8],
        see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        self.receive_each_lent_until(buffer, Until::Now, see)
    }

    /// The same, if something comes in that time.
    ///
    /// # Errors
    /// Those of [`Port::receive_for`].
    pub fn receive_each_lent_for(
        &mut self,
        buffer: &mut [u8],
        time: Duration,
        see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        self.receive_each_lent_until(buffer, Until::after(time), see)
    }

    /// The same, if there is something; none is no error, and the descriptor for poll and epoll is
    /// left as it is. Cheaper than [`Port::try_receive_each_lent`], for who looks again and again.
    ///
    /// # Errors
    /// Those of [`Port::receive`].
    pub fn look_each_lent(
        &mut self,
        buffer: &mut [u8],
        see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        if !self.rings.is_ready()? {
            return Ok(0);
        }
        match self.receive_each_lent_until(buffer, Until::Now, see) {
            // Part of a message was there, or something else that is not shown.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            seen => seen,
        }
    }

    fn receive_each_lent_until(
        &mut self,
        buffer: &mut [u8],
        until: Until,
        mut see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        let mut effort = Effort::new(until);
        loop {
            let place = self.rings.next_of(&mut effort)?;
            let manner = self.manner();
            let slot = self.rings.choice.slot(place)?;
            let (writer, identity, before) = (slot.id, slot.identity, slot.bytes);
            let served = slot.serve(manner, |sequence, view| {
                let event = Event::Message { bytes: view.len() };
                see(Received { writer, identity, sequence, event }, Lent::InPlace(view));
            })?;
            if served > 0 {
                let bytes = slot.bytes - before;
                self.served(place, served, bytes)?;
                return Ok(served);
            }
            if let Some(received) = self.step(place, buffer, &mut effort)? {
                see(received, Lent::Copied(&buffer[..received.event.bytes()]));
                return Ok(1);
            }
        }
    }

    /// Counts what was received of a writer.
    #[inline]
    fn served(&mut self, place: u32, messages: usize, bytes: u64) -> Result<()> {
        self.rings.choice.account_for(place)?;
        self.rings.choice.count(messages as u64, bytes);
        self.rings.acted();
        Ok(())
    }

    fn manner(&self) -> Manner {
        Manner {
            in_pieces: self.rings.options.in_pieces,
            most_message_bytes: self.rings.options.most_message_bytes,
            room_bytes: 0,
        }
    }

    /// Takes one step with a writer that has something.
    fn step(
        &mut self,
        place: u32,
        buffer: &mut [u8],
        effort: &mut Effort,
    ) -> Result<Option<Received>> {
        let room_bytes = self.rings.choice.room_for(place);
        let manner = Manner { room_bytes, ..self.manner() };
        let slot = self.rings.choice.slot(place)?;
        let step = slot.step(buffer, manner);
        self.rings.choice.account_for(place)?;
        let step = step.map_err(|error| self.named(error))?;
        self.rings.acted();
        let slot = self.rings.choice.slot(place)?;
        let (writer, identity, sequence) = (slot.id, slot.identity, slot.sequence);
        let (event, bytes) = match step {
            Step::Message(bytes) => (Event::Message { bytes }, bytes),
            Step::Piece(bytes, first, last) => (Event::Piece { bytes, first, last }, bytes),
            Step::PutAway(bytes) => {
                effort.was_in_vain(bytes);
                return Ok(None);
            }
            Step::NoRoom => {
                effort.was_in_vain(0);
                self.rings.choice.hold_up(place)?;
                return Ok(None);
            }
            Step::Nothing => {
                effort.was_in_vain(0);
                self.rings.choice.ran_dry(place);
                return Ok(None);
            }
            Step::Closed(ending) => {
                self.rings.choice.remove(place, ending)?;
                let event = Event::Closed(ending);
                return Ok(Some(Received { writer, identity, sequence, event }));
            }
        };
        self.rings.choice.count(1, bytes as u64);
        Ok(Some(Received { writer, identity, sequence, event }))
    }

    /// An error, with the name of this port where it is about messages.
    fn named(&self, error: Error) -> Error {
        let Some(bytes) = error.needed_bytes() else { return error };
        let why = format!("the next message has {bytes} bytes, more than the buffer");
        READ.error(ErrorKind::TooSmall, self.path(), why).with_bytes(bytes)
    }

    /// How many writers are open, and how many wait.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn counts(&mut self) -> Result<Counts> {
        let stats = self.writers()?;
        let waiting = stats.iter().filter(|stat| stat.waiting).count();
        Ok(Counts { open: stats.len(), waiting })
    }

    /// Who is open.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn writers(&mut self) -> Result<Vec<WriterStat>> {
        self.rings.check_here()?;
        // Whoever is at the door by now counts, whether the watcher has said so or not.
        self.rings.choice.inbox().notify();
        for _ in 0..MOST_ROUNDS {
            if self.rings.choice.inbox().has_news() {
                self.rings.let_in()?;
            }
        }
        self.rings.choice.stats()
    }

    /// Bytes that can be received without waiting, at least: it stays so until this reader
    /// receives. Of each writer that has something it counts one message, or piece of one.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn available(&mut self) -> Result<usize> {
        self.rings.check_here()?;
        self.rings.choice.available()
    }

    /// Receives nothing from this writer until it is resumed. What it sends stays in its ring,
    /// and once that is full it waits.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is no such writer any more.
    pub fn suspend(&mut self, writer: WriterId) -> Result<()> {
        self.rings.choice.suspend(self.place_of(writer)?)
    }

    /// Goes on receiving from it.
    ///
    /// # Errors
    /// Those of [`Port::suspend`].
    pub fn resume(&mut self, writer: WriterId) -> Result<()> {
        self.rings.choice.resume(self.place_of(writer)?)
    }

    /// Gives a writer so many times the service of others while all are busy: 1 to 1,024.
    ///
    /// # Errors
    /// Those of [`Port::suspend`]; the share is out of its range.
    pub fn set_share(&mut self, writer: WriterId, share: u32) -> Result<()> {
        let most = weir_policy::ready::MOST_SHARE;
        if !(1..=most).contains(&share) {
            let why = format!("{share} is out of range: 1 to {most}");
            return Err(Error::new(ErrorKind::Invalid, "set", "the share of a writer", why));
        }
        let place = self.place_of(writer)?;
        self.rings.choice.slot(place)?.share = share;
        Ok(())
    }

    /// Listens to this writer no more: its `Closed` is what comes of it next.
    ///
    /// # Errors
    /// Those of [`Port::suspend`].
    pub fn shut_out(&mut self, writer: WriterId) -> Result<()> {
        let place = self.place_of(writer)?;
        self.rings.choice.shut_out(place)
    }

    fn place_of(&self, writer: WriterId) -> Result<u32> {
        self.rings.check_here()?;
        let there = self.rings.choice.id_at(writer.slot) == Some(writer);
        there.then_some(writer.slot).ok_or_else(|| {
            let why = "it is gone";
            Error::new(ErrorKind::Invalid, "use", format!("writer {writer}"), why)
        })
    }

    /// Waits until there is something to receive, for that time at most; receives nothing.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing came. [`ErrorKind::Forked`].
    pub fn wait_for(&mut self, time: Duration) -> Result<()> {
        self.rings.next(Until::after(time)).map(drop)
    }

    /// The path of the port.
    pub fn path(&self) -> &Path {
        self.rings.path()
    }

    /// A descriptor for poll and epoll: readable while `try_receive` has not answered
    /// [`ErrorKind::WouldBlock`], and again once there is something.
    ///
    /// # Errors
    /// The kernel has no descriptors.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.rings.poll_descriptor()
    }
}

impl Waitable for Port {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.rings
    }
}
