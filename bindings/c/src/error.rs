//! Status and errors.

use rustix::io::Errno;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir::{Error, ErrorKind};

/// How a call ended. weir_error_message() has a sentence for all but WEIR_OK.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum weir_status {
    /// It did what was asked.
    WEIR_OK = 0,
    /// The other end has closed or died. To a reader: and everything was received.
    WEIR_CLOSED = 1,
    /// No reader is listening at the name or path.
    WEIR_NO_READER = 2,
    /// Another process has the name, or a file that is not weir's has it.
    WEIR_TAKEN = 3,
    /// The reader refused the writer, or has shut it out.
    WEIR_REFUSED = 4,
    /// The timeout was 0, and the call would have to wait.
    WEIR_WOULD_BLOCK = 5,
    /// The timeout has passed.
    WEIR_TIMED_OUT = 6,
    /// An argument is not valid: a NULL, a size, a name.
    WEIR_INVALID = 7,
    /// Shared memory, or a message from another process, is not valid.
    WEIR_CORRUPT = 8,
    /// The buffer is too small. The record stays, and its length was stored.
    WEIR_TOO_SMALL = 9,
    /// The end belongs to the process that this one was forked from.
    WEIR_FORKED = 10,
    /// The kernel refused; weir_error_os() is its errno, ENOMEM and EMFILE among them.
    WEIR_OS = 11,
    /// A bug of weir. What the call was about is in an unknown state: free it.
    WEIR_BUG = 12,
}

use weir_status::*;

/// The error of the last call of this thread that failed.
#[derive(Default)]
struct Last {
    error: Option<Error>,
    /// Its sentence, once somebody has asked.
    text: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { error: None, text: None }) };
}

/// Runs the body of a function of the header: its error becomes a status and this thread's last
/// error, and so does a panic.
#[inline(always)]
pub(crate) fn call(body: impl FnOnce() -> weir::Result<()>) -> weir_status {
    // A panic may leave an end in any state that its own code allows; the status says so.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => WEIR_OK,
        Ok(Err(error)) => failed(error),
        Err(panic) => panicked(panic.downcast_ref::<&str>().copied()),
    }
}

#[cold]
fn failed(error: Error) -> weir_status {
    let status = match error.kind() {
        ErrorKind::Closed => WEIR_CLOSED,
        ErrorKind::NoReader => WEIR_NO_READER,
        ErrorKind::Taken => WEIR_TAKEN,
        ErrorKind::Refused => WEIR_REFUSED,
        ErrorKind::WouldBlock => WEIR_WOULD_BLOCK,
        ErrorKind::TimedOut => WEIR_TIMED_OUT,
        ErrorKind::Invalid => WEIR_INVALID,
        ErrorKind::Corrupt => WEIR_CORRUPT,
        ErrorKind::TooSmall => WEIR_TOO_SMALL,
        ErrorKind::Forked => WEIR_FORKED,
        ErrorKind::Os => WEIR_OS,
        _ => WEIR_BUG,
    };
    remember(error);
    status
}

#[cold]
fn panicked(why: Option<&'static str>) -> weir_status {
    let why = why.unwrap_or("a check within weir has failed");
    remember(Error::new(ErrorKind::Invalid, "finish", "a call, which is a bug of weir", why));
    WEIR_BUG
}

fn remember(error: Error) {
    // A thread that ends has no last error any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Last { error: Some(error), text: None });
}

/// The error of an argument.
#[cold]
pub(crate) fn invalid(object: &'static str, why: &'static str) -> Error {
    Error::new(ErrorKind::Invalid, "use", object, why)
}

/// Returns what went wrong in the last call of this thread that failed, as a sentence: "cannot open
/// port 'log': no reader is listening". Never NULL. It is valid until another call of this thread
/// fails.
#[unsafe(no_mangle)]
pub extern "C" fn weir_error_message() -> *const c_char {
    let text = |last: &RefCell<Last>| {
        let mut last = last.borrow_mut();
        let Last { error: Some(error), text } = &mut *last else { return c"no error".as_ptr() };
        let made = || CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
        text.get_or_insert_with(made).as_ptr()
    };
    LAST.try_with(text).unwrap_or(c"".as_ptr())
}

/// Returns the errno of the last call of this thread that failed with WEIR_OS, or 0 if the last that
/// failed did so with another status.
#[unsafe(no_mangle)]
pub extern "C" fn weir_error_os() -> c_int {
    let code = |last: &RefCell<Last>| {
        let last = last.borrow();
        let source = last.error.as_ref().and_then(std::error::Error::source);
        let cause = source.and_then(|cause| cause.downcast_ref::<std::io::Error>());
        cause.and_then(Errno::from_io_error).map_or(0, Errno::raw_os_error)
    };
    LAST.try_with(code).unwrap_or(0)
}

/// Returns the name of a status, such as "WEIR_CLOSED", for messages to people who debug.
#[unsafe(no_mangle)]
pub extern "C" fn weir_status_name(status: c_int) -> *const c_char {
    const NAMES: [&CStr; 13] = [
        c"WEIR_OK",
        c"WEIR_CLOSED",
        c"WEIR_NO_READER",
        c"WEIR_TAKEN",
        c"WEIR_REFUSED",
        c"WEIR_WOULD_BLOCK",
        c"WEIR_TIMED_OUT",
        c"WEIR_INVALID",
        c"WEIR_CORRUPT",
        c"WEIR_TOO_SMALL",
        c"WEIR_FORKED",
        c"WEIR_OS",
        c"WEIR_BUG",
    ];
    let name = usize::try_from(status).ok().and_then(|status| NAMES.get(status));
    name.unwrap_or(&c"an unknown status").as_ptr()
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn weir_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
