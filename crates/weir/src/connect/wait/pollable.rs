//! An end together with its descriptor, for reactors.

use super::Waitable;
use crate::error::{Error, Result};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// An end that lends a descriptor ([`AsFd`], [`AsRawFd`]), as reactors and polling crates ask for:
/// an end of a pipe, a backlog, a port or an mpx, or an elastic reader.
///
/// The descriptor is the one that `poll_descriptor` of the end makes. It is *readable* while the end
/// may have something to do, a writer's too: once there is room. So register it for reading, and
/// after each event call `try_read`, `try_send` and so on until one fails with
/// [`WouldBlock`](crate::ErrorKind::WouldBlock). Only that makes the descriptor wait for what comes
/// next. No bytes can be read from the descriptor itself, or written to it.
///
/// ```
/// use rustix::event::{PollFd, PollFlags, poll};
/// use weir::{ErrorKind, Pollable};
///
/// let (mut writer, reader) = weir::pipe(&weir::Options::new())?;
/// let mut reader = Pollable::new(reader)?;
/// let mut buffer = [0; 64];
/// let nothing = reader.get_mut().try_read(&mut buffer).unwrap_err();
/// assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
///
/// writer.write(b"hello")?;
/// poll(&mut [PollFd::new(&reader, PollFlags::IN)], None)?;
/// assert_eq!(reader.get_mut().try_read(&mut buffer)?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pollable<E> {
    end: E,
    descriptor: OwnedFd,
}

impl<E: Waitable> Pollable<E> {
    /// Takes an end and makes its descriptor.
    ///
    /// # Errors
    /// The kernel has no descriptors left. [`Forked`](crate::ErrorKind::Forked). The end is dropped
    /// then.
    pub fn new(mut end: E) -> Result<Pollable<E>> {
        let copied = end.descriptor_to_poll()?.try_clone_to_owned();
        let descriptor = copied.map_err(|cause| Error::os("poll", "an end", cause))?;
        Ok(Pollable { end, descriptor })
    }

    /// Returns the end.
    pub fn get_ref(&self) -> &E {
        &self.end
    }

    /// Returns the end, to use it.
    pub fn get_mut(&mut self) -> &mut E {
        &mut self.end
    }

    /// Gives the end back.
    pub fn into_inner(self) -> E {
        self.end
    }
}

impl<E> AsFd for Pollable<E> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl<E> AsRawFd for Pollable<E> {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}
