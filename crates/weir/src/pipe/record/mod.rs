//! Pipes of records: [`records`] makes a [`RecordWriter`] and a [`RecordReader`].

mod reader;
mod writer;

pub use reader::{Loan, RecordReader};
pub(crate) use reader::{give_back, settle};
pub use writer::{RecordWriter, Reservation};

use crate::error::Result;
use crate::pipe::endpoint::both_ends;
use crate::pipe::options::Options;

/// Makes a pipe of records. Both ends are in this process until one is handed on.
///
/// Large records need not be copied: [`RecordWriter::reserve`] lends their place to the writer, and
/// [`RecordReader::lend`] to the reader.
///
/// ```
/// let (mut writer, mut reader) = weir::records(&weir::Options::new())?;
/// std::thread::spawn(move || writer.send(b"one record"));
/// let mut buffer = [0; 64];
/// assert_eq!(reader.receive(&mut buffer)?, Some(10));
/// # Ok::<(), weir::Error>(())
/// ```
///
/// # Errors
/// A size is out of its range; the kernel has no memory or descriptors left.
pub fn records(options: &Options) -> Result<(RecordWriter, RecordReader)> {
    both_ends(options)
}
