//! Which standard descriptors were closed when the process started, and whether SIGPIPE was
//! ignored.
//!
//! The Rust runtime opens `/dev/null` in place of closed descriptors, and ignores SIGPIPE, before
//! `main` runs, so the questions have to be asked earlier: from an ELF initialiser
//! (`.init_array`, System V gABI).

use std::sync::atomic::{AtomicU8, Ordering};

/// Bit `n` is set when descriptor `n` was closed, and one more when SIGPIPE was ignored.
static CLOSED: AtomicU8 = AtomicU8::new(0);
/// That one.
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
    if weir_measure_sys::signals::is_ignored(libc::SIGPIPE) {
        closed |= PIPE_IGNORED;
    }
    // Relaxed: no other thread exists yet; threads started later synchronise by their start.
    CLOSED.store(closed, Ordering::Relaxed);
}

/// For descriptors 0, 1 and 2, whether each was closed when this process started.
pub fn closed_standard_descriptors() -> [bool; 3] {
    // Relaxed: written once before any thread existed (see `record_closed`).
    let closed = CLOSED.load(Ordering::Relaxed);
    [0, 1, 2].map(|fd| closed & (1 << fd) != 0)
}

/// Whether SIGPIPE was ignored when this process started: then whoever started it wants to be told
/// of a reader that has gone by an error.
pub fn sigpipe_was_ignored() -> bool {
    // Relaxed: written once before any thread existed (see `record_closed`).
    CLOSED.load(Ordering::Relaxed) & PIPE_IGNORED != 0
}
