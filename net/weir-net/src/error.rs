//! The error of this library: what was attempted, on what, and why it failed.

use rustix::io::Errno;
use std::fmt;
use std::io;

/// Why an operation failed, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another process has the device, the address, or the protocol and port.
    Taken,
    /// The switch is not running, or has ended.
    NoSwitch,
    /// The device was removed.
    NoDevice,
    /// The switch refused this station.
    Refused,
    /// The operation would block, or timed out.
    TimedOut,
    /// An address, a size or a name is out of range.
    Invalid,
    /// A file, or data from a peer, is invalid.
    Corrupt,
    /// This user lacks permission.
    Denied,
    /// The kernel refused; see [`std::error::Error::source`].
    Os,
}

/// An error of this library.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    operation: &'static str,
    object: String,
    reason: String,
    cause: Option<io::Error>,
}

/// The result type of this library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Makes an error that did not come from the kernel.
    pub(crate) fn new(
        kind: ErrorKind,
        operation: &'static str,
        object: impl Into<String>,
        reason: impl Into<String>,
    ) -> Error {
        let (object, reason) = (object.into(), reason.into());
        Error { kind, operation, object, reason, cause: None }
    }

    /// Makes an error from one of the kernel's.
    pub(crate) fn os(
        operation: &'static str,
        object: impl Into<String>,
        cause: impl Into<io::Error>,
    ) -> Error {
        let cause = cause.into();
        let kind = match cause.kind() {
            io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            _ => ErrorKind::Os,
        };
        Error { cause: Some(cause), ..Error::new(kind, operation, object, "") }
    }

    /// Explains why a TUN device cannot be made, where the kernel's error says little.
    pub(crate) fn of_device(name: &str, cause: io::Error) -> Error {
        let object = format!("device '{name}'");
        let (kind, why) = match Errno::from_io_error(&cause) {
            Some(Errno::BUSY) => (ErrorKind::Taken, "another process has it"),
            Some(Errno::NOENT) => (ErrorKind::NoDevice, "there is no /dev/net/tun (modprobe tun)"),
            Some(Errno::PERM | Errno::ACCESS) => {
                (ErrorKind::Denied, "that needs CAP_NET_ADMIN (root has it)")
            }
            Some(Errno::INVAL) => (ErrorKind::Invalid, "a device of another kind has that name"),
            _ => return Error::os("make", object, cause),
        };
        Error::new(kind, "make", object, why)
    }

    /// Explains why an Ethernet device cannot be used, where the kernel's error says little.
    pub(crate) fn of_ethernet(name: &str, cause: io::Error) -> Error {
        let object = format!("device '{name}'");
        let (kind, why) = match cause.kind() {
            io::ErrorKind::PermissionDenied => {
                (ErrorKind::Denied, "that needs CAP_NET_RAW and CAP_NET_ADMIN (root has them)")
            }
            io::ErrorKind::Unsupported => (ErrorKind::Invalid, "it is not an Ethernet device"),
            io::ErrorKind::NetworkDown => {
                (ErrorKind::NoDevice, "it is switched off (ip link set DEVICE up)")
            }
            _ if Errno::from_io_error(&cause) == Some(Errno::NODEV) => {
                (ErrorKind::NoDevice, "there is none of that name in this network namespace")
            }
            _ => return Error::os("use", object, cause),
        };
        Error::new(kind, "use", object, why)
    }

    /// Returns why it failed.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.operation, self.object)?;
        match &self.cause {
            Some(cause) if self.reason.is_empty() => write!(f, ": {cause}"),
            Some(cause) => write!(f, ": {}: {cause}", self.reason),
            None => write!(f, ": {}", self.reason),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

impl From<weir::Error> for Error {
    fn from(error: weir::Error) -> Error {
        let kind = match error.kind() {
            weir::ErrorKind::NoReader | weir::ErrorKind::Closed => ErrorKind::NoSwitch,
            weir::ErrorKind::Taken => ErrorKind::Taken,
            weir::ErrorKind::Refused => ErrorKind::Refused,
            weir::ErrorKind::TimedOut | weir::ErrorKind::WouldBlock => ErrorKind::TimedOut,
            weir::ErrorKind::Invalid | weir::ErrorKind::TooSmall => ErrorKind::Invalid,
            weir::ErrorKind::Corrupt => ErrorKind::Corrupt,
            _ => ErrorKind::Os,
        };
        Error::new(kind, "reach", "the switch", error.to_string())
    }
}
