//! Listeners, and channels for requests and replies.

use super::Registered;
use super::messages::{BUFFER_BYTES, receive_whole};
use crate::connect::peer::Ending;
use crate::error::{Error, ErrorKind, Result};
use crate::park::Timeout;
use crate::pipe::duplex;
use crate::pipe::socket::{self, Accept};

/// A listener whose accept waits in the reactor.
///
/// ```
/// use weir::Options;
/// use weir::tokio::{Listener, RecordDuplex};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("upper");
/// let listener = Listener::new(weir::Listener::bind(&path)?)?;
/// tokio::spawn(async move {
///     loop {
///         let accepted: weir::RecordDuplex = listener.accept().await?;
///         let mut client = RecordDuplex::new(accepted)?;
///         tokio::spawn(async move {
///             while let Some(request) = client.receive().await? {
///                 client.send(&request.to_ascii_uppercase()).await?;
///             }
///             Ok::<(), weir::Error>(())
///         });
///     }
///     # #[allow(unreachable_code)]
///     Ok::<(), weir::Error>(())
/// });
/// let server = weir::RecordDuplex::connect(&path, &Options::new())?;
/// assert_eq!(RecordDuplex::new(server)?.request(b"louder").await?, b"LOUDER");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Listener {
    registered: Registered,
    inner: socket::Listener,
}

impl Listener {
    /// Makes an async listener of one.
    ///
    /// # Errors
    /// The kernel has no descriptors left; there is no runtime, or one without I/O.
    pub fn new(mut inner: socket::Listener) -> Result<Listener> {
        Ok(Listener { registered: Registered::new(inner.poll_descriptor()?)?, inner })
    }

    /// Waits for the next connection and returns its end, as [`crate::Listener::accept`]. Several
    /// tasks can accept, and one that stops waiting loses no connection.
    ///
    /// # Errors
    /// Those of [`crate::Listener::accept`].
    pub async fn accept<E: Accept>(&self) -> Result<E> {
        self.registered.attempt(|| self.inner.accept_timeout(Timeout::Now)).await
    }

    /// Gives the listener back.
    pub fn into_inner(self) -> socket::Listener {
        self.inner
    }
}

/// One side of a channel of records: requests and their replies, each in a vector of its own.
///
/// A request that is given up, as by `tokio::time::timeout`, leaves its reply to come. The next
/// request waits for that reply and drops it, so that each request gets its own.
///
/// ```
/// use std::time::Duration;
/// use weir::tokio::RecordDuplex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (client, server) = weir::RecordDuplex::pair(&weir::Options::new())?;
/// let (mut client, mut server) = (RecordDuplex::new(client)?, RecordDuplex::new(server)?);
/// let time = Duration::from_millis(1);
/// assert!(tokio::time::timeout(time, client.request(b"anybody?")).await.is_err());
/// tokio::spawn(async move {
///     while let Some(request) = server.receive().await? {
///         server.send(&request).await?;
///     }
///     Ok::<(), weir::Error>(())
/// });
/// assert_eq!(client.request(b"echo").await?, b"echo");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordDuplex {
    of_writer: Registered,
    of_reader: Registered,
    inner: duplex::RecordDuplex,
    buffer: Vec<u8>,
    /// A request was sent, and its reply was not received.
    awaits_reply: bool,
}

impl RecordDuplex {
    /// Makes an async side of one.
    ///
    /// # Errors
    /// The kernel has no descriptors left; there is no runtime, or one without I/O.
    pub fn new(mut inner: duplex::RecordDuplex) -> Result<RecordDuplex> {
        let of_writer = Registered::new(inner.writer.poll_descriptor()?)?;
        let of_reader = Registered::new(inner.reader.poll_descriptor()?)?;
        let (buffer, awaits_reply) = (vec![0; BUFFER_BYTES], false);
        Ok(RecordDuplex { of_writer, of_reader, inner, buffer, awaits_reply })
    }

    /// Sends a request, and waits for its reply.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the other side has closed or died. Those of
    /// [`send`](RecordDuplex::send) and [`receive`](RecordDuplex::receive).
    pub async fn request(&mut self, request: &[u8]) -> Result<Vec<u8>> {
        if self.awaits_reply {
            self.reply().await?;
        }
        self.send(request).await?;
        self.awaits_reply = true;
        self.reply().await
    }

    async fn reply(&mut self) -> Result<Vec<u8>> {
        self.receive().await?.ok_or_else(|| {
            let why = "the other side has closed or died";
            Error::new(ErrorKind::Closed, "receive", "a reply", why)
        })
    }

    /// Sends a record, and waits for room. A send that is given up has sent nothing.
    ///
    /// # Errors
    /// Those of [`crate::RecordWriter::send`].
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.of_writer.attempt(|| self.inner.writer.try_send(bytes)).await
    }

    /// Receives the next record, such as a request. `None` once the other side is gone and all is
    /// received. A receive that is given up has taken nothing.
    ///
    /// # Errors
    /// Those of [`crate::RecordReader::receive`].
    pub async fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        let RecordDuplex { of_reader, inner, buffer, awaits_reply, .. } = self;
        let receive = || receive_whole(buffer, |buffer| inner.reader.try_receive(buffer));
        let Some(bytes) = of_reader.attempt(receive).await? else { return Ok(None) };
        *awaits_reply = false;
        Ok(Some(buffer[..bytes].to_vec()))
    }

    /// How the other side has ended, as [`crate::Duplex::ending`].
    ///
    /// # Errors
    /// This is a forked child, and the channel is its parent's.
    pub fn ending(&self) -> Result<Option<Ending>> {
        self.inner.ending()
    }

    /// Gives the side back.
    pub fn into_inner(self) -> duplex::RecordDuplex {
        self.inner
    }
}
