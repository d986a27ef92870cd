//! Records, and messages of ports, as streams and sinks.

use super::{Registered, closed, item};
use crate::connect::peer::Ending;
use crate::error::{Error, ErrorKind, Result};
use crate::park::Timeout;
use crate::pipe::record::{RecordReader, RecordWriter};
use crate::port::{Port, PortWriter, Received};
use futures_core::Stream;
use futures_sink::Sink;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The first size of a buffer. It grows to the longest record.
pub(super) const BUFFER_BYTES: usize = 4096;

/// Receives into a buffer, which grows if it is too small.
pub(super) fn receive_whole<T>(
    buffer: &mut Vec<u8>,
    mut receive: impl FnMut(&mut [u8]) -> Result<T>,
) -> Result<T> {
    loop {
        match receive(buffer) {
            Err(error) if error.kind() == ErrorKind::TooSmall => {
                buffer.resize(error.needed_bytes().unwrap_or_default(), 0);
            }
            outcome => return outcome,
        }
    }
}

/// The records of a pipe, each in a vector of its own. The stream ends when the writer is gone, and
/// after the error of a memory that is invalid.
///
/// ```
/// use futures::StreamExt;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut writer, reader) = weir::records(&weir::Options::new())?;
/// writer.send(b"hello")?;
/// let mut records = weir::tokio::RecordStream::new(reader)?;
/// assert_eq!(records.next().await.transpose()?, Some(b"hello".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordStream {
    registered: Registered,
    end: RecordReader,
    buffer: Vec<u8>,
    was_told: bool,
}

impl RecordStream {
    /// Makes a stream of an end.
    ///
    /// # Errors
    /// The kernel has no descriptors left; there is no runtime, or one without I/O.
    pub fn new(mut end: RecordReader) -> Result<RecordStream> {
        let registered = Registered::new(end.poll_descriptor()?)?;
        Ok(RecordStream { registered, end, buffer: vec![0; BUFFER_BYTES], was_told: false })
    }

    /// How the writer has ended, as [`Endpoint::ending`](crate::Endpoint::ending).
    ///
    /// # Errors
    /// This is a forked child, and the end is its parent's.
    pub fn ending(&self) -> Result<Option<Ending>> {
        self.end.ending()
    }

    /// Gives the end back.
    pub fn into_inner(self) -> RecordReader {
        self.end
    }
}

impl Stream for RecordStream {
    type Item = Result<Vec<u8>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let RecordStream { registered, end, buffer, was_told } = self.get_mut();
        let outcome = ready!(
            registered
                .poll(context, || { receive_whole(buffer, |buffer| end.try_receive(buffer)) })
        );
        Poll::Ready(match outcome {
            Ok(Some(bytes)) => Some(Ok(buffer[..bytes].to_vec())),
            Ok(None) => None,
            Err(error) => item(Err(error), was_told),
        })
    }
}

/// A message that a port received, or the end of a writer.
///
/// ```
/// use futures::StreamExt;
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let name = directory.path().join("log");
/// let port = Port::create(&name, &PortOptions::new())?;
/// let mut messages = weir::tokio::PortStream::new(port)?;
/// PortWriter::connect(&name, &PortWriterOptions::new())?.send(b"hello")?;
/// let message = messages.next().await.transpose()?.ok_or("no message")?;
/// assert_eq!((message.received.sequence, &message.bytes[..]), (1, &b"hello"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortMessage {
    /// The writer, and what came from it.
    pub received: Received,
    /// The bytes of the message. Empty for the end of a writer.
    pub bytes: Vec<u8>,
}

/// The messages of a port. The stream of a port with a name does not end. That of one without a name
/// ends once its handles are closed and its writers are gone.
///
/// ```
/// use futures::StreamExt;
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let name = directory.path().join("log");
/// let port = Port::create(&name, &PortOptions::new())?;
/// let mut messages = weir::tokio::PortStream::new(port)?;
/// PortWriter::connect(&name, &PortWriterOptions::new())?.send(b"hello")?;
/// let first = messages.next().await.transpose()?.map(|message| message.bytes);
/// assert_eq!(first, Some(b"hello".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PortStream {
    registered: Registered,
    port: Port,
    buffer: Vec<u8>,
    was_told: bool,
}

impl PortStream {
    /// Makes a stream of a port.
    ///
    /// # Errors
    /// Those of [`RecordStream::new`].
    pub fn new(mut port: Port) -> Result<PortStream> {
        let registered = Registered::new(port.poll_descriptor()?)?;
        Ok(PortStream { registered, port, buffer: vec![0; BUFFER_BYTES], was_told: false })
    }

    /// The port, to suspend a writer for example.
    pub fn port(&mut self) -> &mut Port {
        &mut self.port
    }

    /// Gives the port back.
    pub fn into_inner(self) -> Port {
        self.port
    }
}

impl Stream for PortStream {
    type Item = Result<PortMessage>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let PortStream { registered, port, buffer, was_told } = self.get_mut();
        let outcome = ready!(registered.poll(context, || {
            receive_whole(buffer, |buffer| port.receive_timeout(buffer, Timeout::Now))
        }));
        let message = outcome.map(|received| {
            let bytes = buffer[..received.event.bytes()].to_vec();
            PortMessage { received, bytes }
        });
        Poll::Ready(item(message, was_told))
    }
}

/// The part that both sinks share: an end, and the vector that waits for room.
#[derive(Debug)]
struct SinkEnd<E> {
    registered: Registered,
    end: Option<E>,
    /// What errors name.
    object: &'static str,
    waiting: Option<Vec<u8>>,
}

impl<E> SinkEnd<E> {
    fn poll_empty(
        &mut self,
        context: &mut Context<'_>,
        mut send: impl FnMut(&mut E, &[u8]) -> Result<()>,
    ) -> Poll<Result<()>> {
        let Some(bytes) = &self.waiting else { return Poll::Ready(Ok(())) };
        let end = self.end.as_mut().ok_or_else(|| closed("write to", self.object))?;
        let sent = ready!(self.registered.poll(context, || send(end, bytes)));
        self.waiting = None;
        Poll::Ready(sent)
    }

    fn start(&mut self, bytes: Vec<u8>) -> Result<()> {
        if self.end.is_none() {
            return Err(closed("write to", self.object));
        }
        assert!(self.waiting.is_none(), "poll_ready comes first");
        self.waiting = Some(bytes);
        Ok(())
    }
}

macro_rules! sink {
    ($(#[$doc:meta])* $sink:ident, $end:ty, $object:literal) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $sink(SinkEnd<$end>);

        impl $sink {
            /// Makes a sink of an end.
            ///
            /// # Errors
            /// Those of [`RecordStream::new`].
            pub fn new(mut end: $end) -> Result<$sink> {
                let registered = Registered::new(end.poll_descriptor()?)?;
                let (end, object) = (Some(end), $object);
                Ok($sink(SinkEnd { registered, end, object, waiting: None }))
            }

            /// Gives the end back, unless it was closed, and a vector that was not sent yet.
            pub fn into_inner(self) -> (Option<$end>, Option<Vec<u8>>) {
                (self.0.end, self.0.waiting)
            }
        }

        impl Sink<Vec<u8>> for $sink {
            type Error = Error;

            fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
                self.get_mut().0.poll_empty(context, |end, bytes| end.try_send(bytes))
            }

            fn start_send(self: Pin<&mut Self>, bytes: Vec<u8>) -> Result<()> {
                self.get_mut().0.start(bytes)
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
                self.poll_ready(context)
            }

            fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
                let sent = ready!(self.as_mut().poll_ready(context));
                self.get_mut().0.end = None;
                Poll::Ready(sent)
            }
        }
    };
}

sink! {
    /// A sink of the records of a pipe. It waits for room.
    ///
    /// ```
    /// use futures::SinkExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (writer, mut reader) = weir::records(&weir::Options::new())?;
    /// let mut sink = weir::tokio::RecordSink::new(writer)?;
    /// sink.send(b"hello".to_vec()).await?;
    /// sink.close().await?;
    /// let mut buffer = [0; 64];
    /// assert_eq!(reader.receive(&mut buffer)?, Some(5));
    /// assert_eq!(reader.receive(&mut buffer)?, None);
    /// # Ok(())
    /// # }
    /// ```
    RecordSink, RecordWriter, "the pipe"
}
sink! {
    /// A sink of the messages of one writer of a port, each of which must fit into its ring. It
    /// waits for room.
    ///
    /// ```
    /// use futures::SinkExt;
    /// use weir::{Event, Port, PortOptions, PortWriter, PortWriterOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let name = directory.path().join("log");
    /// let mut port = Port::create(&name, &PortOptions::new())?;
    /// let writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
    /// let mut sink = weir::tokio::PortSink::new(writer)?;
    /// sink.send(b"hello".to_vec()).await?;
    /// let received = port.receive(&mut [0; 64])?;
    /// assert_eq!(received.event, Event::Message { bytes: 5 });
    /// # Ok(())
    /// # }
    /// ```
    PortSink, PortWriter, "the port"
}
