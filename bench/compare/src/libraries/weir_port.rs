//! weir's port, with all by default.

use super::place::Place;
use super::{Direction, Line, Receiver, See, Sender, trouble};
use std::path::PathBuf;
use std::time::Duration;
use weir::{Event, Port, PortOptions, PortWriter, PortWriterOptions, Received, Timeout};
use weir_measure::bench::case::Trouble;

const PATIENCE: Duration = Duration::from_secs(10);

struct Named {
    path: PathBuf,
    bytes: usize,
}

/// A name in a directory of its own.
pub fn line(place: &Place, bytes: usize, _: Direction) -> Result<Box<dyn Line>, Trouble> {
    let directory = place.directory();
    std::fs::create_dir(&directory)?;
    Ok(Box::new(Named { path: directory.join("port"), bytes }))
}

impl Line for Named {
    fn sender(&self) -> Result<Box<dyn Sender>, Trouble> {
        let options = PortWriterOptions::new().connect_timeout(PATIENCE);
        Ok(Box::new(Sending(PortWriter::connect(&self.path, &options).map_err(trouble)?)))
    }

    fn receiver(&self) -> Result<Box<dyn Receiver>, Trouble> {
        let port = Port::create(&self.path, &PortOptions::new()).map_err(trouble)?;
        Ok(Box::new(Receiving { port, buffer: vec![0; self.bytes] }))
    }
}

struct Sending(PortWriter);

impl Sender for Sending {
    fn send(&mut self, record: &[u8]) -> Result<(), Trouble> {
        self.0.send(record).map_err(trouble)
    }
}

struct Receiving {
    port: Port,
    buffer: Vec<u8>,
}

impl Receiver for Receiving {
    fn receive(&mut self, see: &mut See) -> Result<u64, Trouble> {
        let mut seen = Ok(());
        let take = |received: Received, record: &[u8]| {
            if seen.is_ok() {
                seen = match received.event {
                    Event::Message { .. } => see(record),
                    _ => Err(Trouble::failed("a writer ended")),
                };
            }
        };
        let received = self.port.receive_each_timeout(&mut self.buffer, Timeout::Never, take);
        let count = received.map_err(trouble)?;
        seen.map(|()| count as u64)
    }
}
