//! Errors as exceptions of Python, whose classes are in `weir/errors.py`.

use pyo3::PyErr;
use pyo3::import_exception;
use rustix::io::Errno;

import_exception!(weir.errors, Error);
import_exception!(weir.errors, Closed);
import_exception!(weir.errors, NoReader);
import_exception!(weir.errors, Taken);
import_exception!(weir.errors, Refused);
import_exception!(weir.errors, WouldBlock);
import_exception!(weir.errors, TimedOut);
import_exception!(weir.errors, Invalid);
import_exception!(weir.errors, Corrupt);
import_exception!(weir.errors, TooSmall);
import_exception!(weir.errors, Forked);
import_exception!(weir.errors, PeerDied);
import_exception!(queue, Empty);
import_exception!(queue, Full);

/// A size, a name or another argument that is not valid.
pub fn invalid(text: String) -> PyErr {
    Invalid::new_err((Errno::INVAL.raw_os_error(), text))
}

/// Nonsense in shared memory.
pub fn corrupt(text: String) -> PyErr {
    Corrupt::new_err((Errno::BADMSG.raw_os_error(), text))
}

/// The end was closed here.
pub fn closed_here() -> PyErr {
    pyo3::exceptions::PyValueError::new_err("the end is closed, or was handed on")
}

/// Another process is gone.
pub fn peer_died(text: String) -> PyErr {
    PeerDied::new_err((Errno::OWNERDEAD.raw_os_error(), text))
}

/// The kernel refused.
pub fn os(text: String, cause: &std::io::Error) -> PyErr {
    let number = cause.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
    Error::new_err((number, text))
}

/// An error of the library.
pub fn of(error: weir::Error) -> PyErr {
    use weir::ErrorKind;
    let text = error.to_string();
    let with = |number: Errno| (number.raw_os_error(), text.clone());
    match error.kind() {
        ErrorKind::Closed => Closed::new_err(with(Errno::PIPE)),
        ErrorKind::NoReader => NoReader::new_err(with(Errno::CONNREFUSED)),
        ErrorKind::Refused => Refused::new_err(with(Errno::CONNREFUSED)),
        ErrorKind::Taken => Taken::new_err(with(Errno::EXIST)),
        ErrorKind::WouldBlock => WouldBlock::new_err(with(Errno::AGAIN)),
        ErrorKind::TimedOut => TimedOut::new_err(with(Errno::TIMEDOUT)),
        ErrorKind::TooSmall => TooSmall::new_err(with(Errno::MSGSIZE)),
        ErrorKind::Corrupt => Corrupt::new_err(with(Errno::BADMSG)),
        ErrorKind::Forked => Forked::new_err(with(Errno::PERM)),
        ErrorKind::Invalid => Invalid::new_err(with(Errno::INVAL)),
        _ => {
            let cause = std::error::Error::source(&error);
            let io = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
            let number = io.and_then(std::io::Error::raw_os_error).unwrap_or(5);
            Error::new_err((number, text))
        }
    }
}
