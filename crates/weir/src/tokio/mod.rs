//! Ends in async programs, over tokio's reactor: feature `tokio`.
//!
//! Bytes are [`AsyncRead`] and [`AsyncWrite`], records and messages of ports [`Stream`] and
//! [`Sink`], what comes of an mpx is a [`Stream`]. All are made inside of a runtime whose I/O is
//! enabled. An end that has something to do costs no system call; one that has not waits in the
//! reactor's epoll.
//!
//! ```
//! use futures::{SinkExt, StreamExt};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (writer, reader) = weir::records(&weir::Options::new())?;
//! let (mut sink, mut stream) =
//!     (weir::tokio::RecordSink::new(writer)?, weir::tokio::RecordStream::new(reader)?);
//! sink.send(b"hello".to_vec()).await?;
//! assert_eq!(stream.next().await.transpose()?, Some(b"hello".to_vec()));
//! # Ok(())
//! # }
//! ```
//!
//! [`AsyncRead`]: ::tokio::io::AsyncRead
//! [`AsyncWrite`]: ::tokio::io::AsyncWrite
//! [`Stream`]: futures_core::Stream
//! [`Sink`]: futures_sink::Sink

mod exchange;
mod messages;
mod streams;

pub use exchange::{MpxRecord, MpxStream};
pub use messages::{Message, PortSink, PortStream, RecordSink, RecordStream};
pub use streams::{StreamReader, StreamWriter};

use crate::error::{Error, ErrorKind, Result};
use ::tokio::io::unix::AsyncFd;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

/// The descriptor of an end, known to the reactor.
#[derive(Debug)]
struct Registered {
    descriptor: AsyncFd<OwnedFd>,
}

impl Registered {
    fn new(descriptor: BorrowedFd) -> Result<Registered> {
        let failed = |cause: std::io::Error| Error::os("register", "an end with tokio", cause);
        let copy = descriptor.try_clone_to_owned().map_err(failed)?;
        let interest = ::tokio::io::Interest::READABLE;
        #[allow(deprecated, reason = "unsound for types that are no descriptors; this is one")]
        let descriptor = AsyncFd::with_interest(copy, interest).map_err(failed)?;
        Ok(Registered { descriptor })
    }

    /// Tries until something other than `WouldBlock` comes of it, and waits in between. The end
    /// makes its descriptor readable after it has answered so, and looked once more.
    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Poll<Result<T>> {
        let failed = |cause: std::io::Error| Error::os("wait for", "an end", cause);
        loop {
            let mut guard = ready!(self.descriptor.poll_read_ready(context)).map_err(failed)?;
            match attempt() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => guard.clear_ready(),
                outcome => return Poll::Ready(outcome),
            }
        }
    }
}

/// What an end that was closed answers.
fn closed(operation: &'static str, object: &'static str) -> Error {
    Error::new(ErrorKind::Closed, operation, object, "it was closed here")
}
