//! weir's record pipe, with all by default.

use super::place::Place;
use super::{Direction, Line, Receiver, See, Sender, trouble};
use std::cell::RefCell;
use weir::{Handle, Options, RecordReader, RecordWriter};
use weir_measure::bench::case::Trouble;

struct Own {
    writer: RefCell<Option<Handle>>,
    reader: RefCell<Option<Handle>>,
    bytes: usize,
}

/// Made before the fork; each side opens one end and drops the other.
pub fn line(_: &Place, bytes: usize, _: Direction) -> Result<Box<dyn Line>, Trouble> {
    let (writer, reader) = Handle::record_pair(&Options::new()).map_err(trouble)?;
    let (writer, reader) = (RefCell::new(Some(writer)), RefCell::new(Some(reader)));
    Ok(Box::new(Own { writer, reader, bytes }))
}

fn used() -> Trouble {
    Trouble::failed("this side has no such end")
}

impl Line for Own {
    fn sender(&self) -> Result<Box<dyn Sender>, Trouble> {
        self.reader.take();
        let handle = self.writer.take().ok_or_else(used)?;
        Ok(Box::new(Sending(RecordWriter::open(handle).map_err(trouble)?)))
    }

    fn receiver(&self) -> Result<Box<dyn Receiver>, Trouble> {
        self.writer.take();
        let handle = self.reader.take().ok_or_else(used)?;
        let reader = RecordReader::open(handle).map_err(trouble)?;
        Ok(Box::new(Receiving { reader, buffer: vec![0; self.bytes] }))
    }
}

struct Sending(RecordWriter);

impl Sender for Sending {
    fn send(&mut self, record: &[u8]) -> Result<(), Trouble> {
        self.0.send(record).map_err(trouble)
    }
}

struct Receiving {
    reader: RecordReader,
    buffer: Vec<u8>,
}

impl Receiver for Receiving {
    fn receive(&mut self, see: &mut See) -> Result<u64, Trouble> {
        let mut seen = Ok(());
        let take = |record: &[u8]| {
            if seen.is_ok() {
                seen = see(record);
            }
        };
        match self.reader.receive_each(&mut self.buffer, take).map_err(trouble)? {
            0 => Err(Trouble::failed("the other side ended")),
            count => seen.map(|()| count as u64),
        }
    }
}
