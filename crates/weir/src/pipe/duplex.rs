//! Channels for requests and replies: two pipes between the same two sides, one in each direction.

use super::connection::Role;
use super::end::End;
use super::endpoint::{Endpoint, Ring, both_ends};
use super::handle::Handle;
use super::options::Options;
use super::record::{RecordReader, RecordWriter};
use super::socket::{Accept, Connect, Listener, connect_end};
use super::stream::{Reader, Writer};
use crate::connect::peer::Ending;
use crate::error::{Error, ErrorKind, Result};
use crate::park::{Timeout, Until};
use rustix::fd::AsFd;
use std::io;
use std::path::Path;

/// One side of a channel with two directions: it writes to the other side through `writer`, and
/// reads what the other side writes through `reader`.
///
/// Each direction is a pipe of its own, with everything a pipe can do. Two threads may use the two
/// ends. Dropping both closes the channel.
///
/// ```
/// let (mut client, mut server) = weir::RecordDuplex::pair(&weir::Options::new())?;
/// let serving = std::thread::spawn(move || {
///     let mut request = [0; 64];
///     while let Some(bytes) = server.reader.receive(&mut request)? {
///         request[..bytes].make_ascii_uppercase();
///         server.writer.send(&request[..bytes])?;
///     }
///     Ok::<(), weir::Error>(())
/// });
/// let mut reply = [0; 64];
/// let bytes = client.request(b"louder", &mut reply)?;
/// assert_eq!(&reply[..bytes], b"LOUDER");
/// drop(client);
/// serving.join().expect("no panic")?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct Duplex<W, R> {
    /// The end that this side writes to.
    pub writer: W,
    /// The end that this side reads from.
    pub reader: R,
}

/// One side of a channel of bytes.
///
/// ```
/// use std::io::{Read, Write};
/// let (mut here, mut there) = weir::StreamDuplex::pair(&weir::Options::new())?;
/// here.write_all(b"hello")?;
/// let mut buffer = [0; 5];
/// there.read_exact(&mut buffer)?;
/// assert_eq!(&buffer, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type StreamDuplex = Duplex<Writer, Reader>;
/// One side of a channel of records.
///
/// ```
/// let (mut here, mut there) = weir::RecordDuplex::pair(&weir::Options::new())?;
/// here.writer.send(b"hello")?;
/// assert_eq!(there.reader.receive(&mut [0; 64])?, Some(5));
/// # Ok::<(), weir::Error>(())
/// ```
pub type RecordDuplex = Duplex<RecordWriter, RecordReader>;

/// One side of a channel, to be sent to another process: a [`Handle`] for each direction.
///
/// ```
/// use weir::{Options, RecordDuplex};
/// let (ours, theirs) = RecordDuplex::handles(&Options::new())?;
/// let (mut here, mut there) = (RecordDuplex::open(ours)?, RecordDuplex::open(theirs)?);
/// here.writer.send(b"over there")?;
/// assert_eq!(there.reader.receive(&mut [0; 64])?, Some(10));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it closes the channel"]
pub struct DuplexHandle {
    /// The handle of the end that the side writes to.
    pub writer: Handle,
    /// The handle of the end that the side reads from.
    pub reader: Handle,
}

impl DuplexHandle {
    /// Sends the handle over a connected unix socket, in one message and without waiting.
    ///
    /// # Errors
    /// Those of sendmsg(2), also if the socket is full. [`ErrorKind::Invalid`]: it is not made of a
    /// writer and a reader. The side is closed then.
    pub fn send(self, over: impl AsFd) -> Result<()> {
        Handle::send_both(self.writer, self.reader, over.as_fd())
    }

    /// Receives a handle from a connected unix socket.
    ///
    /// # Errors
    /// Those of recvmsg(2); the message is not the handle of a channel. [`ErrorKind::Closed`]: the
    /// other side has closed the socket or died.
    pub fn receive(over: impl AsFd) -> Result<DuplexHandle> {
        let (writer, reader) = Handle::receive_both(over.as_fd())?;
        Ok(DuplexHandle { writer, reader })
    }
}

impl<W: Ring, R: Ring> Duplex<Endpoint<W>, Endpoint<R>> {
    /// Makes a channel, with the options for each direction. Both sides are in this process.
    ///
    /// # Errors
    /// Those of [`crate::pipe`].
    pub fn pair(options: &Options) -> Result<(Self, Self)> {
        let (there, end) = both_ends(options)?;
        let (back, answered) = both_ends(options)?;
        Ok((Duplex { writer: there, reader: answered }, Duplex { writer: back, reader: end }))
    }

    /// Makes a channel whose sides are opened later, in any process.
    ///
    /// # Errors
    /// Those of [`crate::pipe`].
    pub fn handles(options: &Options) -> Result<(DuplexHandle, DuplexHandle)> {
        let (there, end) = Handle::pair(W::KIND, options)?;
        let (back, answered) = Handle::pair(W::KIND, options)?;
        let other = DuplexHandle { writer: back, reader: end };
        Ok((DuplexHandle { writer: there, reader: answered }, other))
    }

    /// Opens a side that was handed on.
    ///
    /// # Errors
    /// Those of [`Endpoint::open`]. The side is closed then.
    pub fn open(handle: DuplexHandle) -> Result<Self> {
        // Both are opened in any case: one that is dropped as a handle is closed here, which may
        // take long.
        let (writer, reader) = (Endpoint::open(handle.writer), Endpoint::open(handle.reader));
        Ok(Duplex { writer: writer?, reader: reader? })
    }

    /// Closes the side here without closing the channel.
    ///
    /// # Errors
    /// Those of [`Endpoint::into_handle`].
    pub fn into_handle(self) -> Result<DuplexHandle> {
        Ok(DuplexHandle { writer: self.writer.into_handle()?, reader: self.reader.into_handle()? })
    }

    /// Returns how the other side has ended: [`Ending::Closed`] if it was dropped, [`Ending::Died`]
    /// if its process died with it. `None` while it is there. Known at the latest when a call has
    /// found that the other side is gone.
    ///
    /// ```
    /// use weir::{Ending, RecordDuplex};
    /// let (client, mut server) = RecordDuplex::pair(&weir::Options::new())?;
    /// drop(client);
    /// assert_eq!(server.reader.receive(&mut [0; 64])?, None);
    /// assert_eq!(server.ending()?, Some(Ending::Closed));
    /// # Ok::<(), weir::Error>(())
    /// ```
    ///
    /// # Errors
    /// This is a forked child, and the channel is its parent's.
    pub fn ending(&self) -> Result<Option<Ending>> {
        let (reader, writer) = (self.reader.ending()?, self.writer.ending()?);
        // A side closes one of its ends after the other, and may die in between.
        let worse = writer.filter(|ending| *ending != Ending::Closed);
        Ok(worse.or(reader).or(writer))
    }

    /// Connects to the process that listens at a path and accepts a channel. Waits for one as
    /// [`Options::connect_timeout`] says.
    ///
    /// # Errors
    /// [`ErrorKind::NoReader`]: nobody listens there.
    pub fn connect(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let (path, until) = (path.as_ref(), options.connect_until());
        let (there, number) = connect_end(path, W::KIND, (options, until), Connect::There)?;
        let (back, _) = connect_end(path, R::KIND, (options, until), Connect::Back(number))?;
        Ok(Duplex { writer: Endpoint::over(there)?, reader: Endpoint::over(back)? })
    }
}

impl<W: Ring, R: Ring> Accept for Duplex<Endpoint<W>, Endpoint<R>> {
    /// The options of the reader and of the writer.
    type Options = (W::Options, R::Options);

    fn accept(listener: &Listener, options: &Self::Options, until: Until) -> Result<Self> {
        let [there, back] = listener.next_pair(until)?;
        let reader = End::open(there, R::KIND, Role::Reader, options.1.as_ref());
        // Opened in any case, which ends its connection without waiting.
        let writer = End::open(back, W::KIND, Role::Writer, options.0.as_ref());
        Ok(Duplex { reader: Endpoint::over(reader?)?, writer: Endpoint::over(writer?)? })
    }
}

impl RecordDuplex {
    /// Sends a request and receives the reply into `reply`, as long as it takes. Returns the length
    /// of the reply.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the other side has closed or died. Those of [`RecordWriter::send`]
    /// and [`RecordReader::receive`]. After [`ErrorKind::TooSmall`] the reply is still there:
    /// receive it before the next request.
    pub fn request(&mut self, request: &[u8], reply: &mut [u8]) -> Result<usize> {
        self.request_until(request, reply, Until::Ever)
    }

    /// Sends a request and receives the reply, within a timeout for both.
    ///
    /// A reply that comes later stays in the channel, and the next request would take it for its
    /// own: after [`ErrorKind::TimedOut`] receive it first, or drop the channel.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]. Those of [`RecordDuplex::request`].
    pub fn request_timeout(
        &mut self,
        request: &[u8],
        reply: &mut [u8],
        timeout: impl Into<Timeout>,
    ) -> Result<usize> {
        self.request_until(request, reply, timeout.into().start())
    }

    fn request_until(&mut self, request: &[u8], reply: &mut [u8], until: Until) -> Result<usize> {
        self.writer.send_timeout(request, until.timeout())?;
        let got = self.reader.receive_timeout(reply, until.timeout())?;
        got.ok_or_else(|| {
            let why = "the other side has closed or died";
            Error::new(ErrorKind::Closed, "receive", "a reply", why)
        })
    }
}

impl io::Read for StreamDuplex {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut self.reader, buffer)
    }
}

impl io::Write for StreamDuplex {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut self.writer, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
