//! Parts of shared memory lent to the user: raw, reached by copying.
#![expect(clippy::disallowed_methods)]

use super::map::Map;
use rustix::fd::BorrowedFd;
use std::marker::PhantomData;
use weir_ring::{Area, RingMemory};

/// The bytes of a record that is read in place; see [`crate::Loan`].
#[derive(Debug)]
#[must_use]
pub struct View<'a> {
    map: &'a Map,
    area: Area,
    at: usize,
    bytes: usize,
}

/// The bytes of a record that is written in place; see [`crate::Reservation`].
#[derive(Debug)]
#[must_use]
pub struct ViewMut<'a> {
    view: View<'a>,
    // What is written through one view is not seen through another.
    exclusive: PhantomData<&'a mut [u8]>,
}

impl<'a> View<'a> {
    #[inline]
    pub(crate) fn new(map: &'a Map, (area, at): (Area, usize), bytes: usize) -> View<'a> {
        // Asserts that it lies inside.
        map.part(area, at, bytes);
        View { map, area, at, bytes }
    }

    /// How many bytes there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    #[inline]
    fn part(&self, offset: usize, bytes: usize) -> usize {
        let inside = offset <= self.bytes && bytes <= self.bytes - offset;
        assert!(inside, "{bytes} bytes at {offset} of a view of {}", self.bytes);
        (self.at + offset) & (self.map.bytes(self.area) as usize - 1)
    }

    /// Copies bytes from `offset` out.
    ///
    /// # Panics
    /// When they reach beyond the end.
    #[inline]
    pub fn copy_to(&self, offset: usize, to: &mut [u8]) {
        self.map.copy_out(self.area, self.part(offset, to.len()), to);
    }

    /// Writes `head`, which is private, and then `bytes` from `offset` on to a descriptor, by one
    /// call and without copying them first: how many bytes went.
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
        let start = self.map.part(self.area, self.part(offset, bytes), bytes);
        // SAFETY: inside of the area and its mirror (`part` asserts), mapped as long as `self`.
        unsafe { weir_sys::gather::write_two(fd, head, start, bytes) }
    }

    /// The bytes themselves.
    ///
    /// # Safety
    /// Nobody writes there as long as the slice is used: the caller trusts the other end, which
    /// keeps from it what was committed until it is consumed, to be what it says it is. Over memory
    /// that a hostile peer can write this is undefined behaviour.
    pub unsafe fn as_slice(&self) -> &[u8] {
        let start = self.map.part(self.area, self.at, self.bytes);
        // SAFETY: inside of the area and its mirror (`part` asserts), mapped as long as `self`;
        // that nobody writes there is the caller's promise.
        unsafe { std::slice::from_raw_parts(start, self.bytes) }
    }
}

impl<'a> ViewMut<'a> {
    pub(crate) fn new(map: &'a Map, place: (Area, usize), bytes: usize) -> ViewMut<'a> {
        ViewMut { view: View::new(map, place, bytes), exclusive: PhantomData }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.view.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.view.bytes == 0
    }

    /// Copies bytes in at `offset`.
    ///
    /// # Panics
    /// When they reach beyond the end.
    pub fn copy_from(&mut self, offset: usize, from: &[u8]) {
        let at = self.view.part(offset, from.len());
        self.view.map.copy_in(self.view.area, at, from);
    }

    /// The bytes themselves, of whatever value they have.
    ///
    /// # Safety
    /// Nobody else reads or writes there as long as the slice is used; a hostile reader could.
    pub unsafe fn as_slice_mut(&mut self) -> &mut [u8] {
        let start = self.view.map.part(self.view.area, self.view.at, self.view.bytes);
        // SAFETY: inside of the area and its mirror (`part` asserts), mapped as long as `self`, and
        // `self` is borrowed mutably; that nobody else is there is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start, self.view.bytes) }
    }
}
