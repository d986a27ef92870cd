//! Receiving in place: messages are shown where they lie in their writer's ring.

use super::reader::Port;
use super::waiting::Effort;
use super::{Event, Received};
use crate::error::{ErrorKind, Result};
use crate::memory::View;
use crate::pipe::end::Until;
use rustix::fd::BorrowedFd;
use std::time::Duration;

/// A message while it is shown.
#[derive(Debug)]
pub enum Lent<'a> {
    /// In the writer's ring, which it may still write to: read once, check, then use.
    InPlace(View<'a>),
    /// One that came in several pieces, put together.
    Copied(&'a [u8]),
}

impl Lent<'_> {
    /// Its length.
    pub fn len(&self) -> usize {
        match self {
            Lent::InPlace(view) => view.len(),
            Lent::Copied(bytes) => bytes.len(),
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes from `offset` out.
    ///
    /// # Panics
    /// When they reach beyond the end.
    #[inline]
    pub fn copy_to(&self, offset: usize, to: &mut [u8]) {
        match self {
            Lent::InPlace(view) => view.copy_to(offset, to),
            Lent::Copied(bytes) => to.copy_from_slice(&bytes[offset..offset + to.len()]),
        }
    }

    /// Writes `head`, and then `bytes` from `offset` on to a descriptor by one call, out of the
    /// ring itself: how many bytes went.
    ///
    /// # Errors
    /// Those of writev(2).
    ///
    /// # Panics
    /// When they reach beyond the end.
    pub fn write_to(
        &self,
        fd: BorrowedFd,
        head: &[u8],
        offset: usize,
        bytes: usize,
    ) -> std::io::Result<usize> {
        match self {
            Lent::InPlace(view) => view.write_to(fd, head, offset, bytes),
            Lent::Copied(all) => {
                let parts = [
                    std::io::IoSlice::new(head),
                    std::io::IoSlice::new(&all[offset..offset + bytes]),
                ];
                Ok(rustix::io::writev(fd, &parts)?)
            }
        }
    }
}

impl Port {
    /// As [`Port::receive_each`], but messages that came in one piece are shown where they lie,
    /// and not copied. `buffer` is for the others. An end of a writer is shown as well, as an empty
    /// message.
    ///
    /// # Errors
    /// Those of [`Port::receive`].
    pub fn receive_each_lent(
        &mut self,
        buffer: &mut [u8],
        see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        self.receive_each_lent_until(buffer, Until::Ever, see)
    }

    /// The same, if there is something.
    ///
    /// # Errors
    /// Those of [`Port::try_receive`].
    pub fn try_receive_each_lent(
        &mut self,
        buffer: &mut [u8],
        see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        self.receive_each_lent_until(buffer, Until::Now, see)
    }

    /// The same, if something comes in that time.
    ///
    /// # Errors
    /// Those of [`Port::receive_for`].
    pub fn receive_each_lent_for(
        &mut self,
        buffer: &mut [u8],
        time: Duration,
        see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        self.receive_each_lent_until(buffer, Until::after(time), see)
    }

    /// The same, if there is something; none is no error, and the descriptor for poll and epoll is
    /// left as it is. Cheaper than [`Port::try_receive_each_lent`], for who looks again and again.
    ///
    /// # Errors
    /// Those of [`Port::receive`].
    pub fn look_each_lent(
        &mut self,
        buffer: &mut [u8],
        see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        if !self.is_ready()? {
            return Ok(0);
        }
        match self.receive_each_lent_until(buffer, Until::Now, see) {
            // Part of a message was there, or something else that is not shown.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            seen => seen,
        }
    }

    fn receive_each_lent_until(
        &mut self,
        buffer: &mut [u8],
        until: Until,
        mut see: impl FnMut(Received, Lent<'_>),
    ) -> Result<usize> {
        let mut effort = Effort::new(until);
        loop {
            let place = self.next_of(&mut effort)?;
            let manner = self.manner();
            let slot = self.choice.slot(place)?;
            let (writer, identity) = (slot.id, slot.identity);
            let before = slot.bytes;
            let served = slot.serve_lent(manner, |sequence, view| {
                let event = Event::Message { bytes: view.len() };
                see(Received { writer, identity, sequence, event }, Lent::InPlace(view));
            })?;
            if served > 0 {
                let bytes = slot.bytes - before;
                self.choice.account_for(place)?;
                self.choice.count(served as u64, bytes);
                self.acted();
                return Ok(served);
            }
            if let Some(received) = self.step(place, buffer, &mut effort)? {
                let bytes = match received.event {
                    Event::Message { bytes } | Event::Piece { bytes, .. } => bytes,
                    Event::Closed(_) => 0,
                };
                see(received, Lent::Copied(&buffer[..bytes]));
                return Ok(1);
            }
        }
    }
}
