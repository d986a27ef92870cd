//! weir's record pipe.

use super::place::Place;
use super::{Direction, Line, Receiver, See, Sender};
use std::rc::Rc;
use weir_bench::tools::own::{Records, Shape};
use weir_measure::bench::case::Trouble;

struct Own {
    records: Rc<Records>,
    bytes: usize,
}

/// A record pipe with all by default.
pub fn line(_: &Place, bytes: usize, _: Direction) -> Result<Box<dyn Line>, Trouble> {
    Ok(Box::new(Own { records: Rc::new(Records::new(Shape::DEFAULT)?), bytes }))
}

impl Line for Own {
    fn sender(&self) -> Result<Box<dyn Sender>, Trouble> {
        self.records.only_send();
        Ok(Box::new(End { records: Rc::clone(&self.records), buffer: Vec::new() }))
    }

    fn receiver(&self) -> Result<Box<dyn Receiver>, Trouble> {
        self.records.only_receive();
        Ok(Box::new(End { records: Rc::clone(&self.records), buffer: vec![0; self.bytes] }))
    }
}

struct End {
    records: Rc<Records>,
    buffer: Vec<u8>,
}

impl Sender for End {
    fn send(&mut self, record: &[u8]) -> Result<(), Trouble> {
        self.records.send(record)
    }
}

impl Receiver for End {
    fn receive(&mut self, see: &mut See) -> Result<u64, Trouble> {
        let mut seen = Ok(());
        let count = self.records.receive_each(&mut self.buffer, |record| {
            if seen.is_ok() {
                seen = see(record);
            }
        })?;
        seen.map(|()| count)
    }
}
