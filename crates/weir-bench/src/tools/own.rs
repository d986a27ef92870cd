//! weir's own pipes behind the face of the kernel's: made before the fork, opened by each side.

use std::cell::RefCell;
use weir::{
    Handle, Options, Reader, ReaderOptions, RecordReader, RecordWriter, Waiting, Writer,
    WriterOptions,
};
use weir_measure::bench::case::Trouble;

/// What a pipe of weir is asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes it holds; 0 for the default.
    pub capacity_bytes: u64,
    /// Bytes of a segment; 0 for the default.
    pub segment_bytes: u64,
    /// How its ends wait.
    pub waiting: Waiting,
}

impl Shape {
    /// All by default.
    pub const DEFAULT: Shape =
        Shape { capacity_bytes: 0, segment_bytes: 0, waiting: Waiting::Adaptive };

    fn options(self) -> Options {
        let mut options = Options::new().waiting(self.waiting);
        if self.capacity_bytes > 0 {
            options = options.capacity_bytes(self.capacity_bytes);
        }
        if self.segment_bytes > 0 {
            options = options.segment_bytes(self.segment_bytes);
        }
        options
    }

    fn reader(self) -> ReaderOptions {
        ReaderOptions::new().waiting(self.waiting)
    }

    fn writer(self) -> WriterOptions {
        WriterOptions::new().waiting(self.waiting)
    }
}

/// What a process does with a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It sends to itself.
    Both,
    /// It only sends.
    Sends,
    /// It only receives.
    Receives,
}

/// An end that a side opens when it first uses it.
#[derive(Debug)]
enum End<T> {
    Closed(Handle),
    Open(T),
    Gone,
}

impl<T> End<T> {
    #[inline]
    fn open(&mut self, open: impl FnOnce(Handle) -> weir::Result<T>) -> Result<&mut T, Trouble> {
        if !matches!(self, End::Open(_)) {
            self.open_first(open)?;
        }
        match self {
            End::Open(end) => Ok(end),
            _ => Err(Trouble::failed("the other side has this end")),
        }
    }

    #[cold]
    fn open_first(&mut self, open: impl FnOnce(Handle) -> weir::Result<T>) -> Result<(), Trouble> {
        if let End::Closed(handle) = std::mem::replace(self, End::Gone) {
            *self = End::Open(open(handle).map_err(trouble)?);
        }
        Ok(())
    }
}

/// A pipe of weir, both ends.
#[derive(Debug)]
pub struct Own<W, R> {
    shape: Shape,
    writer: RefCell<End<W>>,
    reader: RefCell<End<R>>,
}

/// A stream.
pub type Stream = Own<Writer, Reader>;
/// A record pipe.
pub type Records = Own<RecordWriter, RecordReader>;

/// What the library refused, as trouble of a case.
pub fn trouble(error: weir::Error) -> Trouble {
    Trouble::failed(error.to_string())
}

impl<W, R> Own<W, R> {
    fn over(shape: Shape, writer: Handle, reader: Handle) -> Own<W, R> {
        let (writer, reader) = (End::Closed(writer), End::Closed(reader));
        Own { shape, writer: RefCell::new(writer), reader: RefCell::new(reader) }
    }

    /// Gives the end of the other side up, so that the other side's death is seen.
    pub fn only(&self, side: Side) {
        match side {
            Side::Both => {}
            Side::Sends => *self.reader.borrow_mut() = End::Gone,
            Side::Receives => *self.writer.borrow_mut() = End::Gone,
        }
    }
}

impl Stream {
    /// Makes one.
    ///
    /// # Errors
    /// A size is out of its range.
    pub fn new(shape: Shape) -> Result<Stream, Trouble> {
        let (writer, reader) = Handle::stream_pair(&shape.options()).map_err(trouble)?;
        Ok(Own::over(shape, writer, reader))
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// The reader is gone.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> Result<(), Trouble> {
        let mut end = self.writer.borrow_mut();
        let writer = end.open(|handle| Writer::open_with(handle, &self.shape.writer()))?;
        writer.write(bytes).map(drop).map_err(trouble)
    }

    /// Reads until the buffer is full: how much that was.
    ///
    /// # Errors
    /// The memory is corrupt.
    #[inline]
    pub fn receive(&self, bytes: &mut [u8]) -> Result<usize, Trouble> {
        let mut end = self.reader.borrow_mut();
        let reader = end.open(|handle| Reader::open_with(handle, &self.shape.reader()))?;
        let mut filled = 0;
        while filled < bytes.len() {
            match reader.read(&mut bytes[filled..]).map_err(trouble)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

impl Records {
    /// Makes one.
    ///
    /// # Errors
    /// A size is out of its range.
    pub fn new(shape: Shape) -> Result<Records, Trouble> {
        let (writer, reader) = Handle::record_pair(&shape.options()).map_err(trouble)?;
        Ok(Own::over(shape, writer, reader))
    }

    /// Sends a record.
    ///
    /// # Errors
    /// The reader is gone.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> Result<(), Trouble> {
        let mut end = self.writer.borrow_mut();
        let writer = end.open(|handle| RecordWriter::open_with(handle, &self.shape.writer()))?;
        writer.send(bytes).map_err(trouble)
    }

    /// Receives a record: its length, 0 at the end.
    ///
    /// # Errors
    /// The memory is corrupt, the buffer too small.
    #[inline]
    pub fn receive(&self, bytes: &mut [u8]) -> Result<usize, Trouble> {
        let mut end = self.reader.borrow_mut();
        let reader = end.open(|handle| RecordReader::open_with(handle, &self.shape.reader()))?;
        Ok(reader.receive(bytes).map_err(trouble)?.unwrap_or(0))
    }

    /// Receives a record and those that have followed it, each shown through the buffer: how many.
    ///
    /// # Errors
    /// The memory is corrupt, the buffer too small, the other side gone.
    #[inline]
    pub fn receive_each(&self, bytes: &mut [u8], see: impl FnMut(&[u8])) -> Result<u64, Trouble> {
        let mut end = self.reader.borrow_mut();
        let reader = end.open(|handle| RecordReader::open_with(handle, &self.shape.reader()))?;
        match reader.receive_each(bytes, see).map_err(trouble)? {
            0 => Err(Trouble::failed("the other side ended")),
            records => Ok(records as u64),
        }
    }

    /// Sends a record of so many bytes by loan: its place is reserved, its first and last bytes are
    /// written.
    ///
    /// # Errors
    /// The reader is gone.
    pub fn send_loan(&self, bytes: usize, mark: u8) -> Result<(), Trouble> {
        let mut end = self.writer.borrow_mut();
        let writer = end.open(|handle| RecordWriter::open_with(handle, &self.shape.writer()))?;
        let mut place = writer.reserve(bytes).map_err(trouble)?;
        let mut view = place.view().map_err(trouble)?;
        view.copy_from(0, &[mark]);
        view.copy_from(bytes - 1, &[!mark]);
        place.commit().map_err(trouble)
    }

    /// Receives a record by loan and checks its first and last bytes.
    ///
    /// # Errors
    /// They are others, or another number.
    pub fn receive_loan(&self, bytes: usize, mark: u8) -> Result<(), Trouble> {
        let mut end = self.reader.borrow_mut();
        let reader = end.open(|handle| RecordReader::open_with(handle, &self.shape.reader()))?;
        let ended = || Trouble::failed("the other side ended");
        let mut loan = reader.lend().map_err(trouble)?.ok_or_else(ended)?;
        let (mut first, mut last) = ([0], [0]);
        let right = loan.len() == bytes && {
            let view = loan.view().map_err(trouble)?;
            view.copy_to(0, &mut first);
            view.copy_to(bytes - 1, &mut last);
            (first, last) == ([mark], [!mark])
        };
        loan.consume().map_err(trouble)?;
        if right { Ok(()) } else { Err(Trouble::failed("a loan arrived with other bytes")) }
    }
}
