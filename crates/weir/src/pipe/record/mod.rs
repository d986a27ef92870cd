//! Records: [`records`] makes a [`RecordWriter`] and a [`RecordReader`].
//!
//! ```
//! let (mut writer, mut reader) = weir::records(&weir::Options::new())?;
//! writer.send(b"one")?;
//! writer.send(b"another")?;
//! let mut buffer = [0; 16];
//! assert_eq!(reader.receive(&mut buffer)?, Some(3));
//! assert_eq!(reader.receive(&mut buffer)?, Some(7));
//! drop(writer);
//! assert_eq!(reader.receive(&mut buffer)?, None);
//! # Ok::<(), weir::Error>(())
//! ```
//!
//! Large records need not be copied: [`RecordWriter::reserve`] lends their place to the writer,
//! [`RecordReader::lend`] to the reader.

mod reader;
mod writer;

pub(crate) use reader::give_back;
pub use reader::{Loan, RecordReader};
pub use writer::{RecordWriter, Reservation};

use crate::error::Result;
use crate::pipe::endpoint::both_ends;
use crate::pipe::options::Options;

/// Makes a record pipe; both ends are in this process until one is handed on.
///
/// # Errors
/// A size is out of its range; the kernel has no memory or descriptors.
pub fn records(options: &Options) -> Result<(RecordWriter, RecordReader)> {
    both_ends(options)
}
