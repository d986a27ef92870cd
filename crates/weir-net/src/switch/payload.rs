//! The payload of a datagram, wherever it lies.

use rustix::fd::BorrowedFd;
use std::io::IoSlice;
use std::ops::Range;
use weir::Lent;

/// A datagram's payload: private bytes, or part of a message in its station's ring.
pub enum Payload<'a> {
    /// Private bytes.
    Private(&'a [u8]),
    /// In the ring, from `offset` on.
    Ring {
        /// The message.
        lent: &'a Lent<'a>,
        /// Where the payload begins in it.
        offset: usize,
    },
}

impl Payload<'_> {
    /// Returns its length.
    pub fn len(&self) -> usize {
        match self {
            Payload::Private(bytes) => bytes.len(),
            Payload::Ring { lent, offset } => lent.len() - offset,
        }
    }

    /// Copies its beginning out.
    pub fn copy_to(&self, to: &mut [u8]) {
        match self {
            Payload::Private(bytes) => to.copy_from_slice(&bytes[..to.len()]),
            Payload::Ring { lent, offset } => lent.copy_to(*offset, to),
        }
    }

    /// Writes `head` and a part of the payload as one packet.
    pub fn write_to(
        &self,
        fd: BorrowedFd<'_>,
        head: &[u8],
        part: Range<usize>,
    ) -> std::io::Result<usize> {
        match self {
            Payload::Private(bytes) => {
                let parts = [IoSlice::new(head), IoSlice::new(&bytes[part])];
                Ok(rustix::io::writev(fd, &parts)?)
            }
            Payload::Ring { lent, offset } => {
                lent.write_to(fd, head, offset + part.start, part.len())
            }
        }
    }
}
