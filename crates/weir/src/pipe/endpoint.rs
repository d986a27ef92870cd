//! One end of a pipe, of either kind and role: an [`End`] and its half of the ring.

use super::connection::Role;
use super::end::End;
use super::handle::{Halves, Handle};
use super::options::Options;
use super::storage::{corrupt, open_kind};
use crate::error::Result;
use crate::memory::Map;
use rustix::fd::BorrowedFd;
use std::fmt::Debug;
use weir_policy::pipe::Shape;
use weir_ring::Corrupt;
use weir_ring::account::Account;

/// Half of a ring: what one end of one kind of pipe does with the memory.
pub trait Ring: Sized + Debug + Send {
    /// Which half.
    const ROLE: Role;
    /// Of which kind of memory.
    const KIND: u32;

    /// Goes on where the memory says this end was.
    fn resume(map: &Map) -> std::result::Result<Self, Corrupt>;

    /// Says where this end is, before it is handed on or closed.
    fn leave(&mut self, map: &Map);

    /// Whether there is something to read; or so much room to write, or nobody to write for.
    fn is_ready(&mut self, end: &End, wanted: u64) -> Result<bool>;

    /// Says how much room is waited for.
    fn want(&mut self, end: &End, wanted: u64);
}

/// One end of a pipe. Dropping it closes the pipe.
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

    /// Opens an end that was handed on. Of the options its waiting and its habits count.
    ///
    /// # Errors
    /// The handle is of the other end, or its memory is not what it must be.
    pub fn open(handle: Handle, options: &Options) -> Result<Endpoint<R>> {
        let (half, map) = handle.open_as(R::ROLE, R::KIND)?;
        let resolved = options.resolve_over(&map)?;
        Endpoint::over(End::of(half, map, R::ROLE, &resolved)?)
    }

    /// Hands the end on.
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

    /// Its sizes.
    pub fn shape(&self) -> Shape {
        self.end.shape
    }

    /// What the end has counted.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn account(&self) -> Result<Account> {
        self.end.check_here()?;
        Ok(self.end.account())
    }

    /// A descriptor for poll(2) and epoll(7): readable until a `try_` call has answered
    /// [`crate::ErrorKind::WouldBlock`], and again once there is something to read, or room for a
    /// segment, or the other end is gone.
    ///
    /// # Errors
    /// The kernel has no descriptors.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.end.poll_descriptor()
    }

    /// The memory, by which the pipe can be tuned from outside.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn memory(&self) -> Result<BorrowedFd<'_>> {
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
