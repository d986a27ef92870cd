//! A message that is shown where it lies in its writer's ring.

use crate::memory::View;
use rustix::fd::BorrowedFd;

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
