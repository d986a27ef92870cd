//! Ends for async programs with tokio (feature `tokio`).
//!
//! The ends of streams are [`AsyncRead`] and [`AsyncWrite`]. Records and messages of ports come by a
//! [`Stream`] and go to a [`Sink`]. A [`Listener`] accepts
//! ends, and a [`RecordDuplex`] sends requests and receives replies. All must be made inside of a
//! runtime whose I/O is enabled. An end that has something to do makes no system call; one that
//! has nothing to do waits in the reactor's epoll.
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

mod channels;
mod messages;
mod streams;

pub use channels::{Listener, RecordDuplex};
pub use messages::{PortMessage, PortSink, PortStream, RecordSink, RecordStream};
pub use streams::{StreamReader, StreamWriter};

use crate::error::{Error, ErrorKind, Result};
use ::tokio::io::unix::AsyncFd;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

/// The descriptor of an end, registered with tokio's reactor.
#[derive(Debug)]
pub struct Registered {
    descriptor: AsyncFd<OwnedFd>,
}

impl Registered {
    /// Registers a copy of a descriptor.
    ///
    /// # Errors
    /// The kernel has no descriptors left; there is no runtime, or one without I/O.
    pub fn new(descriptor: BorrowedFd) -> Result<Registered> {
        let failed = |cause: std::io::Error| Error::os("register", "an end with tokio", cause);
        let copy = descriptor.try_clone_to_owned().map_err(failed)?;
        let interest = ::tokio::io::Interest::READABLE;
        #[allow(deprecated, reason = "unsound for types that are no descriptors; this is one")]
        let descriptor = AsyncFd::with_interest(copy, interest).map_err(failed)?;
        Ok(Registered { descriptor })
    }

    /// Tries until the result is not `WouldBlock`, and waits in between. After `WouldBlock` the end
    /// makes its descriptor readable once it has something.
    pub fn poll<T>(
        &self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Poll<Result<T>> {
        loop {
            let mut guard = ready!(self.descriptor.poll_read_ready(context)).map_err(wait_error)?;
            match attempt() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => guard.clear_ready(),
                outcome => return Poll::Ready(outcome),
            }
        }
    }

    /// As [`Registered::poll`], for any number of tasks at once. Nothing is lost where one stops
    /// waiting.
    async fn attempt<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let mut guard = self.descriptor.readable().await.map_err(wait_error)?;
            match attempt() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => guard.clear_ready(),
                outcome => return outcome,
            }
        }
    }
}

fn wait_error(cause: std::io::Error) -> Error {
    Error::os("wait for", "an end", cause)
}

/// What a stream gives for the outcome of a call that receives. It ends where nothing can come any
/// more, since each later call fails in the same way. `was_told` keeps that the reason was given.
pub fn item<T>(outcome: Result<T>, was_told: &mut bool) -> Option<Result<T>> {
    let is_over = match outcome.as_ref().map_err(Error::kind) {
        Err(ErrorKind::Closed) => true,
        Err(ErrorKind::Refused | ErrorKind::Corrupt | ErrorKind::Forked) => {
            std::mem::replace(was_told, true)
        }
        _ => false,
    };
    (!is_over).then_some(outcome)
}

/// The error of an end that was closed on this side.
fn closed(operation: &'static str, object: &'static str) -> Error {
    Error::new(ErrorKind::Closed, operation, object, "it was closed here")
}
