//! Waiting until descriptors are ready.

use crate::error::{Error, Result};
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use std::time::Duration;

/// Waits until one of these descriptors is ready, for `most` at most. Returns whether one is.
///
/// Without `most` it waits for as long as that takes. A signal ends the wait, and nothing is ready
/// then. `object` is what the caller waits for, as an error names it.
///
/// # Errors
/// [`crate::ErrorKind::Os`]: the kernel refuses to wait.
#[inline]
pub fn wait_for(
    descriptors: &mut [PollFd<'_>],
    most: Option<Duration>,
    object: &str,
) -> Result<bool> {
    // A time that is too long for the kernel's type is as good as none.
    let limit = most.and_then(|most| Timespec::try_from(most).ok());
    match poll(descriptors, limit.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(cause) => Err(Error::os("wait for", object, cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::PollFlags;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    #[test]
    fn a_descriptor_is_ready_once_something_has_come() {
        let (mut near, far) = UnixStream::pair().expect("a pair");
        let mut asked = [PollFd::new(&far, PollFlags::IN)];
        assert!(!wait_for(&mut asked, Some(Duration::ZERO), "bytes").expect("waited"));
        near.write_all(b"x").expect("written");
        for most in [Some(Duration::ZERO), Some(Duration::MAX), None] {
            assert!(wait_for(&mut asked, most, "bytes").expect("waited"), "{most:?}");
            assert!(asked[0].revents().contains(PollFlags::IN), "{most:?}");
        }
    }

    /// Three waits passed on only what exceeded whole seconds, so a wait of one second was none.
    #[test]
    fn whole_seconds_are_waited_for() {
        let most = Duration::from_secs(1);
        let begun = Instant::now();
        assert!(!wait_for(&mut [], Some(most), "nothing").expect("waited"));
        assert!(begun.elapsed() >= most);
    }
}
