//! Pipes of bytes: [`pipe`] makes a [`Writer`] and a [`Reader`].

mod reader;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

use crate::error::Result;
use crate::pipe::endpoint::both_ends;
use crate::pipe::options::Options;

/// Makes a pipe of bytes. Both ends are in this process until one is handed on.
///
/// ```
/// let (mut writer, mut reader) = weir::pipe(&weir::Options::new())?;
/// writer.write(b"hello")?;
/// let mut buffer = [0; 16];
/// assert_eq!(reader.read(&mut buffer)?, 5);
/// drop(writer);
/// assert_eq!(reader.read(&mut buffer)?, 0);
/// # Ok::<(), weir::Error>(())
/// ```
///
/// # Errors
/// A size is out of its range; the kernel has no memory or descriptors left.
pub fn pipe(options: &Options) -> Result<(Writer, Reader)> {
    both_ends(options)
}
