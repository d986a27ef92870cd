//! weir's pipes: made before the fork, each end opened by the side that uses it.

use crate::engine::case::CaseError;
use std::cell::RefCell;
use weir::{
    Handle, Options, Reader, ReaderOptions, RecordReader, RecordWriter, Waiting, Writer,
    WriterOptions,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeSettings {
    /// The capacity in bytes; 0 for the default.
    pub capacity_bytes: u64,
    /// The bytes of a segment; 0 for the default.
    pub segment_bytes: u64,
    pub waiting: Waiting,
}

impl PipeSettings {
    pub const DEFAULT: PipeSettings =
        PipeSettings { capacity_bytes: 0, segment_bytes: 0, waiting: Waiting::Adaptive };

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
pub enum ChannelSide {
    /// It sends to itself.
    Both,
    /// It only sends.
    Sends,
    /// It only receives.
    Receives,
}

/// An end that is opened when it is first used.
#[derive(Debug)]
enum LazyEnd<T> {
    Closed(Handle),
    Open(T),
    Gone,
}

impl<T> LazyEnd<T> {
    #[inline]
    fn open(&mut self, open: impl FnOnce(Handle) -> weir::Result<T>) -> Result<&mut T, CaseError> {
        if !matches!(self, LazyEnd::Open(_)) {
            self.open_first(open)?;
        }
        match self {
            LazyEnd::Open(end) => Ok(end),
            _ => Err(CaseError::failed("this end belongs to the other side")),
        }
    }

    #[cold]
    fn open_first(
        &mut self,
        open: impl FnOnce(Handle) -> weir::Result<T>,
    ) -> Result<(), CaseError> {
        if let LazyEnd::Closed(handle) = std::mem::replace(self, LazyEnd::Gone) {
            *self = LazyEnd::Open(open(handle).map_err(trouble)?);
        }
        Ok(())
    }
}

#[derive(Debug)]
pub struct OwnPipe<W, R> {
    shape: PipeSettings,
    writer: RefCell<LazyEnd<W>>,
    reader: RefCell<LazyEnd<R>>,
}

pub type OwnStream = OwnPipe<Writer, Reader>;
pub type Records = OwnPipe<RecordWriter, RecordReader>;

/// Turns an error of the library into one of a case.
pub fn trouble(error: weir::Error) -> CaseError {
    CaseError::failed(error.to_string())
}

impl<W, R> OwnPipe<W, R> {
    fn over(shape: PipeSettings, writer: Handle, reader: Handle) -> OwnPipe<W, R> {
        let (writer, reader) = (LazyEnd::Closed(writer), LazyEnd::Closed(reader));
        OwnPipe { shape, writer: RefCell::new(writer), reader: RefCell::new(reader) }
    }

    /// Drops the end of the other side, so that the other side's death is seen.
    pub fn only(&self, side: ChannelSide) {
        match side {
            ChannelSide::Both => {}
            ChannelSide::Sends => *self.reader.borrow_mut() = LazyEnd::Gone,
            ChannelSide::Receives => *self.writer.borrow_mut() = LazyEnd::Gone,
        }
    }
}

impl OwnStream {
    pub fn new(shape: PipeSettings) -> Result<OwnStream, CaseError> {
        let (writer, reader) = Handle::stream_pair(&shape.options()).map_err(trouble)?;
        Ok(OwnPipe::over(shape, writer, reader))
    }

    #[inline]
    pub fn send(&self, bytes: &[u8]) -> Result<(), CaseError> {
        let mut end = self.writer.borrow_mut();
        let writer = end.open(|handle| Writer::open_with(handle, &self.shape.writer()))?;
        writer.write(bytes).map(drop).map_err(trouble)
    }

    /// Reads until the buffer is full or the stream ends. Returns the number of bytes.
    #[inline]
    pub fn receive(&self, bytes: &mut [u8]) -> Result<usize, CaseError> {
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

    /// Reads what is there, at least one byte. Returns the number of bytes, 0 at the end.
    #[inline]
    pub fn receive_some(&self, bytes: &mut [u8]) -> Result<usize, CaseError> {
        let mut end = self.reader.borrow_mut();
        let reader = end.open(|handle| Reader::open_with(handle, &self.shape.reader()))?;
        reader.read(bytes).map_err(trouble)
    }
}

impl Records {
    pub fn new(shape: PipeSettings) -> Result<Records, CaseError> {
        let (writer, reader) = Handle::record_pair(&shape.options()).map_err(trouble)?;
        Ok(OwnPipe::over(shape, writer, reader))
    }

    #[inline]
    pub fn send(&self, bytes: &[u8]) -> Result<(), CaseError> {
        let mut end = self.writer.borrow_mut();
        let writer = end.open(|handle| RecordWriter::open_with(handle, &self.shape.writer()))?;
        writer.send(bytes).map_err(trouble)
    }

    /// Receives a record and returns its length, 0 at the end.
    #[inline]
    pub fn receive(&self, bytes: &mut [u8]) -> Result<usize, CaseError> {
        let mut end = self.reader.borrow_mut();
        let reader = end.open(|handle| RecordReader::open_with(handle, &self.shape.reader()))?;
        Ok(reader.receive(bytes).map_err(trouble)?.unwrap_or(0))
    }

    /// Receives a record and those that already follow it, and shows each through the buffer.
    /// Returns how many.
    #[inline]
    pub fn receive_each(&self, bytes: &mut [u8], see: impl FnMut(&[u8])) -> Result<u64, CaseError> {
        let mut end = self.reader.borrow_mut();
        let reader = end.open(|handle| RecordReader::open_with(handle, &self.shape.reader()))?;
        match reader.receive_each(bytes, see).map_err(trouble)? {
            0 => Err(CaseError::failed("the other side ended")),
            records => Ok(records as u64),
        }
    }

    /// Sends a record of `bytes` bytes by loan: reserves its place and writes its first and last
    /// byte.
    pub fn send_loan(&self, bytes: usize, mark: u8) -> Result<(), CaseError> {
        let mut end = self.writer.borrow_mut();
        let writer = end.open(|handle| RecordWriter::open_with(handle, &self.shape.writer()))?;
        let mut place = writer.reserve(bytes).map_err(trouble)?;
        let mut view = place.view().map_err(trouble)?;
        view.copy_from(0, &[mark]);
        view.copy_from(bytes - 1, &[!mark]);
        place.commit().map_err(trouble)
    }

    /// Receives a record by loan and checks its length, first and last byte.
    pub fn receive_loan(&self, bytes: usize, mark: u8) -> Result<(), CaseError> {
        let mut end = self.reader.borrow_mut();
        let reader = end.open(|handle| RecordReader::open_with(handle, &self.shape.reader()))?;
        let ended = || CaseError::failed("the other side ended");
        let mut loan = reader.lend().map_err(trouble)?.ok_or_else(ended)?;
        let (mut first, mut last) = ([0], [0]);
        let right = loan.len() == bytes && {
            let view = loan.view().map_err(trouble)?;
            view.copy_to(0, &mut first);
            view.copy_to(bytes - 1, &mut last);
            (first, last) == ([mark], [!mark])
        };
        loan.consume().map_err(trouble)?;
        if right { Ok(()) } else { Err(CaseError::failed("a loan arrived with wrong bytes")) }
    }
}
