//! A writer to a port.

use super::{DATA, FIRST, HELLO, LAST, PortWriterOptions};
use crate::connect::acceptor::hand_over;
use crate::connect::board::ReaderSite;
use crate::connect::lifeline::Lifeline;
use crate::connect::name::{self, Subject};
use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result, Text};
use crate::memory::Map;
use crate::park::ready::wait_ready;
use crate::park::{Timeout, Until, WaitSource};
use crate::pipe::connection::{Connection, Role, inbox_in};
use crate::pipe::end::End;
use crate::pipe::record::RecordWriter;
use crate::pipe::storage::{copy_of, make_memory};
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use weir_ring::account::Account;
use weir_ring::layout::MESSAGE;
use weir_sys::forks::ParentOnly;

const CONNECT: Subject = Subject { operation: "open", noun: "port" };
const WRITE: Subject = Subject { operation: "write to", noun: "port" };
/// How long `connect` waits for a refusal. A paused reader sends none, and `connect` succeeds.
const ANSWER_TIME: Duration = Duration::from_millis(50);

/// A writer to a port. Dropping it closes it; the reader still receives what it sent.
///
/// ```
/// use weir::{Event, Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"started")?;
/// let mut buffer = [0; 64];
/// let received = port.receive(&mut buffer)?;
/// assert_eq!(received.identity.pid, std::process::id() as i32);
/// assert_eq!(received.event, Event::Message { bytes: 7 });
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct PortWriter {
    inner: RecordWriter,
    path: PathBuf,
    /// What errors name.
    object: Arc<str>,
    piece_bytes: usize,
    /// The longest message that is sent without a check of the limits: 0 until they are known.
    unasked_bytes: usize,
}

impl PortWriter {
    /// Connects to a port. `docs/contracts/port.md` says what its name means.
    ///
    /// It returns once the reader has accepted the writer, or after 50 ms if the reader is paused or
    /// busy. The writer can send in either case.
    ///
    /// # Errors
    /// [`ErrorKind::NoReader`]; [`ErrorKind::Refused`]: the reader has too many writers;
    /// [`ErrorKind::Taken`]: the name is another program's; a size is out of its range; those of
    /// the kernel.
    pub fn connect(name: impl AsRef<Path>, options: &PortWriterOptions) -> Result<PortWriter> {
        let path = name::resolve(&CONNECT, name.as_ref())?;
        PortWriter::connect_by(&path.clone(), path, options)
    }

    /// Connects to the listening socket to which a path leads. `path` is what the port is called.
    pub(super) fn connect_by(
        way: &Path,
        path: PathBuf,
        options: &PortWriterOptions,
    ) -> Result<PortWriter> {
        let resolved = options.resolve()?;
        let until = options.connect_until();
        // Made before the connection, so that the reader need not wait for it.
        let (file, map) = make_memory(MESSAGE, &resolved)?;
        let copy = copy_of(&file)?;
        let socket = hand_over(&CONNECT, way, until, HELLO, &copy)
            .map_err(|error| error.of(CONNECT.operation, CONNECT.object(&path)))?;
        drop(copy);
        let wait = |over| wait_ready(over, PollFlags::IN, Some(ANSWER_TIME));
        let heard = socket.get().is_some_and(|over| wait(over).is_ok_and(|heard| heard));
        let connection = connection_over(socket, &map)?;
        let end = End::new(Some(file), map, connection, &resolved)?;
        let account = end.account_line();
        name::publish_socket_id(way, &account.port_device, &account.port_inode);
        if heard {
            end.life.take_messages();
        }
        if let Some(why) = end.life.refusal() {
            return Err(CONNECT.error(ErrorKind::Refused, &path, why.to_owned()));
        }
        let piece_bytes = options.longest_piece(&resolved.shape);
        let inner = RecordWriter::over(end)?;
        let object = WRITE.object(&path).into();
        Ok(PortWriter { inner, path, object, piece_bytes, unasked_bytes: 0 })
    }

    /// Sends a message, and waits for room without a limit.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the reader has closed or died. [`ErrorKind::Refused`]: the reader does
    /// not accept this writer. [`ErrorKind::Invalid`]: the message is longer than the port takes.
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        self.send_until(message, Until::Ever)
    }

    /// Sends a message if there is room for all of it.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: there is no room. Those of [`PortWriter::send`].
    pub fn try_send(&mut self, message: &[u8]) -> Result<()> {
        self.send_until(message, Until::Now)
    }

    /// Sends a message, and waits for room at most as long as `timeout`. If there is room for a part
    /// only, the reader receives nothing of the message.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: there was no room in time. Those of [`PortWriter::send`].
    pub fn send_timeout(&mut self, message: &[u8], timeout: impl Into<Timeout>) -> Result<()> {
        self.send_until(message, timeout.into().start())
    }

    /// Sends a message that is in several parts, as [`PortWriter::send`]. A message that is sent in
    /// one piece is not put together before: each part is copied to its place in the ring.
    ///
    /// ```
    /// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let name = directory.path().join("log");
    /// let mut port = Port::create(&name, &PortOptions::new())?;
    /// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
    /// writer.send_parts(&[b"head", b", ", b"body"])?;
    /// let mut buffer = vec![0; 4096];
    /// port.receive(&mut buffer)?;
    /// assert_eq!(&buffer[..10], b"head, body");
    /// # Ok::<(), weir::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`PortWriter::send`].
    pub fn send_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if bytes > self.unasked_bytes {
            self.check_length(bytes)?;
            if bytes > self.piece_bytes {
                return self.send_in_pieces(&parts.concat(), Until::Ever);
            }
        }
        let sent = self.inner.send_parts(DATA | FIRST | LAST, parts, bytes, Until::Ever);
        sent.map_err(|error| self.explain(error))
    }

    #[inline]
    fn send_until(&mut self, message: &[u8], until: Until) -> Result<()> {
        if message.len() > self.unasked_bytes {
            self.check_length(message.len())?;
            if message.len() > self.piece_bytes {
                return self.send_in_pieces(message, until);
            }
        }
        let sent = self.inner.send_within(Some(DATA | FIRST | LAST), message, until.timeout());
        sent.map_err(|error| self.explain(error))
    }

    fn send_in_pieces(&mut self, message: &[u8], until: Until) -> Result<()> {
        let count = message.len().div_ceil(self.piece_bytes);
        if until == Until::Now {
            self.check_fits(message.len())?;
        }
        for (at, piece) in message.chunks(self.piece_bytes).enumerate() {
            let first = if at == 0 { FIRST } else { 0 };
            let last = if at + 1 == count { LAST } else { 0 };
            let sent = self.inner.send_within(Some(DATA | first | last), piece, until.timeout());
            sent.map_err(|error| self.explain(error))?;
        }
        Ok(())
    }

    /// The end of its ring. Fails in a forked child.
    fn end(&self) -> Result<&End> {
        let end = &self.inner.end;
        end.check_here().map_err(|error| error.of(WRITE.operation, &self.object))?;
        Ok(end)
    }

    fn error(&self, kind: ErrorKind, why: impl Into<Text>) -> Error {
        Error::new(kind, WRITE.operation, &self.object, why)
    }

    fn check_length(&mut self, bytes: usize) -> Result<()> {
        let slot = self.end()?.life.latest_site().slot();
        let most = slot.map_or(weir_policy::pipe::MOST_BYTES, |slot| slot.most_bytes);
        if slot.is_some() {
            self.unasked_bytes = self.piece_bytes.min(usize::try_from(most).unwrap_or(usize::MAX));
        }
        if bytes as u64 <= most {
            return Ok(());
        }
        let why = format!("the message has {bytes} bytes, more than the limit of {most}");
        Err(self.error(ErrorKind::Invalid, why))
    }

    /// Checks that there is room for all pieces of a message that is sent without waiting.
    fn check_fits(&mut self, bytes: usize) -> Result<()> {
        let (whole, rest) = (bytes / self.piece_bytes, bytes % self.piece_bytes);
        let pieces = std::iter::repeat_n(self.piece_bytes, whole).chain((rest > 0).then_some(rest));
        if self.inner.try_fit(pieces).map_err(|error| self.explain(error))? {
            return Ok(());
        }
        let capacity = self.inner.sizes().capacity_bytes;
        let why = format!("{bytes} bytes do not fit into its ring of {capacity} bytes at once");
        Err(self.error(ErrorKind::Invalid, why))
    }

    /// Turns an error of the ring into one of the port.
    #[cold]
    fn explain(&mut self, error: Error) -> Error {
        let refusal = self.inner.parts().ok().and_then(|(end, _)| {
            end.life.take_messages();
            end.life.refusal().map(str::to_owned)
        });
        match (error.kind(), refusal) {
            (ErrorKind::Closed, Some(why)) => self.error(ErrorKind::Refused, why),
            (ErrorKind::Closed, None) => {
                self.error(ErrorKind::Closed, "its reader has closed or died")
            }
            _ => error.of(WRITE.operation, &self.object),
        }
    }

    /// A lower bound of the bytes that can be sent in one message without waiting, valid until this
    /// writer sends.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn room(&mut self) -> Result<usize> {
        // What a port takes is known once it has let this writer in.
        let slot = self.end()?.life.latest_site().slot();
        let most = slot.map_or(usize::MAX, |slot| slot.most_bytes as usize);
        // A piece, halved until it fits. Records take up to twice their length.
        let mut bytes = self.piece_bytes.min(most);
        while bytes > 0 && !self.inner.fits(bytes).map_err(|error| self.explain(error))? {
            bytes /= 2;
        }
        Ok(bytes)
    }

    /// The longest message that is never split.
    pub fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    /// Whether the reader has let this writer in. Messages sent before wait for that.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn is_let_in(&mut self) -> Result<bool> {
        Ok(self.end()?.life.latest_site().slot().is_some())
    }

    /// The path of the port.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The account of this writer. Its records are pieces of messages.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn account(&mut self) -> Result<Account> {
        Ok(self.end()?.account())
    }

    /// A descriptor for poll and epoll, as [`crate::Endpoint::poll_descriptor`].
    ///
    /// # Errors
    /// The kernel has no descriptors left. [`ErrorKind::Forked`].
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.end()?;
        self.inner.poll_descriptor()
    }
}

/// The connection of a writer, which watches the reader's process as well, where the kernel supports
/// it.
fn connection_over(socket: ParentOnly, map: &Arc<Map>) -> Result<Connection> {
    let pidfd = socket.get().and_then(|socket| weir_sys::peer::pidfd(socket).ok());
    let inbox = inbox_in(map, Role::Writer);
    let mut lifeline = Lifeline::start(socket, inbox, 0)?.exclusive();
    pidfd.map_or(Ok(()), |pidfd| lifeline.watch_process(pidfd))?;
    Ok(Connection::over(lifeline, Role::Writer, ReaderSite::Board(OnceCell::new())))
}

impl Waitable for PortWriter {
    fn source(&mut self) -> &mut dyn WaitSource {
        &mut self.inner
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()
    }

    /// Room for the first piece is enough.
    fn wanted(&self, bytes: usize) -> u64 {
        bytes.min(self.piece_bytes) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{Port, PortOptions};
    use weir_ring::primitive::Ordering;

    /// A record whose turn it was to look around went another way, which found nothing to do.
    #[test]
    fn a_writer_that_always_has_room_looks_around_now_and_then() {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("port");
        let _port = Port::create(&name, &PortOptions::new()).expect("a port");
        let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
        let swap_cpu = |writer: &mut PortWriter| {
            let (end, _) = writer.inner.parts().expect("no fork");
            end.header().writer_sleep.cpu.swap(0, Ordering::Relaxed)
        };
        for send in [PortWriter::send, |one: &mut PortWriter, text: &[u8]| one.send_parts(&[text])]
        {
            swap_cpu(&mut writer);
            (0..300).for_each(|_| send(&mut writer, b"small").expect("room"));
            assert_ne!(swap_cpu(&mut writer), 0, "it said where it runs");
        }
    }
}
