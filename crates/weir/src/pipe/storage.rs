//! Making and opening the memory of a pipe, and the errors about it.

use super::connection::Role;
use super::defaults::out_of_range;
use super::options::Resolved;
use crate::connect::passing;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{self, Extent, Map, Use};
use std::sync::Arc;
use weir_policy::pipe::PipeShape;
use weir_ring::layout::{self, PipeHeader};
use weir_ring::primitive::Ordering;
use weir_ring::{Corrupt, RingMemory};
use weir_sys::forks::ParentOnly;

pub fn make_memory(kind: u32, resolved: &Resolved) -> Result<(ParentOnly, Arc<Map>)> {
    let capacity = resolved.shape.capacity_bytes();
    let arena_bytes = if kind == layout::STREAM { 0 } else { capacity };
    let (file, map) =
        memory::create(Extent { kind, ring_bytes: capacity, arena_bytes, generation: 0 })?;
    say_shape(map.header(), resolved.shape);
    Ok((file, Arc::new(map)))
}

/// Opens received memory, which must be of this kind.
pub fn open_kind(file: &ParentOnly, kind: u32) -> Result<Arc<Map>> {
    let file = file.here().map_err(|cause| Error::os("open", "memory", cause))?;
    // The ends of a port's rings are never handed on.
    let how = if kind == layout::MESSAGE { Use::ForGood } else { Use::Movable };
    let map = memory::open(file, how)?;
    if map.extent().kind != kind {
        let what = if kind == layout::STREAM { "a stream" } else { "a record pipe" };
        return Err(Error::new(ErrorKind::Invalid, "open", what, "the memory is of another kind"));
    }
    Ok(Arc::new(map))
}

/// Opens received memory for the reader of this one, which is of this kind. It must be the next
/// generation.
pub fn open_next(file: &ParentOnly, kind: u32, this: &Map) -> Result<(Arc<Map>, PipeShape)> {
    let map = open_kind(file, kind)?;
    if map.extent().generation != this.extent().generation + 1 {
        let why = "its new memory does not follow the present one";
        return Err(Error::new(ErrorKind::Corrupt, "read from", "the pipe", why));
    }
    let shape = PipeShape::new(memory::page_bytes(), map.extent().ring_bytes, None, None);
    Ok((map, shape.map_err(out_of_range)?))
}

pub fn copy_of(file: &ParentOnly) -> Result<ParentOnly> {
    file.here().and_then(passing::copy_of).map_err(|cause| Error::os("copy", "memory", cause))
}

/// Publishes the sizes for `weir stat` and `weir tune`.
pub fn say_shape(header: &PipeHeader, shape: PipeShape) {
    let tuning = &header.tuning;
    tuning.capacity_bytes.store(shape.capacity_bytes(), Ordering::Relaxed);
    tuning.segment_bytes.store(shape.segment_bytes(), Ordering::Relaxed);
    tuning.atomic_bytes.store(shape.atomic_bytes(), Ordering::Relaxed);
    // Release: pairs with the Acquire in `Tuning::take_up`.
    tuning.change.store(1, Ordering::Release);
}

/// The error of an end that found an impossible value in its memory.
#[cold]
pub fn corrupt(role: Role, corrupt: Corrupt) -> Error {
    let why = format!("{} is invalid", corrupt.0);
    Error::new(ErrorKind::Corrupt, role.operation(), "the pipe", why)
}
