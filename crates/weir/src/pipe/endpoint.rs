//! One end of a pipe, of either kind and role: an [`End`] and its half of the ring.

use super::connection::Role;
use super::defaults::Sizes;
use super::end::End;
use super::handle::{Halves, Handle};
use super::options::{Habits, Options};
use super::storage::{corrupt, open_kind};
use crate::error::Result;
use crate::memory::Map;
use rustix::fd::BorrowedFd;
use std::fmt::Debug;
use weir_ring::Corrupt;
use weir_ring::account::Account;

/// Half of a ring: what one end of one kind of pipe does with the memory.
pub trait Ring: Sized + Debug + Send {
    /// Which half.
    const ROLE: Role;
    /// Of which kind of memory.
    const KIND: u32;
    /// What such an end can be asked to do.
    type Options: Default + AsRef<Habits>;

    /// Goes on where the memory says this end was.
    fn resume(map: &Map) -> std::result::Result<Self, Corrupt>;

    /// Says where this end is, before it is handed on or closed.
    fn leave(&mut self, map: &Map);

    /// Whether there is something to read; or so much room to write, or nobody to write for.
    fn is_ready(&mut self, end: &End, wanted: u64) -> Result<bool>;

    /// Says how much room is waited for.
    fn want(&mut self, end: &End, wanted: u64);
}

/// One end of a pipe: what [`crate::Reader`], [`crate::Writer`], [`crate::RecordReader`] and
/// [`crate::RecordWriter`] have in common. Dropping it closes the pipe.
///
/// An end may be sent to another thread, and is used by one at a time: it is `Send` and not `Sync`.
///
/// ```
/// use weir::{Options, Reader};
/// let (_writer, reader) = weir::pipe(&Options::new())?;
/// let handle = reader.into_handle()?;
/// let reader = Reader::open(handle)?;
/// assert_eq!(reader.account()?.bytes, 0);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct Endpoint<R: Ring> {
    pub(crate) end: End,
    pub(crate) ring: R,
}

impl<R: Ring> Endpoint<R> {
    pub(crate) fn over(end: End) -> Result<Endpoint<R>> {
        let ring = R::resume(&end.map).map_err(|c| corrupt(R::ROLE, c))?;
        Ok(Endpoint { end, ring })
    }

    /// Opens an end that was handed on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): the handle is of the other end, or this
    /// process has opened it. [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt): its memory is not
    /// what it must be.
    pub fn open(handle: Handle) -> Result<Endpoint<R>> {
        Endpoint::open_with(handle, &R::Options::default())
    }

    /// Opens an end that was handed on, with options.
    ///
    /// # Errors
    /// Those of [`Endpoint::open`].
    pub fn open_with(handle: Handle, options: &R::Options) -> Result<Endpoint<R>> {
        let (half, map) = handle.open_as(R::ROLE, R::KIND)?;
        let resolved = options.as_ref().resolve_over(&map)?;
        Endpoint::over(End::of(half, map, R::ROLE, &resolved)?)
    }

    /// Closes the end here without closing the pipe: it can be opened again, here or in another
    /// process.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn into_handle(mut self) -> Result<Handle> {
        let (end, ring) = self.parts()?;
        ring.leave(&end.map);
        end.hand_on()
    }

    /// Both parts, unless this is a forked child.
    #[inline]
    pub(crate) fn parts(&mut self) -> Result<(&mut End, &mut R)> {
        self.end.check_here()?;
        Ok((&mut self.end, &mut self.ring))
    }

    /// Whether there is something to read; or so much room to write, or nobody to write for.
    pub(crate) fn is_ready(&mut self, wanted: u64) -> Result<bool> {
        let (end, ring) = self.parts()?;
        ring.is_ready(end, wanted)
    }

    /// Returns the sizes of the pipe, as this end knows them.
    pub fn sizes(&self) -> Sizes {
        Sizes::of(self.end.shape)
    }

    /// Returns what the end has counted.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn account(&self) -> Result<Account> {
        self.end.check_here()?;
        Ok(self.end.account())
    }

    /// Returns a descriptor for poll(2) and epoll(7), made at the first call: readable until a `try_` call has answered
    /// [`crate::ErrorKind::WouldBlock`], and again once there is something to read, or room for a
    /// segment, or the other end is gone.
    ///
    /// # Errors
    /// The kernel has no descriptors.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.end.poll_descriptor()
    }

    /// Returns the descriptor of the memory, by which the pipe can be tuned from outside
    /// ([`crate::tune::ask`]). It cannot be polled.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn memory_descriptor(&self) -> Result<BorrowedFd<'_>> {
        self.end.memory()
    }
}

impl<R: Ring> Drop for Endpoint<R> {
    fn drop(&mut self) {
        if self.end.is_open() {
            self.ring.leave(&self.end.map);
            self.end.close();
        }
    }
}

/// Both ends of a new pipe, each with a mapping of its own.
pub fn both_ends<W: Ring, R: Ring>(options: &Options) -> Result<(Endpoint<W>, Endpoint<R>)> {
    let resolved = options.resolve()?;
    let Halves { writer, reader, map } = Halves::make(W::KIND, &resolved)?;
    let of_reader = open_kind(&reader.memory, R::KIND)?;
    of_reader.populate();
    let writer = Endpoint::over(End::of(writer, map, W::ROLE, &resolved)?)?;
    Ok((writer, Endpoint::over(End::of(reader, of_reader, R::ROLE, &resolved)?)?))
}
