//! ZeroMQ: push and pull over `ipc://`, a unix socket that a thread on each side serves.

use super::place::UniqueName;
use super::{LibraryLine, RecordFlow, RecordReceiver, RecordSender, See};
use weir_bench::engine::case::CaseError;
use zmq::{Context, Socket, SocketType};

struct Zero {
    address: String,
    bytes: usize,
}

/// Makes a line over an abstract socket, which leaves nothing behind.
pub fn line(
    place: &UniqueName,
    bytes: usize,
    _: RecordFlow,
) -> Result<Box<dyn LibraryLine>, CaseError> {
    Ok(Box::new(Zero { address: format!("ipc://@{}", place.name()), bytes }))
}

fn trouble(error: zmq::Error) -> CaseError {
    CaseError::failed(format!("zeromq: {error}"))
}

fn socket(kind: SocketType) -> Result<Socket, CaseError> {
    let socket = Context::new().socket(kind).map_err(trouble)?;
    socket.set_linger(0).map_err(trouble)?;
    Ok(socket)
}

impl LibraryLine for Zero {
    fn sender(&self) -> Result<Box<dyn RecordSender>, CaseError> {
        // The socket connects when the other side is there; until then sending waits.
        let socket = socket(zmq::PUSH)?;
        socket.connect(&self.address).map_err(trouble)?;
        Ok(Box::new(Push(socket)))
    }

    fn receiver(&self) -> Result<Box<dyn RecordReceiver>, CaseError> {
        let socket = socket(zmq::PULL)?;
        socket.bind(&self.address).map_err(trouble)?;
        Ok(Box::new(Pull { socket, buffer: vec![0; self.bytes] }))
    }
}

struct Push(Socket);

impl RecordSender for Push {
    fn send(&mut self, record: &[u8]) -> Result<(), CaseError> {
        self.0.send(record, 0).map_err(trouble)
    }
}

struct Pull {
    socket: Socket,
    buffer: Vec<u8>,
}

impl RecordReceiver for Pull {
    fn receive(&mut self, see: &mut See) -> Result<u64, CaseError> {
        let length = self.socket.recv_into(&mut self.buffer, 0).map_err(trouble)?;
        see(self
            .buffer
            .get(..length)
            .ok_or_else(|| CaseError::failed("zeromq: a record is longer than the buffer"))?)?;
        Ok(1)
    }
}
