//! The standard descriptors that were closed when the process started, and whether SIGPIPE was
//! ignored.
//!
//! Before `main` runs, the Rust runtime opens `/dev/null` in place of closed descriptors and ignores
//! SIGPIPE. So this is recorded earlier, by an ELF initialiser (`.init_array`, System V gABI).
//! Copies of descriptors that the user names by their numbers are made here too, and another program
//! is run in place of this one as if it had been started itself.

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};

/// Bit `n` is set if descriptor `n` was closed, and [`PIPE_IGNORED`] if SIGPIPE was ignored.
static CLOSED: AtomicU8 = AtomicU8::new(0);
const PIPE_IGNORED: u8 = 1 << 7;

// SAFETY: the ELF ABI calls each entry of .init_array once, before `main` and before any thread
// exists, with the C calling convention; `record_closed` touches only fcntl, sigaction and an
// atomic.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record_closed;

extern "C" fn record_closed() {
    let mut closed = 0;
    for fd in 0..3 {
        // SAFETY: F_GETFD takes any number and has no memory preconditions.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            closed |= 1 << fd;
        }
    }
    if weir_measure::sys::signals::is_ignored(libc::SIGPIPE) {
        closed |= PIPE_IGNORED;
    }
    // Relaxed: no other thread exists yet. Threads started later synchronise by their start.
    CLOSED.store(closed, Ordering::Relaxed);
}

/// Whether each of descriptors 0, 1 and 2 was closed when this process started.
pub fn closed_standard_descriptors() -> [bool; 3] {
    // Relaxed: written once before any thread existed (see `record_closed`).
    let closed = CLOSED.load(Ordering::Relaxed);
    [0, 1, 2].map(|fd| closed & (1 << fd) != 0)
}

/// Whether SIGPIPE was ignored when this process started. Whoever started it so wants an error when
/// a reader is gone.
pub fn sigpipe_was_ignored() -> bool {
    // Relaxed: written once before any thread existed (see `record_closed`).
    CLOSED.load(Ordering::Relaxed) & PIPE_IGNORED != 0
}

/// Returns a copy of descriptor `fd` of this process, which no program that is started gets; `None`
/// where no file has this number.
pub fn copy_of(fd: i32) -> Option<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes any number and has no memory preconditions.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: fcntl(2) has just made this descriptor, so nobody else closes it.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Runs another program in place of this one, with the descriptors and the handling of SIGPIPE that
/// this process was started with. Returns only if that fails.
pub fn exec(program: &CString, args: &[CString]) -> io::Error {
    for (fd, closed) in closed_standard_descriptors().into_iter().enumerate() {
        if closed {
            // SAFETY: the runtime opened `/dev/null` there, and nothing uses it from here on.
            unsafe { libc::close(fd as i32) };
        }
    }
    if !sigpipe_was_ignored() {
        // SAFETY: the default action needs no handler, and no other thread depends on the old one.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    let mut pointers: Vec<_> = args.iter().map(|arg| arg.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: `program` and each of `args` end with a zero, the list with a null, and all outlive
    // the call.
    unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}
