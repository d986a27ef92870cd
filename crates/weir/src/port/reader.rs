//! The reader of a port: what its owner calls.

use super::lent::Lent;
use super::rings::{Effort, Rings};
use super::slot::{InRing, Manner, Step};
use super::{Counts, Event, PortOptions, READ, Received, WriterId, WriterStat};
use crate::connect::name::{self, Subject};
use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::park::{Timeout, Until, WaitSource};
use rustix::fd::BorrowedFd;
use std::path::Path;

const CREATE: Subject = Subject { operation: "make", noun: "port" };
/// Rounds of letting in before writers are counted: those who come without end are not waited for.
const MOST_ROUNDS: u32 = 64;

/// The reader of a port. Dropping it closes the port and removes its name.
///
/// ```
/// use weir::{Event, Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// // Another process has only the name.
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"hello")?;
/// drop(writer);
/// let mut buffer = [0; 64];
/// loop {
///     let received = port.receive(&mut buffer)?;
///     match received.event {
///         Event::Message { bytes } => assert_eq!(&buffer[..bytes], b"hello"),
///         Event::Closed(ending) => break println!("{} has gone: {ending:?}", received.writer),
///         _ => {}
///     }
/// }
/// # Ok::<(), weir::Error>(())
/// ```
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

    /// Receives the next message of any writer into `buffer`, or the end of a writer, and waits for
    /// it as long as it takes.
    ///
    /// # Errors
    /// [`ErrorKind::TooSmall`]: the buffer is; the message stays, [`Error::needed_bytes`] is its
    /// length. [`ErrorKind::Forked`].
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        self.receive_one(buffer, Until::Ever)
    }

    /// Receives the next message, if one comes in time.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] or [`ErrorKind::TimedOut`]: nothing came. Those of
    /// [`Port::receive`].
    pub fn receive_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
    ) -> Result<Received> {
        self.receive_one(buffer, timeout.into().start())
    }

    #[inline]
    fn receive_one(&mut self, buffer: &mut [u8], until: Until) -> Result<Received> {
        let mut got = None;
        self.copy_each(buffer, 1, until, |received, _| got = Some(received))?;
        got.ok_or_else(|| READ.error(ErrorKind::WouldBlock, self.path(), "no message is whole"))
    }

    /// Receives the next message as [`Port::receive_timeout`] does, and with it those that the same
    /// writer has sent by then, to the end of its turn. Each is copied to `buffer` and shown to
    /// `see`: the number of messages. It is cheaper than one call for each where messages are short
    /// and many.
    ///
    /// # Errors
    /// Those of [`Port::receive_timeout`].
    pub fn receive_each_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
        see: impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        self.copy_each(buffer, usize::MAX, timeout.into().start(), see)
    }

    /// Lends messages as [`Port::receive_each_timeout`] shows them, but those that came in one piece
    /// where they lie, without copying them. `buffer` is for the others. The end of a writer is
    /// shown as an empty message.
    ///
    /// ```
    /// use weir::{Port, PortOptions, PortWriter, PortWriterOptions, Timeout};
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let name = directory.path().join("log");
    /// let mut port = Port::create(&name, &PortOptions::new())?;
    /// PortWriter::connect(&name, &PortWriterOptions::new())?.send(&[1; 4096])?;
    /// let (mut buffer, mut bytes) = (vec![0; 16 << 10], 0);
    /// port.lend_each_timeout(&mut buffer, Timeout::Never, |_, message| bytes += message.len())?;
    /// assert_eq!(bytes, 4096);
    /// # Ok::<(), weir::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Port::receive_timeout`].
    pub fn lend_each_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
        mut see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        self.serve(buffer, usize::MAX, timeout.into().start(), |received, buffer, place| {
            let bytes = received.event.bytes();
            let lent = place
                .map_or(Lent::Copied(&buffer[..bytes]), |place| Lent::InPlace(place.view(bytes)));
            see(received, lent);
            true
        })
    }

    #[inline]
    fn copy_each(
        &mut self,
        buffer: &mut [u8],
        most: usize,
        until: Until,
        mut see: impl FnMut(Received, &[u8]),
    ) -> Result<usize> {
        self.serve(buffer, most, until, |received, buffer, place| {
            let bytes = received.event.bytes();
            match place {
                Some(_) if bytes > buffer.len() => return false,
                Some(place) => place.copy_to(&mut buffer[..bytes]),
                None => {}
            }
            see(received, &buffer[..bytes]);
            true
        })
    }

    /// Shows at most so many messages of the writer that is next, with the buffer, which holds the
    /// message unless it is shown where it lies: how many.
    #[inline]
    fn serve(
        &mut self,
        buffer: &mut [u8],
        most: usize,
        until: Until,
        mut show: impl FnMut(Received, &mut [u8], Option<InRing<'_>>) -> bool,
    ) -> Result<usize> {
        // In a stream of messages of the same writer there is nothing else to look at.
        if let Some(place) = self.rings.choice.current_place()
            && let served @ 1.. = self.serve_writer(place, buffer, most, &mut show)?
        {
            return Ok(served);
        }
        let mut effort = Effort::new(until);
        loop {
            let place = self.rings.next_of(&mut effort)?;
            if let served @ 1.. = self.serve_writer(place, buffer, most, &mut show)? {
                return Ok(served);
            }
            if let Some(received) = self.step(place, buffer, &mut effort)? {
                show(received, buffer, None);
                return Ok(1);
            }
        }
    }

    /// Shows messages of one writer that came in one piece: how many.
    #[inline]
    fn serve_writer(
        &mut self,
        place: u32,
        buffer: &mut [u8],
        most: usize,
        show: &mut impl FnMut(Received, &mut [u8], Option<InRing<'_>>) -> bool,
    ) -> Result<usize> {
        let manner = self.manner();
        let slot = self.rings.choice.slot(place)?;
        let (writer, identity, before) = (slot.id, slot.identity, slot.bytes);
        let served = slot.serve(most, manner, |sequence, bytes, lies| {
            let event = Event::Message { bytes };
            show(Received { writer, identity, sequence, event }, buffer, Some(lies))
        })?;
        if served > 0 {
            let bytes = slot.bytes - before;
            self.rings.choice.account_for(place)?;
            self.rings.choice.count(served as u64, bytes);
            self.rings.acted();
        }
        Ok(served)
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

    /// Whether there is something to receive. The descriptor for poll and epoll stays as it is, so
    /// that this is cheaper, for a reader that looks again and again, than a call that receives.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn is_ready(&mut self) -> Result<bool> {
        self.rings.is_ready()
    }

    /// Waits until there is something to receive, and receives nothing.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] or [`ErrorKind::TimedOut`]: nothing came. [`ErrorKind::Forked`].
    pub fn wait_timeout(&mut self, timeout: impl Into<Timeout>) -> Result<()> {
        self.rings.next(timeout.into().start()).map(drop)
    }

    /// The path of the port.
    pub fn path(&self) -> &Path {
        self.rings.path()
    }

    /// A descriptor for poll and epoll: readable until [`Port::receive_timeout`] has
    /// answered [`ErrorKind::WouldBlock`], and again once there is something.
    ///
    /// # Errors
    /// The kernel has no descriptors.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.rings.poll_descriptor()
    }
}

impl Waitable for Port {
    fn source(&mut self) -> &mut dyn WaitSource {
        &mut self.rings
    }
}
