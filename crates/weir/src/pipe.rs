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

use crate::error::{Error, ErrorKind, Result};
use crate::handle::Handle;
use crate::life::Role;
use crate::map::{self, Map};
use crate::options::Options;
use crate::ring::Corrupt;
use crate::ring::layout;
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Makes a stream; both ends are in this process until one is handed on.
///
/// # Errors
/// A size is out of its range; the kernel has no memory or descriptors.
pub fn pipe(options: &Options) -> Result<(Writer, Reader)> {
    let (writer, reader) = Handle::stream_pair(options)?;
    Ok((Writer::open(writer, options)?, Reader::open(reader, options)?))
}

pub(crate) fn copy_of(file: &OwnedFd) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(file, 3).map_err(|cause| Error::os("copy", "memory", cause))
}

/// Opens received memory of a kind.
pub(crate) fn open_kind(file: &OwnedFd, kind: u32) -> Result<Arc<Map>> {
    let map = map::open(file.as_fd())?;
    if map.extent().kind != kind {
        let what = if kind == layout::STREAM { "a stream" } else { "a record pipe" };
        return Err(Error::new(ErrorKind::Invalid, "open", what, "the memory is the other kind"));
    }
    Ok(Arc::new(map))
}

pub(crate) fn corrupt(role: Role, corrupt: Corrupt) -> Error {
    let operation = if role == Role::Writer { "write to" } else { "read from" };
    let reason = format!("{} cannot be", corrupt.0);
    Error::new(ErrorKind::Corrupt, operation, "the pipe", reason)
}
