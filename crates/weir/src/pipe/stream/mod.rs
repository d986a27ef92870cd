//! Streams of bytes: [`pipe`] makes a [`Writer`] and a [`Reader`].
//!
//! ```
//! let (mut writer, mut reader) = weir::pipe(&weir::Options::new())?;
//! writer.write(b"hello")?;
//! let mut buffer = [0; 16];
//! assert_eq!(reader.read(&mut buffer)?, 5);
//! drop(writer);
//! assert_eq!(reader.read(&mut buffer)?, 0);
//! # Ok::<(), weir::Error>(())
//! ```

mod reader;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

use crate::connect::passing;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{self, Map, Use};
use crate::pipe::connection::Role;
use crate::pipe::end::End;
use crate::pipe::handle::Halves;
use crate::pipe::options::Options;
use std::sync::Arc;
use weir_ring::Corrupt;
use weir_ring::layout::{self, STREAM};
use weir_sys::forks::ParentOnly;

/// Makes a stream; both ends are in this process until one is handed on.
///
/// # Errors
/// A size is out of its range; the kernel has no memory or descriptors.
pub fn pipe(options: &Options) -> Result<(Writer, Reader)> {
    let (writer, reader) = both_ends(STREAM, options)?;
    Ok((Writer::over(writer)?, Reader::over(reader)?))
}

/// Both ends of a new pipe, each with a mapping of its own.
pub(crate) fn both_ends(kind: u32, options: &Options) -> Result<(End, End)> {
    let resolved = options.resolve()?;
    let Halves { writer, reader, map } = Halves::make(kind, &resolved)?;
    let of_reader = open_kind(&reader.memory, kind)?;
    of_reader.populate();
    let writer = End::of(writer, map, Role::Writer, &resolved)?;
    Ok((writer, End::of(reader, of_reader, Role::Reader, &resolved)?))
}

pub(crate) fn copy_of(file: &ParentOnly) -> Result<ParentOnly> {
    file.here().and_then(passing::copy_of).map_err(|cause| Error::os("copy", "memory", cause))
}

/// Opens received memory of a kind, as it is opened by that kind's ends.
pub(crate) fn open_kind(file: &ParentOnly, kind: u32) -> Result<Arc<Map>> {
    let file = file.here().map_err(|cause| Error::os("open", "memory", cause))?;
    // A writer's end of a port stays where it is, and so does its reader's.
    let how = if kind == layout::MESSAGE { Use::ForGood } else { Use::Movable };
    let map = memory::open(file, how)?;
    if map.extent().kind != kind {
        let what = if kind == layout::STREAM { "a stream" } else { "a record pipe" };
        return Err(Error::new(ErrorKind::Invalid, "open", what, "the memory is the other kind"));
    }
    Ok(Arc::new(map))
}

pub(crate) fn corrupt(role: Role, corrupt: Corrupt) -> Error {
    let operation = if role == Role::Writer { "write to" } else { "read from" };
    let reason = format!("{} is invalid", corrupt.0);
    Error::new(ErrorKind::Corrupt, operation, "the pipe", reason)
}
