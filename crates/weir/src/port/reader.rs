//! The reader of a port.

use super::lent::Lent;
use super::rings::{Effort, Rings};
use super::slot::{InRing, SlotStep, StepLimits};
use super::{CREATE, Event, PortCounts, PortOptions, Received, WriterId, WriterStat};
use crate::connect::name;
use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::park::{Timeout, Until, WaitSource};
use rustix::fd::BorrowedFd;
use std::path::Path;

/// Rounds of letting writers in before they are counted. Writers may come without end.
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
    pub(super) rings: Rings,
}

impl Port {
    /// Makes a port and listens. `docs/contracts/port.md` says what its name means.
    ///
    /// # Errors
    /// [`ErrorKind::Taken`]: the name has a reader, or is another program's file;
    /// [`ErrorKind::Invalid`]: the name or an option is not valid; those of the kernel.
    pub fn create(name: impl AsRef<Path>, options: &PortOptions) -> Result<Port> {
        let path = name::resolve(&CREATE, name.as_ref())?;
        Ok(Port { rings: Rings::listen(&CREATE, &path, options)? })
    }

    /// Receives the next message of any writer into `buffer`, or the end of a writer, and waits for
    /// it without a limit.
    ///
    /// # Errors
    /// [`ErrorKind::TooSmall`]: the buffer is too small; the message stays, and
    /// [`Error::needed_bytes`] is its length. [`ErrorKind::Closed`]: a port without a name is at its
    /// end. [`ErrorKind::Forked`].
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received> {
        self.receive_one(buffer, Until::Ever)
    }

    /// Receives the next message, and waits for it at most as long as `timeout`.
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
        got.ok_or_else(|| self.rings.error(ErrorKind::WouldBlock, "no message is whole"))
    }

    /// Receives the next message as [`Port::receive_timeout`] does, and with it those that the same
    /// writer has already sent, to the end of its turn. Each is copied to `buffer` and shown to
    /// `see`. Returns the number of messages. For many short messages this is cheaper than one call
    /// for each.
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

    /// Lends messages as [`Port::receive_each_timeout`] shows them, but without copying those that
    /// came in one piece. `buffer` is for the others. The end of a writer is shown as an empty
    /// message.
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
            // What is in its ring may be longer than the buffer.
            let lent = match place {
                Some(place) => Lent::InPlace(place.view(bytes)),
                None => Lent::Copied(&buffer[..bytes]),
            };
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

    /// Shows up to `most` messages of the next writer: how many it showed. `show` gets the message
    /// in place, in its ring, or else in the buffer.
    #[inline]
    fn serve(
        &mut self,
        buffer: &mut [u8],
        most: usize,
        until: Until,
        mut show: impl FnMut(Received, &mut [u8], Option<InRing<'_>>) -> bool,
    ) -> Result<usize> {
        // While one writer streams, nothing else needs a look.
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
                let rings = &mut self.rings;
                let shown = ShownCopy { rings, buffer, place, received, is_received: false };
                show(received, &mut *shown.buffer, None);
                return shown.receive().map(|()| 1);
            }
        }
    }

    /// Shows messages of one writer that came in one piece: how many it showed.
    #[inline]
    fn serve_writer(
        &mut self,
        place: u32,
        buffer: &mut [u8],
        most: usize,
        show: &mut impl FnMut(Received, &mut [u8], Option<InRing<'_>>) -> bool,
    ) -> Result<usize> {
        let limits = self.limits();
        let (slot, counts) = self.rings.choice.slot_and_counts(place)?;
        let (writer, identity) = (slot.id, slot.identity);
        let served = slot.serve(most, limits, counts, |sequence, bytes, lies| {
            let event = Event::Message { bytes };
            show(Received { writer, identity, sequence, event }, buffer, Some(lies))
        });
        let served = served.map_err(|error| self.rings.explain(error))?;
        if served > 0 {
            self.rings.choice.account_for(place)?;
            self.rings.acted();
        }
        Ok(served)
    }

    fn limits(&self) -> StepLimits {
        StepLimits {
            in_pieces: self.rings.options.in_pieces,
            most_message_bytes: self.rings.options.most_message_bytes,
            room_bytes: 0,
        }
    }

    /// Takes one step with a writer that has something. What it returns is in the buffer, and is not
    /// counted yet.
    fn step(
        &mut self,
        place: u32,
        buffer: &mut [u8],
        effort: &mut Effort,
    ) -> Result<Option<Received>> {
        let room_bytes = self.rings.choice.room_for(place);
        let limits = StepLimits { room_bytes, ..self.limits() };
        let slot = self.rings.choice.slot(place)?;
        let step = slot.step(buffer, limits);
        self.rings.choice.account_for(place)?;
        let step = step.map_err(|error| self.named(error))?;
        self.rings.acted();
        let slot = self.rings.choice.slot(place)?;
        let (writer, identity, sequence) = (slot.id, slot.identity, slot.sequence);
        let event = match step {
            SlotStep::Message(bytes) => Event::Message { bytes },
            SlotStep::Piece(bytes, first, last) => Event::Piece { bytes, first, last },
            SlotStep::PutAway(bytes) => {
                effort.was_in_vain(bytes);
                return Ok(None);
            }
            SlotStep::NoRoom => {
                effort.was_in_vain(0);
                self.rings.choice.hold_up(place)?;
                return Ok(None);
            }
            SlotStep::Nothing => {
                effort.was_in_vain(0);
                self.rings.choice.ran_dry(place);
                return Ok(None);
            }
            SlotStep::Closed(ending) => Event::Closed(ending),
        };
        Ok(Some(Received { writer, identity, sequence, event }))
    }

    /// Adds this port's name to an error about a message's length.
    fn named(&self, error: Error) -> Error {
        let Some(bytes) = error.needed_bytes() else { return error };
        let why = format!("the next message has {bytes} bytes, more than the buffer");
        self.rings.error(ErrorKind::TooSmall, why).with_bytes(bytes)
    }

    /// Counts the writers that are open, and those that wait.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn counts(&mut self) -> Result<PortCounts> {
        let stats = self.writers()?;
        let waiting = stats.iter().filter(|stat| stat.waiting).count();
        Ok(PortCounts { open: stats.len(), waiting })
    }

    /// Lists the writers that are open.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn writers(&mut self) -> Result<Vec<WriterStat>> {
        self.rings.check_here()?;
        // Writers that have already connected count, even if the watcher has not reported them yet.
        self.rings.choice.inbox().notify();
        for _ in 0..MOST_ROUNDS {
            if self.rings.choice.inbox().has_news() {
                self.rings.let_in()?;
            }
        }
        self.rings.choice.stats()
    }

    /// A lower bound of the bytes that can be received without waiting, valid until this reader
    /// receives. It counts one message of each writer, or one piece where these are shown. A message of
    /// several pieces counts once all but its last piece were taken from the ring; [`Port::is_ready`]
    /// says whether there is anything to do.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn available(&mut self) -> Result<usize> {
        self.rings.check_here()?;
        self.rings.choice.available(self.rings.options.in_pieces)
    }

    /// Receives nothing from this writer until it is resumed. Its messages stay in its ring. Once
    /// the ring is full, the writer waits.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the writer is gone.
    pub fn suspend(&mut self, writer: WriterId) -> Result<()> {
        self.rings.choice.suspend(self.place_of(writer)?)
    }

    /// Receives from a suspended writer again.
    ///
    /// # Errors
    /// Those of [`Port::suspend`].
    pub fn resume(&mut self, writer: WriterId) -> Result<()> {
        self.rings.choice.resume(self.place_of(writer)?)
    }

    /// Gives a writer a share of 1 to 1,024: while all are busy, it gets `share` times the service
    /// of a writer with a share of 1.
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

    /// Shuts this writer out: nothing more is received from it but its `Closed`, which comes next.
    ///
    /// # Errors
    /// Those of [`Port::suspend`].
    pub fn shut_out(&mut self, writer: WriterId) -> Result<()> {
        let place = self.place_of(writer)?;
        self.rings.choice.shut_out(place)
    }

    /// The place of a writer, for a call that changes something: the descriptor is readable until the
    /// next `WouldBlock`.
    fn place_of(&self, writer: WriterId) -> Result<u32> {
        self.rings.check_here()?;
        self.rings.acted();
        let there = self.rings.choice.id_at(writer.slot) == Some(writer);
        there.then_some(writer.slot).ok_or_else(|| {
            let why = "it is gone";
            Error::new(ErrorKind::Invalid, "use", format!("writer {writer}"), why)
        })
    }

    /// Whether there is something to receive. This does not change the descriptor for poll and
    /// epoll, so a reader that looks often pays less than for a call that receives.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn is_ready(&mut self) -> Result<bool> {
        self.rings.is_ready()
    }

    /// Waits until there is something to receive, without receiving it.
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

    /// A descriptor for poll and epoll. It is readable until [`Port::receive_timeout`] returns
    /// [`ErrorKind::WouldBlock`], and again once there is something.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.rings.poll_descriptor()
    }
}

/// A message, a piece or the end of a writer that is shown from the buffer. Dropping it before it was
/// received, because what was called panicked, lets it come again.
struct ShownCopy<'a> {
    rings: &'a mut Rings,
    buffer: &'a mut [u8],
    place: u32,
    received: Received,
    is_received: bool,
}

impl ShownCopy<'_> {
    /// Counts it, and removes a writer whose end it is.
    fn receive(mut self) -> Result<()> {
        self.is_received = true;
        // What was called may have forked.
        self.rings.check_here()?;
        match self.received.event {
            Event::Closed(ending) => self.rings.choice.remove(self.place, ending),
            event => {
                self.rings.choice.count(1, event.bytes() as u64);
                Ok(())
            }
        }
    }
}

impl Drop for ShownCopy<'_> {
    fn drop(&mut self) {
        if self.is_received || self.rings.check_here().is_err() {
            return;
        }
        let piece = match self.received.event {
            Event::Message { .. } => None,
            Event::Piece { first, last, .. } => Some((first, last)),
            // The writer is still there.
            Event::Closed(_) => return,
        };
        if let Ok(slot) = self.rings.choice.slot(self.place) {
            slot.take_back(&self.buffer[..self.received.event.bytes()], piece);
            let _ = self.rings.choice.account_for(self.place);
        }
    }
}

impl Waitable for Port {
    fn source(&mut self) -> &mut dyn WaitSource {
        &mut self.rings
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()
    }
}
