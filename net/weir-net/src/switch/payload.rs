//! The payload of a datagram, wherever it lies.

use rustix::fd::BorrowedFd;
use std::io::IoSlice;
use std::ops::Range;
use weir::Lent;

/// Longest packet that is copied together before it is written. The kernel takes longer to read a
/// list of parts than to copy as much.
const SHORT_BYTES: usize = 256;

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
        self.copy_from(0, to);
    }

    /// Copies a part of it out, from `at` on.
    pub fn copy_from(&self, at: usize, to: &mut [u8]) {
        match self {
            Payload::Private(bytes) => to.copy_from_slice(&bytes[at..at + to.len()]),
            Payload::Ring { lent, offset } => lent.copy_to(offset + at, to),
        }
    }

    /// Writes `head` and a part of the payload as one packet.
    pub fn write_to(
        &self,
        fd: BorrowedFd<'_>,
        head: &[u8],
        part: Range<usize>,
    ) -> std::io::Result<usize> {
        let bytes = head.len() + part.len();
        if bytes <= SHORT_BYTES {
            let mut packet = [0; SHORT_BYTES];
            let packet = &mut packet[..bytes];
            packet[..head.len()].copy_from_slice(head);
            self.copy_from(part.start, &mut packet[head.len()..]);
            return Ok(rustix::io::write(fd, packet)?);
        }
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
