//! Event counters of the kernel (eventfd(2)) as bells: readable from the first ring until cleared.
//!
//! Who holds the descriptor decides who has the bell. Forked children keep an `OwnedFd`, and not a
//! [`ParentOnly`], which gives them no descriptor: there, ringing and clearing do nothing.

use crate::forks::ParentOnly;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::{Errno, read, retry_on_intr, write};

/// Makes a bell that was rung this many times. Neither ringing nor clearing it ever waits.
pub fn make(rings: u32) -> Result<OwnedFd, Errno> {
    eventfd(rings, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
}

/// Makes a bell that forked children do not have.
pub fn make_own() -> std::io::Result<ParentOnly> {
    ParentOnly::make(|| Ok(make(0)?))
}

/// Rings a bell, if it is there.
#[inline(never)]
pub fn ring<'bell>(bell: impl Into<Option<BorrowedFd<'bell>>>) {
    // It fails only after 2^64 rings.
    let _ = bell.into().map(|bell| retry_on_intr(|| write(bell, &1_u64.to_ne_bytes())));
}

/// Clears a bell, if it is there. To be called before a look for what it was rung for.
#[inline(never)]
pub fn clear<'bell>(bell: impl Into<Option<BorrowedFd<'bell>>>) {
    // It fails if the bell was not rung.
    let _ = bell.into().map(|bell| retry_on_intr(|| read(bell, &mut [0; 8])));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fd::AsFd;

    fn is_rung(bell: BorrowedFd) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], Some(&now)) == Ok(1)
    }

    #[test]
    fn a_bell_is_readable_from_the_first_ring_until_it_is_cleared() {
        let (quiet, rung) = (make_own().expect("made"), make(1).expect("made"));
        assert!(is_rung(rung.as_fd()) && !is_rung(quiet.get().expect("here")));
        ring(quiet.get());
        ring(quiet.get());
        assert!(is_rung(quiet.get().expect("here")));
        for bell in [quiet.get(), Some(rung.as_fd()), None] {
            clear(bell);
            assert!(bell.is_none_or(|bell| !is_rung(bell)));
            // It does not wait for a ring.
            clear(bell);
        }
    }
}
