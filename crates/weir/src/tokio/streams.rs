//! Streams of bytes for tokio.

use super::{Registered, closed};
use crate::connect::peer::Ending;
use crate::error::Result;
use crate::pipe::stream::{Reader, Writer};
use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The reader's end of a stream.
///
/// ```
/// use tokio::io::AsyncReadExt;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut writer, reader) = weir::pipe(&weir::Options::new())?;
/// writer.write(b"hello")?;
/// drop(writer);
/// let mut text = String::new();
/// weir::tokio::StreamReader::new(reader)?.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StreamReader {
    registered: Registered,
    end: Reader,
}

impl StreamReader {
    /// Makes an async reader of an end.
    ///
    /// # Errors
    /// The kernel has no descriptors left; there is no runtime, or one without I/O.
    pub fn new(mut end: Reader) -> Result<StreamReader> {
        Ok(StreamReader { registered: Registered::new(end.poll_descriptor()?)?, end })
    }

    /// How the writer has ended, as [`Endpoint::ending`](crate::Endpoint::ending).
    ///
    /// # Errors
    /// This is a forked child, and the end is its parent's.
    pub fn ending(&self) -> Result<Option<Ending>> {
        self.end.ending()
    }

    /// Gives the end back.
    pub fn into_inner(self) -> Reader {
        self.end
    }
}

impl AsyncRead for StreamReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let StreamReader { registered, end } = self.get_mut();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let into = buffer.initialize_unfilled();
        let count = ready!(registered.poll(context, || end.try_read(into)))?;
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// The writer's end of a stream. The reader sees each write at once, so flushing does nothing.
///
/// ```
/// use tokio::io::AsyncWriteExt;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (writer, mut reader) = weir::pipe(&weir::Options::new())?;
/// let mut writer = weir::tokio::StreamWriter::new(writer)?;
/// writer.write_all(b"hello").await?;
/// writer.shutdown().await?;
/// assert_eq!(reader.read(&mut [0; 64])?, 5);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StreamWriter {
    registered: Registered,
    end: Option<Writer>,
}

impl StreamWriter {
    /// Makes an async writer of an end.
    ///
    /// # Errors
    /// Those of [`StreamReader::new`].
    pub fn new(mut end: Writer) -> Result<StreamWriter> {
        Ok(StreamWriter { registered: Registered::new(end.poll_descriptor()?)?, end: Some(end) })
    }

    /// Gives the end back, unless it was shut down.
    pub fn into_inner(self) -> Option<Writer> {
        self.end
    }
}

impl AsyncWrite for StreamWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let StreamWriter { registered, end } = self.get_mut();
        let end = end.as_mut().ok_or_else(|| closed("write to", "the pipe"))?;
        let mut write = || {
            let written = end.try_write(bytes);
            end.bytes_first(written)
        };
        registered.poll(context, &mut write).map_err(io::Error::from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().end = None;
        Poll::Ready(Ok(()))
    }
}
