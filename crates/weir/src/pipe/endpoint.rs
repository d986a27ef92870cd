//! One end of a pipe, of either kind and role: an [`End`] with its half of the ring protocol.

use super::connection::Role;
use super::defaults::Sizes;
use super::end::End;
use super::handle::{Halves, Handle};
use super::options::{EndOptions, Options};
use super::storage::{corrupt, open_kind};
use crate::connect::peer::Ending;
use crate::error::Result;
use crate::memory::Map;
use rustix::fd::BorrowedFd;
use std::fmt::Debug;
use weir_ring::Corrupt;
use weir_ring::account::Account;

/// Half of the ring protocol: what one end of one kind of pipe does with the memory.
pub trait Ring: Sized + Debug + Send {
    const ROLE: Role;
    const KIND: u32;
    type Options: Default + AsRef<EndOptions>;

    /// Continues at the position that the memory records.
    fn resume(map: &Map) -> std::result::Result<Self, Corrupt>;

    /// Records the position, before the end is handed on or closed.
    fn leave(&mut self, _: &Map) {}

    /// Whether a reader has taken all from this memory, and may continue in the next one if that
    /// came.
    fn has_drained(&mut self, _: &Map) -> bool {
        false
    }

    /// Moves a reader to the next memory, if there is one and this is drained.
    fn move_to_next_memory(_: &mut Endpoint<Self>) -> Result<()> {
        Ok(())
    }

    /// Whether a reader has something to read, or a writer has that much room or no reader.
    fn is_ready(&mut self, end: &mut End, wanted: u64) -> Result<bool>;

    /// Publishes how much room a writer waits for.
    fn want(&mut self, _: &End, _: u64) {}
}

/// One end of a pipe: the type of [`crate::Reader`], [`crate::Writer`], [`crate::RecordReader`] and
/// [`crate::RecordWriter`]. Dropping it closes the pipe.
///
/// An end may be sent to another thread, and one thread at a time uses it: it is not `Sync`.
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
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): the handle is of the other end or of
    /// another kind of pipe, or this process has opened this end already.
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt): its memory is not that of a pipe, or its
    /// socket is not a connection. The handle is closed then.
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

    /// Turns the end into a handle without closing the pipe. Any process can open it again.
    ///
    /// # Errors
    /// This is a forked child, and the end is its parent's.
    pub fn into_handle(mut self) -> Result<Handle> {
        let (end, ring) = self.parts()?;
        ring.leave(&end.map);
        let has_drained = ring.has_drained(&end.map);
        end.hand_on(has_drained)
    }

    /// Both parts. Fails in a forked child.
    #[inline]
    pub(crate) fn parts(&mut self) -> Result<(&mut End, &mut R)> {
        self.end.check_here()?;
        Ok((&mut self.end, &mut self.ring))
    }

    pub(crate) fn is_ready(&mut self, wanted: u64) -> Result<bool> {
        let (end, ring) = self.parts()?;
        ring.is_ready(end, wanted)
    }

    /// Returns the sizes of the pipe, as this end knows them.
    pub fn sizes(&self) -> Sizes {
        self.end.shape.sizes()
    }

    /// Returns the account of the end.
    ///
    /// # Errors
    /// This is a forked child, and the end is its parent's.
    pub fn account(&self) -> Result<Account> {
        self.end.check_here()?;
        Ok(self.end.account())
    }

    /// Returns how the other end has ended: [`Ending::Closed`] if it was dropped, [`Ending::Died`] if
    /// its process died with it, [`Ending::ShutOut`] if it sent what no end sends. `None` while it
    /// is there. Known at the latest when a call has found that the other end is gone.
    ///
    /// ```
    /// use weir::Ending;
    /// let (writer, mut reader) = weir::records(&weir::Options::new())?;
    /// assert_eq!(reader.ending()?, None);
    /// drop(writer);
    /// assert_eq!(reader.receive(&mut [0; 64])?, None);
    /// assert_eq!(reader.ending()?, Some(Ending::Closed));
    /// # Ok::<(), weir::Error>(())
    /// ```
    ///
    /// # Errors
    /// This is a forked child, and the end is its parent's.
    pub fn ending(&self) -> Result<Option<Ending>> {
        self.end.check_here()?;
        Ok(self.end.ending())
    }

    /// Returns a descriptor for poll(2) and epoll(7), which the first call makes. It is readable
    /// until a `try_` call has returned [`crate::ErrorKind::WouldBlock`], and again once there is
    /// something to read, or room for a segment, or the other end is gone.
    ///
    /// [`crate::Pollable`] holds an end together with this descriptor, for code that wants `AsFd`.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.end.poll_descriptor()
    }

    /// Returns the descriptor of the memory, with which another process can tune the pipe
    /// ([`crate::tune::ask`]). It cannot be polled.
    ///
    /// # Errors
    /// This is a forked child, and the end is its parent's.
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

/// Makes both ends of a pipe, each with a mapping of its own.
pub fn both_ends<W: Ring, R: Ring>(options: &Options) -> Result<(Endpoint<W>, Endpoint<R>)> {
    let resolved = options.resolve()?;
    let Halves { writer, reader, map } = Halves::make(W::KIND, &resolved)?;
    let of_reader = open_kind(&reader.memory, R::KIND)?;
    of_reader.populate();
    let writer = Endpoint::over(End::of(writer, map, W::ROLE, &resolved)?)?;
    Ok((writer, Endpoint::over(End::of(reader, of_reader, R::ROLE, &resolved)?)?))
}
