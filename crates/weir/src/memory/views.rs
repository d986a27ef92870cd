//! Parts of shared memory that are lent to the user, who copies bytes out and in.
#![expect(clippy::disallowed_methods)]

use super::map::Map;
use rustix::fd::BorrowedFd;
use std::marker::PhantomData;
use weir_ring::{Area, RingMemory};

/// The bytes of a record that is read in place; see [`crate::Loan`].
///
/// ```
/// let (mut writer, mut reader) = weir::records(&weir::Options::new())?;
/// writer.send(b"hello")?;
/// let mut loan = reader.lend()?.expect("a record");
/// let view = loan.view()?;
/// let mut last = [0; 2];
/// view.copy_to(view.len() - 2, &mut last);
/// assert_eq!(&last, b"lo");
/// loan.consume()?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct View<'a> {
    map: &'a Map,
    area: Area,
    at: u64,
    bytes: usize,
}

/// The bytes of a record that is written in place; see [`crate::Reservation`].
///
/// ```
/// let (mut writer, mut reader) = weir::records(&weir::Options::new())?;
/// let mut place = writer.reserve(5)?;
/// let mut view = place.view()?;
/// view.copy_from(0, b"he");
/// view.copy_from(2, b"llo");
/// place.commit()?;
/// let mut buffer = [0; 5];
/// reader.receive(&mut buffer)?;
/// assert_eq!(&buffer, b"hello");
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct ViewMut<'a> {
    view: View<'a>,
    // There is no other view of these bytes.
    exclusive: PhantomData<&'a mut [u8]>,
}

impl<'a> View<'a> {
    #[inline]
    pub(crate) fn new(map: &'a Map, (area, at): (Area, u64), bytes: usize) -> View<'a> {
        // This asserts that the range lies inside.
        map.part(area, at, bytes);
        View { map, area, at, bytes }
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the view is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    #[inline]
    fn part(&self, offset: usize, bytes: usize) -> u64 {
        let inside = offset <= self.bytes && bytes <= self.bytes - offset;
        assert!(inside, "{bytes} bytes at {offset} of a view of {}", self.bytes);
        self.at.wrapping_add(offset as u64)
    }

    /// Copies bytes out, from `offset` on.
    ///
    /// # Panics
    /// The range reaches beyond the end.
    #[inline]
    pub fn copy_to(&self, offset: usize, to: &mut [u8]) {
        self.map.copy_out(self.area, self.part(offset, to.len()), to);
    }

    /// Writes `head` and then `bytes` of the view, from `offset` on, to a descriptor: in one call,
    /// and without a copy in between. Returns how many bytes were written.
    ///
    /// # Errors
    /// Those of writev(2).
    ///
    /// # Panics
    /// The range reaches beyond the end.
    pub fn write_to(
        &self,
        fd: BorrowedFd,
        head: &[u8],
        offset: usize,
        bytes: usize,
    ) -> std::io::Result<usize> {
        let start = self.map.part(self.area, self.part(offset, bytes), bytes);
        // SAFETY: inside the area and its mirror (`part` asserts), mapped as long as `self`.
        unsafe { weir_sys::gather::write_two(fd, head, start, bytes) }
    }

    /// Returns the bytes themselves.
    ///
    /// # Safety
    /// Nobody may write them while the slice is used. An honest writer does not touch a record
    /// before it is consumed: the caller trusts the process at the other end. If a hostile peer can
    /// write the memory, this is undefined behaviour.
    pub unsafe fn as_slice(&self) -> &[u8] {
        let start = self.map.part(self.area, self.at, self.bytes);
        // SAFETY: inside the area and its mirror (`part` asserts), mapped as long as `self`; the
        // caller promises that nobody writes there.
        unsafe { std::slice::from_raw_parts(start, self.bytes) }
    }
}

impl<'a> ViewMut<'a> {
    pub(crate) fn new(map: &'a Map, place: (Area, u64), bytes: usize) -> ViewMut<'a> {
        ViewMut { view: View::new(map, place, bytes), exclusive: PhantomData }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.view.bytes
    }

    /// Whether the view is empty.
    pub fn is_empty(&self) -> bool {
        self.view.bytes == 0
    }

    /// Copies bytes in, from `offset` on.
    ///
    /// # Panics
    /// The range reaches beyond the end.
    pub fn copy_from(&mut self, offset: usize, from: &[u8]) {
        let at = self.view.part(offset, from.len());
        self.view.map.copy_in(self.view.area, at, from);
    }

    /// Returns the bytes themselves, whatever their values are.
    ///
    /// # Safety
    /// Nobody else may read or write them while the slice is used. A hostile reader could.
    pub unsafe fn as_slice_mut(&mut self) -> &mut [u8] {
        let start = self.view.map.part(self.view.area, self.view.at, self.view.bytes);
        // SAFETY: inside the area and its mirror (`part` asserts), mapped as long as `self`, which
        // is borrowed mutably; the caller promises that nobody else touches the bytes.
        unsafe { std::slice::from_raw_parts_mut(start, self.view.bytes) }
    }
}
