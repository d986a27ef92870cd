//! The library's error: what was attempted, on what, and why it failed.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Why a call failed, for programs to match on.
///
/// ```
/// use weir::ErrorKind;
/// let (mut writer, reader) = weir::pipe(&weir::Options::new())?;
/// drop(reader);
/// match writer.write(b"too late") {
///     Err(error) if error.kind() == ErrorKind::Closed => println!("{error}"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The other end has closed or died.
    Closed,
    /// No reader is listening.
    NoReader,
    /// Another process has the name, or a file that is not weir's has it.
    Taken,
    /// The reader refused the writer, or has shut it out.
    Refused,
    /// The call would have to wait.
    WouldBlock,
    /// The timeout has passed.
    TimedOut,
    /// A size, a name or another argument is invalid.
    Invalid,
    /// Shared memory, or a message from a peer, is not valid.
    Corrupt,
    /// The buffer is too small for the record; see [`Error::needed_bytes`].
    TooSmall,
    /// The end belongs to the process that this one was forked from.
    Forked,
    /// The kernel refused; see [`std::error::Error::source`].
    Os,
}

/// An error of this library: a kind for programs, a sentence for people.
///
/// An error that says only that a call would have to wait, or that its timeout has passed,
/// allocates nothing. `?` turns an error into an [`io::Error`] of the matching kind.
///
/// ```
/// use weir::{ErrorKind, Options};
/// let (_writer, mut reader) = weir::pipe(&Options::new())?;
/// let error = reader.try_read(&mut [0; 16]).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::WouldBlock);
/// assert_eq!(error.to_string(), "cannot read from the pipe: it is empty");
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::WouldBlock);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    operation: &'static str,
    object: Text,
    reason: Text,
    bytes: Option<usize>,
    cause: Option<io::Error>,
}

/// A part of an error's sentence. Fixed and shared text allocates nothing.
#[derive(Debug)]
pub enum Text {
    /// Fixed.
    Fixed(&'static str),
    /// Made for this error.
    Made(String),
    /// Shared by several errors.
    Shared(Arc<str>),
}

impl Text {
    fn as_str(&self) -> &str {
        match self {
            Text::Fixed(text) => text,
            Text::Made(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Text {
        Text::Fixed(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::Made(text)
    }
}

impl From<&Arc<str>> for Text {
    fn from(text: &Arc<str>) -> Text {
        Text::Shared(text.clone())
    }
}

/// The result of a call of this library.
///
/// ```
/// fn greet(writer: &mut weir::Writer) -> weir::Result<usize> {
///     writer.write(b"hello")
/// }
/// let (mut writer, _reader) = weir::pipe(&weir::Options::new())?;
/// assert_eq!(greet(&mut writer)?, 5);
/// # Ok::<(), weir::Error>(())
/// ```
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Makes the error of an operation on an object, for a crate on top of this one: "cannot
    /// OPERATION OBJECT: REASON".
    pub fn new(
        kind: ErrorKind,
        operation: &'static str,
        object: impl Into<Text>,
        reason: impl Into<Text>,
    ) -> Error {
        let (object, reason) = (object.into(), reason.into());
        Error { kind, operation, object, reason, bytes: None, cause: None }
    }

    /// Makes the error of an operation that the kernel refused.
    pub fn os(
        operation: &'static str,
        object: impl Into<Text>,
        cause: impl Into<io::Error>,
    ) -> Error {
        let cause = Some(cause.into());
        Error { cause, ..Error::new(ErrorKind::Os, operation, object, "") }
    }

    /// The error of a call in a forked child that only the parent may make.
    #[cold]
    pub fn forked(operation: &'static str, object: impl Into<Text>) -> Error {
        let why = "it belongs to the process that this one was forked from";
        Error::new(ErrorKind::Forked, operation, object, why)
    }

    /// The error number of the cause, if the kernel gave one.
    pub(crate) fn os_code(&self) -> Option<i32> {
        self.cause.as_ref().and_then(io::Error::raw_os_error)
    }

    /// The same error of another operation, on another object.
    pub(crate) fn of(self, operation: &'static str, object: impl Into<Text>) -> Error {
        Error { operation, object: object.into(), ..self }
    }

    pub(crate) fn with_bytes(self, bytes: usize) -> Error {
        Error { bytes: Some(bytes), ..self }
    }

    /// Returns why the call failed.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns how many bytes a write to a stream published before it failed. `None` for other
    /// calls, and for a write that failed before it began.
    pub fn written_bytes(&self) -> Option<usize> {
        self.bytes.filter(|_| self.kind != ErrorKind::TooSmall)
    }

    /// Returns the length of the record that did not fit ([`ErrorKind::TooSmall`]): the call
    /// succeeds with a buffer of this many bytes.
    pub fn needed_bytes(&self) -> Option<usize> {
        self.bytes.filter(|_| self.kind == ErrorKind::TooSmall)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: ", self.operation, self.object.as_str())?;
        match &self.cause {
            Some(cause) => write!(f, "{cause}"),
            None => f.write_str(self.reason.as_str()),
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
