//! weir's port. Each side opens its end when it first uses it, because a process with a port has
//! threads and must not be forked.

use super::own::trouble;
use super::place::{Meeting, PortDirectory};
use crate::engine::case::CaseError;
use std::cell::RefCell;
use std::time::Duration;
use weir::{Event, Port, PortOptions, PortWriter, PortWriterOptions, Received, Timeout, Waiting};

/// How long a writer waits for the reader to appear.
const PATIENCE: Duration = Duration::from_secs(10);

/// A port whose ends are opened when they are first used.
#[derive(Debug)]
pub struct LazyPort {
    meeting: Meeting,
    waiting: Waiting,
    reader: RefCell<Option<CheckedPort>>,
    writer: RefCell<Option<PortWriter>>,
}

/// Connects a writer to the port in this directory.
pub fn open(place: &PortDirectory, waiting: Waiting) -> Result<PortWriter, CaseError> {
    let options = PortWriterOptions::new().waiting(waiting).connect_timeout(PATIENCE);
    PortWriter::connect(place.name(), &options).map_err(trouble)
}

impl LazyPort {
    /// Chooses a name; neither end is open yet.
    pub fn new(waiting: Waiting) -> Result<LazyPort, CaseError> {
        let (meeting, reader, writer) = (Meeting::new()?, RefCell::new(None), RefCell::new(None));
        Ok(LazyPort { meeting, waiting, reader, writer })
    }

    pub fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    #[inline]
    pub fn send(&self, bytes: &[u8]) -> Result<(), CaseError> {
        let mut writer = self.writer.borrow_mut();
        if writer.is_none() {
            *writer = Some(self.open()?);
        }
        match &mut *writer {
            Some(writer) => writer.send(bytes).map_err(trouble),
            None => Err(CaseError::failed("the end is not open")),
        }
    }

    #[cold]
    fn open(&self) -> Result<PortWriter, CaseError> {
        if self.meeting.has_both() {
            // A process that sends to itself needs its reader first.
            self.reading(&mut self.reader.borrow_mut())?;
        }
        open(self.meeting.place(), self.waiting)
    }

    fn reading<'r>(
        &self,
        reader: &'r mut Option<CheckedPort>,
    ) -> Result<&'r mut CheckedPort, CaseError> {
        if reader.is_none() {
            *reader = Some(CheckedPort::new(self.meeting.place(), self.waiting)?);
        }
        reader.as_mut().ok_or_else(|| CaseError::failed("the end is not open"))
    }

    /// Receives a message and returns its length.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize, CaseError> {
        self.reading(&mut self.reader.borrow_mut())?.receive(buffer)
    }

    /// Receives a message and those that the same writer has sent by then, and shows each through
    /// the buffer. Returns how many.
    #[inline]
    pub fn receive_each(
        &self,
        buffer: &mut [u8],
        mut see: impl FnMut(&[u8]),
    ) -> Result<u64, CaseError> {
        let mut reader = self.reader.borrow_mut();
        self.reading(&mut reader)?.receive_each(buffer, |_, bytes| see(bytes))
    }
}

/// A reader that checks the order: each message has to be the next one of its writer.
#[derive(Debug)]
pub struct CheckedPort {
    port: Port,
    sequences: Vec<u64>,
}

impl CheckedPort {
    pub fn new(place: &PortDirectory, waiting: Waiting) -> Result<CheckedPort, CaseError> {
        let port = Port::create(place.name(), &PortOptions::new().waiting(waiting));
        let port = port.map_err(|error| match error.kind() {
            weir::ErrorKind::Invalid => CaseError::left_out(error.to_string()),
            _ => trouble(error),
        })?;
        Ok(CheckedPort { port, sequences: Vec::new() })
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, CaseError> {
        let received = self.port.receive(buffer).map_err(trouble)?;
        note(&mut self.sequences, received)?;
        match received.event {
            Event::Message { bytes } => Ok(bytes),
            _ => Err(ended()),
        }
    }

    /// Receives as [`Port::receive_each_timeout`] does, and shows each message with the number of
    /// its writer. Writers count from 0 in the order in which they were accepted. Fails when a
    /// writer ends.
    #[inline]
    pub fn receive_each(
        &mut self,
        buffer: &mut [u8],
        mut see: impl FnMut(usize, &[u8]),
    ) -> Result<u64, CaseError> {
        let (sequences, mut result) = (&mut self.sequences, Ok(()));
        let show = |received: Received, bytes: &[u8]| match note(sequences, received) {
            Ok(writer) => see(writer, bytes),
            Err(wrong) => result = Err(wrong),
        };
        let count =
            self.port.receive_each_timeout(buffer, Timeout::Never, show).map_err(trouble)?;
        result.map(|()| count as u64)
    }
}

/// Returns the number of the writer, counted from 0, if the message is that writer's next.
#[inline]
fn note(sequences: &mut Vec<u64>, received: Received) -> Result<usize, CaseError> {
    let writer = received.writer.number() as usize - 1;
    if writer >= sequences.len() {
        sequences.resize(writer + 1, 0);
    }
    let expected = sequences[writer] + 1;
    sequences[writer] = received.sequence;
    match received.event {
        Event::Message { .. } if received.sequence == expected => Ok(writer),
        Event::Closed(_) => Err(ended()),
        _ => Err(out_of_order()),
    }
}

#[cold]
fn ended() -> CaseError {
    CaseError::failed("the other side ended")
}

#[cold]
fn out_of_order() -> CaseError {
    CaseError::failed("a message came out of order")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_to_self_is_received() {
        let ports = LazyPort::new(Waiting::Adaptive).expect("a name");
        let mut buffer = [0; 8];
        for text in [b"one".as_slice(), b"", b"three"] {
            ports.send(text).expect("sent");
            let count = ports.receive(&mut buffer).expect("received");
            assert_eq!(&buffer[..count], text);
        }
        ports.send(b"a").expect("sent");
        ports.send(b"b").expect("sent");
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let see = |bytes: &[u8]| seen.extend_from_slice(bytes);
            ports.receive_each(&mut buffer, see).expect("received");
        }
        assert_eq!(seen, b"ab");
    }
}
