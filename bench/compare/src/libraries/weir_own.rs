//! weir's record pipe with its defaults.

use super::place::UniqueName;
use super::{LibraryLine, RecordFlow, RecordReceiver, RecordSender, See, trouble};
use std::cell::RefCell;
use weir::{Handle, Options, RecordReader, RecordWriter};
use weir_bench::engine::case::CaseError;

struct RecordPipe {
    writer: RefCell<Option<Handle>>,
    reader: RefCell<Option<Handle>>,
    bytes: usize,
}

/// Makes a pipe before the fork; each side opens one end and drops the other.
pub fn line(
    _: &UniqueName,
    bytes: usize,
    _: RecordFlow,
) -> Result<Box<dyn LibraryLine>, CaseError> {
    let (writer, reader) = Handle::record_pair(&Options::new()).map_err(trouble)?;
    let (writer, reader) = (RefCell::new(Some(writer)), RefCell::new(Some(reader)));
    Ok(Box::new(RecordPipe { writer, reader, bytes }))
}

fn used() -> CaseError {
    CaseError::failed("this side has no such end")
}

impl LibraryLine for RecordPipe {
    fn sender(&self) -> Result<Box<dyn RecordSender>, CaseError> {
        self.reader.take();
        let handle = self.writer.take().ok_or_else(used)?;
        Ok(Box::new(RecordPipeSender(RecordWriter::open(handle).map_err(trouble)?)))
    }

    fn receiver(&self) -> Result<Box<dyn RecordReceiver>, CaseError> {
        self.writer.take();
        let handle = self.reader.take().ok_or_else(used)?;
        let reader = RecordReader::open(handle).map_err(trouble)?;
        Ok(Box::new(RecordPipeReceiver { reader, buffer: vec![0; self.bytes] }))
    }
}

struct RecordPipeSender(RecordWriter);

impl RecordSender for RecordPipeSender {
    fn send(&mut self, record: &[u8]) -> Result<(), CaseError> {
        self.0.send(record).map_err(trouble)
    }
}

struct RecordPipeReceiver {
    reader: RecordReader,
    buffer: Vec<u8>,
}

impl RecordReceiver for RecordPipeReceiver {
    fn receive(&mut self, see: &mut See) -> Result<u64, CaseError> {
        let mut seen = Ok(());
        let take = |record: &[u8]| {
            if seen.is_ok() {
                seen = see(record);
            }
        };
        match self.reader.receive_each(&mut self.buffer, take).map_err(trouble)? {
            0 => Err(CaseError::failed("the other side ended")),
            count => seen.map(|()| count as u64),
        }
    }
}
