//! Waiting for descriptors.

use super::futex::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::time::Duration;

/// Waits until a descriptor has one of these events or has hung up, for at most `time` if given.
/// Returns whether it has. A signal ends the wait too.
pub fn wait_ready(
    descriptor: impl AsFd,
    events: PollFlags,
    time: Option<Duration>,
) -> rustix::io::Result<bool> {
    let mut asked = [PollFd::new(&descriptor, events)];
    match poll(&mut asked, time.map(timespec).as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(cause) => Err(cause),
    }
}

/// How long a thread rests that cannot wait for its descriptors.
const REST: Duration = Duration::from_millis(1);

/// Waits until one of these descriptors has its events, for at most `time` if given. The caller
/// looks at all that it does, whatever ended the wait.
pub fn wait_for_any(descriptors: &mut [PollFd], time: Option<Duration>) {
    let asked = poll(descriptors, time.map(timespec).as_ref());
    // poll(2) takes no more descriptors than the process may open now (RLIMIT_NOFILE).
    if asked == Err(Errno::INVAL) {
        std::thread::sleep(time.map_or(REST, |time| time.min(REST)));
    }
}

/// Whether a descriptor has one of these events now, or has hung up.
pub fn is_ready(descriptor: impl AsFd, events: PollFlags) -> bool {
    wait_ready(descriptor, events, Some(Duration::ZERO)).is_ok_and(|is_ready| is_ready)
}
