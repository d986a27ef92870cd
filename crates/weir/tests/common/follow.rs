//! Ends whose descriptors follow them.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, AsRawFd};
use weir::{ErrorKind, Pollable, Waitable};

/// Whether the descriptor becomes readable within ten seconds, or at once.
pub fn is_readable(end: &impl AsFd, seconds: i64) -> bool {
    let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&timeout)).expect("polled") > 0
}

/// Checks that the descriptor follows the end: it waits after `attempt` has failed with
/// `WouldBlock`, and becomes readable when `other` has acted.
pub fn follows<E: Waitable>(
    end: E,
    attempt: impl Fn(&mut E) -> weir::Result<()>,
    mut other: impl FnMut(),
) -> Pollable<E> {
    let mut end = Pollable::new(end).expect("a descriptor");
    assert_eq!(end.as_fd().as_raw_fd(), end.as_raw_fd());
    for round in 0..3 {
        let mut quiet = false;
        while !quiet {
            // A port and an mpx have work of their own after they were connected to.
            match attempt(end.get_mut()) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    quiet = !is_readable(&end, 0)
                }
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        other();
        assert!(is_readable(&end, 10), "round {round}");
    }
    end
}
