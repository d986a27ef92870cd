//! The one error of the library: what was attempted, on what, why it failed.

use std::fmt;
use std::io;

/// Why something failed, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The other end has closed or died.
    Closed,
    /// No reader is listening.
    NoReader,
    /// Somebody else has the name, or a file that is not ours does.
    Taken,
    /// The reader does not take the writer, or no longer does.
    Refused,
    /// It would have to wait.
    WouldBlock,
    /// The time is over.
    TimedOut,
    /// A size or a name is out of its range.
    Invalid,
    /// Shared memory, or what a peer sent, is not as it must be.
    Corrupt,
    /// The buffer is too small for the record; see [`Error::needed_bytes`].
    TooSmall,
    /// The end belongs to the process this one was forked from.
    Forked,
    /// The kernel refused, see [`std::error::Error::source`].
    Os,
}

/// An error of this library.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    operation: &'static str,
    object: String,
    reason: String,
    bytes: u64,
    cause: Option<io::Error>,
}

/// What this library returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(
        kind: ErrorKind,
        operation: &'static str,
        object: impl Into<String>,
        reason: impl Into<String>,
    ) -> Error {
        let (object, reason) = (object.into(), reason.into());
        Error { kind, operation, object, reason, bytes: 0, cause: None }
    }

    pub(crate) fn os(
        operation: &'static str,
        object: impl Into<String>,
        cause: impl Into<io::Error>,
    ) -> Error {
        let cause = Some(cause.into());
        Error { cause, ..Error::new(ErrorKind::Os, operation, object, "") }
    }

    /// The kernel's number of the cause, if it has one.
    pub(crate) fn os_code(&self) -> Option<i32> {
        self.cause.as_ref().and_then(io::Error::raw_os_error)
    }

    pub(crate) fn with_bytes(self, bytes: u64) -> Error {
        Error { bytes, ..self }
    }

    /// Why it failed.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Of a timed write: bytes that were published before its time was over.
    pub fn written_bytes(&self) -> u64 {
        if self.kind == ErrorKind::TooSmall { 0 } else { self.bytes }
    }

    /// Of a buffer too small: bytes the record has.
    pub fn needed_bytes(&self) -> u64 {
        if self.kind == ErrorKind::TooSmall { self.bytes } else { 0 }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: ", self.operation, self.object)?;
        match &self.cause {
            Some(cause) => write!(f, "{cause}"),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.kind {
            ErrorKind::Closed => io::ErrorKind::BrokenPipe,
            ErrorKind::NoReader | ErrorKind::Refused => io::ErrorKind::ConnectionRefused,
            ErrorKind::Taken => io::ErrorKind::AlreadyExists,
            ErrorKind::WouldBlock => io::ErrorKind::WouldBlock,
            ErrorKind::TimedOut => io::ErrorKind::TimedOut,
            ErrorKind::Invalid | ErrorKind::TooSmall => io::ErrorKind::InvalidInput,
            ErrorKind::Corrupt => io::ErrorKind::InvalidData,
            ErrorKind::Forked => io::ErrorKind::Unsupported,
            ErrorKind::Os => error.cause.as_ref().map_or(io::ErrorKind::Other, io::Error::kind),
        };
        io::Error::new(kind, error)
    }
}
