//! The calls that the owner of an mpx and its peers have in common.

use super::channels::ChannelState;
use super::record::{ChannelId, Record};
use super::sides::Participant;
use rustix::fd::BorrowedFd;
use weir::parts::{Until, WaitSource};
use weir::{Result, Timeout, Waitable};
use weir_ring::lane::FrameKind;

impl<R> Participant<R> {
    /// Receives what has come on channels, each record through `buffer`, and waits for the first
    /// without a limit. Returns the number of records. Data longer than the buffer comes in several
    /// records.
    ///
    /// # Errors
    /// [`Invalid`]: the buffer has less than 64 bytes. [`Forked`]. Those of the kernel. At a peer
    /// also [`Closed`]: the owner is gone, and all that came from it was received; [`Refused`]: the
    /// owner has not accepted this peer, for the reason in the text.
    ///
    /// [`Invalid`]: weir::ErrorKind::Invalid
    /// [`Forked`]: weir::ErrorKind::Forked
    /// [`Closed`]: weir::ErrorKind::Closed
    /// [`Refused`]: weir::ErrorKind::Refused
    pub fn receive_each(
        &mut self,
        buffer: &mut [u8],
        mut see: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        self.inner.receive(buffer, Until::Ever, &mut see)
    }

    /// Receives what comes on channels within `timeout`.
    ///
    /// # Errors
    /// [`WouldBlock`] or [`TimedOut`]: nothing came. Those of [`Participant::receive_each`].
    ///
    /// [`WouldBlock`]: weir::ErrorKind::WouldBlock
    /// [`TimedOut`]: weir::ErrorKind::TimedOut
    pub fn receive_each_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
        mut see: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        self.inner.receive(buffer, Until::starting(timeout.into()), &mut see)
    }

    /// Sends bytes on a channel, and returns how many were taken. If these are not all, a `Blocked`
    /// record comes, and an `Unblocked` record once there is room. The rest may then be sent; the
    /// other side receives it as the continuation of the first part. Sending no bytes does nothing;
    /// [`Participant::end`] sends a mark.
    ///
    /// # Errors
    /// [`Invalid`]: the channel has ended, or was not accepted. [`Closed`]: the other side is gone;
    /// a record comes too. [`Corrupt`]: the other side has corrupted its memory, and is shut out.
    /// [`Forked`].
    ///
    /// [`Invalid`]: weir::ErrorKind::Invalid
    /// [`Closed`]: weir::ErrorKind::Closed
    /// [`Corrupt`]: weir::ErrorKind::Corrupt
    /// [`Forked`]: weir::ErrorKind::Forked
    #[inline]
    pub fn send(&mut self, channel: ChannelId, bytes: &[u8]) -> Result<usize> {
        if self.inner.send_short(channel, bytes) {
            return Ok(bytes.len());
        }
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
    /// closed. This side receives nothing more from it. An owner that has not answered the channel
    /// refuses it by this. A joined mpx is dropped.
    ///
    /// # Errors
    /// [`Invalid`](weir::ErrorKind::Invalid): the channel has ended.
    /// [`Forked`](weir::ErrorKind::Forked).
    pub fn close(&mut self, channel: ChannelId) -> Result<()> {
        self.inner.act()?;
        let index = self.inner.table.channels.find("close", channel)?;
        match self.inner.table.channels[index].state {
            ChannelState::Asked => self.inner.table.finish(index, FrameKind::Refuse, &[]),
            ChannelState::Joined => {
                self.inner.children.retain(|(at, _)| *at != index);
                self.inner.table.leave(index);
            }
            _ => self.inner.table.finish(index, FrameKind::Close, &[]),
        }
        Ok(())
    }

    /// The number of channels that are open or not yet answered, without those of joined mpx.
    pub fn channels(&self) -> usize {
        self.inner.table.channels.visible()
    }

    /// A descriptor for poll(2) and epoll(7). It is readable until
    /// [`Participant::receive_each_timeout`] returns
    /// [`WouldBlock`](weir::ErrorKind::WouldBlock), and again once there is something. It does not
    /// cover joined mpx.
    ///
    /// # Errors
    /// The kernel has no descriptors left. [`Forked`](weir::ErrorKind::Forked).
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.inner.poll_descriptor()
    }
}

/// Waits for records, at an owner or a peer, and at a peer for the end of its owner. It may also be
/// ready for work that its calls do without a record.
impl<R: Send + 'static> Waitable for Participant<R> {
    fn source(&mut self) -> &mut dyn WaitSource {
        &mut self.inner
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()
    }
}
