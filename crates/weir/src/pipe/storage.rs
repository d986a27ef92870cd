//! Making and opening the memory of a pipe, and the errors about it.

use super::connection::Role;
use super::defaults::out_of_range;
use super::options::Resolved;
use crate::connect::passing;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{self, Extent, HeaderPage, Map, Use};
use std::sync::Arc;
use weir_policy::pipe::PipeShape;
use weir_ring::account::Account;
use weir_ring::layout::{self, PipeHeader};
use weir_ring::primitive::Ordering;
use weir_ring::{Corrupt, RingMemory};
use weir_sys::forks::ParentOnly;

pub fn make_memory(kind: u32, resolved: &Resolved) -> Result<(ParentOnly, Arc<Map>)> {
    let capacity = resolved.shape.capacity_bytes();
    let arena_bytes = if kind == layout::STREAM { 0 } else { capacity };
    let (file, map) =
        memory::create(Extent { kind, ring_bytes: capacity, arena_bytes, generation: 0 })?;
    publish_shape(map.header(), resolved.shape);
    Ok((file, Arc::new(map)))
}

/// Opens received memory, which must be of this kind.
pub fn open_kind(file: &ParentOnly, kind: u32) -> Result<Arc<Map>> {
    // The ends of a port's rings are never handed on.
    let (how, what) = match kind {
        layout::STREAM => (Use::Movable, "a stream"),
        layout::MESSAGE => (Use::ForGood, "a ring of a port"),
        _ => (Use::Movable, "a record pipe"),
    };
    let map = open_any(file, how)?;
    if map.extent().kind != kind {
        return Err(Error::new(ErrorKind::Invalid, "open", what, "the memory is of another kind"));
    }
    Ok(Arc::new(map))
}

fn open_any(file: &ParentOnly, how: Use) -> Result<Map> {
    memory::open(file.here().map_err(|cause| Error::os("open", "memory", cause))?, how)
}

/// Opens received memory for the reader of this one. It must be of the same kind, and the next
/// generation.
pub fn open_next(file: &ParentOnly, this: &Map) -> Result<(Arc<Map>, PipeShape)> {
    let map = open_any(file, Use::Movable)?;
    if !follows(map.extent(), this) {
        return Err(not_next("its new memory does not follow the present one"));
    }
    let shape = PipeShape::new(memory::page_bytes(), map.extent().ring_bytes, None, None);
    Ok((Arc::new(map), shape.map_err(out_of_range)?))
}

fn follows(next: Extent, this: &Map) -> bool {
    let this = this.extent();
    next.kind == this.kind && next.generation == this.generation + 1
}

/// Copies what the reader of this memory has counted to the next one, which it does not map.
/// Returns false if that is not the next one.
pub fn copy_account(file: &ParentOnly, this: &Map) -> bool {
    in_next(file, this, |next| {
        Account::read(&this.header().reader_account).write(&next.reader_account);
    })
}

/// Publishes in the memory that follows this one that its reader has closed.
pub fn close_in(file: &ParentOnly, this: &Map) {
    in_next(file, this, |next| Role::Reader.close(next));
}

/// Writes into the header of the memory that follows this one. Returns false if it does not follow.
fn in_next(file: &ParentOnly, this: &Map, write: impl FnOnce(&PipeHeader)) -> bool {
    let Some(file) = file.get() else { return false };
    if !memory::inspect(file).is_ok_and(|next| follows(next, this)) {
        return false;
    }
    if let Ok(page) = HeaderPage::to_write(file) {
        write(page.header());
    }
    true
}

/// The error of a reader that cannot continue in the memory that its writer sent.
pub fn not_next(why: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, "read from", "the pipe", why)
}

pub fn copy_of(file: &ParentOnly) -> Result<ParentOnly> {
    file.here().and_then(passing::copy_of).map_err(|cause| Error::os("copy", "memory", cause))
}

/// Publishes the sizes for `weir stat` and `weir tune`, as one more change.
pub fn publish_shape(header: &PipeHeader, shape: PipeShape) {
    let tuning = &header.tuning;
    tuning.capacity_bytes.store(shape.capacity_bytes(), Ordering::Relaxed);
    tuning.segment_bytes.store(shape.segment_bytes(), Ordering::Relaxed);
    tuning.atomic_bytes.store(shape.atomic_bytes(), Ordering::Relaxed);
    // Release: pairs with the Acquire in `Tuning::take_up`.
    tuning.change.fetch_add(1, Ordering::Release);
}

/// The error of an end that found an impossible value in its memory.
#[cold]
pub fn corrupt(role: Role, corrupt: Corrupt) -> Error {
    let why = format!("{} is invalid", corrupt.0);
    Error::new(ErrorKind::Corrupt, role.operation(), "the pipe", why)
}
