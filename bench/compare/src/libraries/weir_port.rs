//! weir's port with its defaults.

use super::place::UniqueName;
use super::{LibraryLine, RecordFlow, RecordReceiver, RecordSender, See, trouble};
use std::path::PathBuf;
use std::time::Duration;
use weir::{Event, Port, PortOptions, PortWriter, PortWriterOptions, Received, Timeout};
use weir_bench::engine::case::CaseError;

const PATIENCE: Duration = Duration::from_secs(10);

struct Named {
    path: PathBuf,
    bytes: usize,
}

/// Makes a name in a directory of its own.
pub fn line(
    place: &UniqueName,
    bytes: usize,
    _: RecordFlow,
) -> Result<Box<dyn LibraryLine>, CaseError> {
    let directory = place.directory();
    std::fs::create_dir(&directory)?;
    Ok(Box::new(Named { path: directory.join("port"), bytes }))
}

impl LibraryLine for Named {
    fn sender(&self) -> Result<Box<dyn RecordSender>, CaseError> {
        let options = PortWriterOptions::new().connect_timeout(PATIENCE);
        Ok(Box::new(PortSender(PortWriter::connect(&self.path, &options).map_err(trouble)?)))
    }

    fn receiver(&self) -> Result<Box<dyn RecordReceiver>, CaseError> {
        let port = Port::create(&self.path, &PortOptions::new()).map_err(trouble)?;
        Ok(Box::new(PortReceiver { port, buffer: vec![0; self.bytes] }))
    }
}

struct PortSender(PortWriter);

impl RecordSender for PortSender {
    fn send(&mut self, record: &[u8]) -> Result<(), CaseError> {
        self.0.send(record).map_err(trouble)
    }
}

struct PortReceiver {
    port: Port,
    buffer: Vec<u8>,
}

impl RecordReceiver for PortReceiver {
    fn receive(&mut self, see: &mut See) -> Result<u64, CaseError> {
        let mut seen = Ok(());
        let take = |received: Received, record: &[u8]| {
            if seen.is_ok() {
                seen = match received.event {
                    Event::Message { .. } => see(record),
                    _ => Err(CaseError::failed("a writer ended")),
                };
            }
        };
        let received = self.port.receive_each_timeout(&mut self.buffer, Timeout::Never, take);
        let count = received.map_err(trouble)?;
        seen.map(|()| count as u64)
    }
}
