//! What the owner of an mpx and a peer of it do alike.

use super::multiplexer::Participant;
use super::record::{ChannelId, Record};
use super::table::State;
use crate::connect::wait::Waitable;
use crate::error::Result;
use crate::park::{Timeout, WaitSource};
use rustix::fd::BorrowedFd;
use weir_ring::lane::FrameKind;

impl<R> Participant<R> {
    /// Receives what has come on channels, each record through `buffer`, and waits for the first as
    /// long as it takes: the number of records. Data longer than the buffer comes in several.
    ///
    /// # Errors
    /// [`Invalid`]: the buffer has less than 64 bytes. [`Forked`]. The kernel's. At a peer also
    /// [`Closed`]: the owner is gone, and all that came from it was received; [`Refused`]: the owner
    /// has not accepted this peer, for the reason in the text.
    ///
    /// [`Invalid`]: crate::ErrorKind::Invalid
    /// [`Forked`]: crate::ErrorKind::Forked
    /// [`Closed`]: crate::ErrorKind::Closed
    /// [`Refused`]: crate::ErrorKind::Refused
    pub fn receive_each(
        &mut self,
        buffer: &mut [u8],
        mut see: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        self.inner.receive(buffer, Timeout::Never.start(), &mut see)
    }

    /// Receives what comes on channels within a time.
    ///
    /// # Errors
    /// [`WouldBlock`] or [`TimedOut`]: nothing came. Those of [`Participant::receive_each`].
    ///
    /// [`WouldBlock`]: crate::ErrorKind::WouldBlock
    /// [`TimedOut`]: crate::ErrorKind::TimedOut
    pub fn receive_each_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
        mut see: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        self.inner.receive(buffer, timeout.into().start(), &mut see)
    }

    /// Sends bytes on a channel: the number of bytes taken. If these are not all, a `Blocked` record
    /// says so, and an `Unblocked` record follows once there is room; the rest may then be sent, and
    /// comes as the continuation of the first. Sending no bytes does nothing; a mark is sent by
    /// [`Participant::end`].
    ///
    /// # Errors
    /// [`Invalid`]: the channel has ended, or was not accepted. [`Closed`]: the other side is gone;
    /// a record says so too. [`Corrupt`]: the other side has corrupted it, and is shut out.
    /// [`Forked`].
    ///
    /// [`Invalid`]: crate::ErrorKind::Invalid
    /// [`Closed`]: crate::ErrorKind::Closed
    /// [`Corrupt`]: crate::ErrorKind::Corrupt
    /// [`Forked`]: crate::ErrorKind::Forked
    #[inline]
    pub fn send(&mut self, channel: ChannelId, bytes: &[u8]) -> Result<usize> {
        Ok(self.send_frame("send on", channel, FrameKind::Data, bytes)?.0)
    }

    /// Sends a mark: whether it was taken.
    ///
    /// # Errors
    /// Those of [`Participant::send`].
    pub fn end(&mut self, channel: ChannelId) -> Result<bool> {
        Ok(self.send_frame("end", channel, FrameKind::End, &[])?.1)
    }

    /// Sends a number: whether it was taken.
    ///
    /// # Errors
    /// Those of [`Participant::send`].
    pub fn signal(&mut self, channel: ChannelId, number: u32) -> Result<bool> {
        Ok(self.send_frame("signal", channel, FrameKind::Signal, &number.to_le_bytes())?.1)
    }

    #[inline]
    fn send_frame(
        &mut self,
        operation: &'static str,
        channel: ChannelId,
        kind: FrameKind,
        bytes: &[u8],
    ) -> Result<(usize, bool)> {
        self.inner.act()?;
        self.inner.table.send(operation, channel, kind, bytes)
    }

    /// Closes a channel. The other side still receives what was sent on it, and then that it was
    /// closed; this side receives nothing more of it. A channel that was not answered is refused. An
    /// mpx that was joined is dropped.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid): the channel has ended.
    /// [`Forked`](crate::ErrorKind::Forked).
    pub fn close(&mut self, channel: ChannelId) -> Result<()> {
        self.inner.act()?;
        let index = self.inner.table.find("close", channel)?;
        match self.inner.table.channels[index as usize].state {
            State::Asked => self.inner.table.finish(index, FrameKind::Refuse, &[]),
            State::Joined => {
                self.inner.children.retain(|(at, _)| *at != index);
                self.inner.table.leave(index);
            }
            _ => self.inner.table.finish(index, FrameKind::Close, &[]),
        }
        Ok(())
    }

    /// Channels that are open, or not yet answered. Those of joined ones are not included.
    pub fn channels(&self) -> usize {
        self.inner.table.open_channels()
    }

    /// A descriptor for poll(2) and epoll(7): readable until [`Participant::receive_each_timeout`]
    /// has answered [`WouldBlock`](crate::ErrorKind::WouldBlock), and again once there is something.
    /// It says nothing of what is joined.
    ///
    /// # Errors
    /// The kernel has no descriptors. [`Forked`](crate::ErrorKind::Forked).
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.inner.poll_descriptor()
    }
}

/// A wait for records of an mpx, at its owner or a peer, or for a peer's owner to be gone. It may also
/// be ready for work that its calls do without a record.
impl<R: Send + 'static> Waitable for Participant<R> {
    fn source(&mut self) -> &mut dyn WaitSource {
        &mut self.inner
    }
}
