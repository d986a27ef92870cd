//! Ports: many writers, one reader, a name.

use crate::arguments::{
    self, free, given, handle_place, held, make, place, store_descriptor, timeout,
};
use crate::error::{call, invalid, weir_status};
use crate::handle::{Inside, weir_handle};
use crate::held::Held;
use crate::options::{
    WEIR_FOREVER, port_options, port_writer_options, store_account, weir_account, weir_ending,
    weir_options, weir_port_options,
};
use crate::record::too_small;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use weir::{Event, Port, PortWriter, Received};

const PORT: &str = "a port";
const WRITER: &str = "a writer to a port";

/// The reader of a port.
pub struct weir_port(pub(crate) Held<Port>);

/// A writer to a port.
pub struct weir_port_writer(pub(crate) Held<PortWriter>);

/// What came from a writer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum weir_event {
    /// A message, at the front of the buffer.
    WEIR_MESSAGE = 0,
    /// The writer is gone, and all it sent was received. Each writer ends so exactly once.
    WEIR_WRITER_ENDED = 1,
}

/// Something that a port received, and from whom.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weir_received {
    /// What came.
    pub event: weir_event,
    /// How the writer has ended; WEIR_THERE with a message.
    pub ending: weir_ending,
    /// The length of the message; with WEIR_TOO_SMALL, the size that the buffer needs.
    pub count: usize,
    /// The number of the writer. They are counted from 1 in the order in which they were let in.
    pub writer: u64,
    /// The number of this message among the writer's, from 1. With its end: how many there were.
    pub sequence: u64,
    /// The writer's process, as the kernel says; 0 if its pid namespace cannot be seen from here.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// 0.
    pub reserved: u32,
}

const NOTHING: weir_received = weir_received {
    event: weir_event::WEIR_MESSAGE,
    ending: weir_ending::WEIR_THERE,
    count: 0,
    writer: 0,
    sequence: 0,
    pid: 0,
    uid: 0,
    gid: 0,
    reserved: 0,
};

impl From<Received> for weir_received {
    fn from(received: Received) -> weir_received {
        let (event, ending, count) = match received.event {
            Event::Closed(ending) => (weir_event::WEIR_WRITER_ENDED, Some(ending), 0),
            Event::Message { bytes } => (weir_event::WEIR_MESSAGE, None, bytes),
            // Only a port that was asked to shows pieces, and none of C was.
            _ => (weir_event::WEIR_MESSAGE, None, 0),
        };
        weir_received {
            event,
            ending: ending.into(),
            count,
            writer: received.writer.number(),
            sequence: received.sequence,
            pid: received.identity.pid,
            uid: received.identity.uid,
            gid: received.identity.gid,
            reserved: 0,
        }
    }
}

/// Makes a port and listens. A name with a '/' is a path; any other lies in one directory of the user.
/// A named port never ends by itself.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_create(
    name: *const c_char,
    options: Option<&weir_port_options>,
    port: Option<&mut MaybeUninit<*mut weir_port>>,
) -> weir_status {
    make(port, || {
        // SAFETY: C promises a string.
        let name = unsafe { arguments::path(name) }?;
        let port = Port::create(name, &port_options(options)?)?;
        Ok(weir_port(Held::new(port)))
    })
}

/// Makes a port without a name, and a handle by which children open writers to it. It ends once all
/// copies of the handle are closed, in all processes, and its last writer is gone: weir_port_receive()
/// fails with WEIR_CLOSED then.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_unnamed(
    options: Option<&weir_port_options>,
    port: Option<&mut MaybeUninit<*mut weir_port>>,
    handle: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> weir_status {
    call(|| {
        let (to, way) = (handle_place(port)?, handle_place(handle)?);
        let (port, handle) = Port::unnamed(&port_options(options)?)?;
        *to = held(weir_port(Held::new(port)));
        *way = held(weir_handle::new(Inside::Port(handle)));
        Ok(())
    })
}

/// Receives the next message of any writer, or the end of a writer, waiting for it. With
/// WEIR_TOO_SMALL the message stays.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_receive(
    port: Option<&mut weir_port>,
    buffer: *mut c_void,
    size: usize,
    timeout_ns: i64,
    received: Option<&mut MaybeUninit<weir_received>>,
) -> weir_status {
    call(|| {
        let received = place(received, NOTHING, "what was received")?;
        let port = &mut given(port, PORT)?.0.end;
        // SAFETY: C promises that much room.
        let buffer = unsafe { arguments::buffer(buffer, size) }?;
        let came = port.receive_timeout(buffer, timeout(timeout_ns));
        *received = came.map_err(|error| too_small(error, &mut received.count))?.into();
        Ok(())
    })
}

/// Stores how many writers are open, and how many of them wait for room.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_counts(
    port: Option<&mut weir_port>,
    open: Option<&mut MaybeUninit<usize>>,
    waiting: Option<&mut MaybeUninit<usize>>,
) -> weir_status {
    call(|| {
        let (open, waiting) = (place(open, 0, "a count")?, place(waiting, 0, "a count")?);
        let counts = given(port, PORT)?.0.end.counts()?;
        (*open, *waiting) = (counts.open, counts.waiting);
        Ok(())
    })
}

/// Shuts the writer of this number out: nothing more comes from it but its end.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_shut_out(port: Option<&mut weir_port>, writer: u64) -> weir_status {
    call(|| {
        let port = &mut given(port, PORT)?.0.end;
        let stats = port.writers()?;
        let found = stats.iter().find(|stat| stat.id.number() == writer);
        port.shut_out(found.ok_or_else(|| invalid("the number of a writer", "it is gone"))?.id)
    })
}

/// As weir_writer_descriptor(): receive with timeout 0 until that fails with WEIR_WOULD_BLOCK.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_descriptor(
    port: Option<&mut weir_port>,
    descriptor: Option<&mut MaybeUninit<c_int>>,
) -> weir_status {
    store_descriptor(descriptor, || given(port, PORT)?.0.end.poll_descriptor())
}

/// Frees the port: its name goes, and its writers find it closed.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_free(port: Option<Box<weir_port>>) {
    free(port);
}

/// Connects to the port of this name, and waits for its reader if there is none yet.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_writer_connect(
    name: *const c_char,
    options: Option<&weir_options>,
    timeout_ns: i64,
    writer: Option<&mut MaybeUninit<*mut weir_port_writer>>,
) -> weir_status {
    make(writer, || {
        // SAFETY: C promises a string.
        let name = unsafe { arguments::path(name) }?;
        let writer = PortWriter::connect(name, &port_writer_options(options, timeout_ns)?)?;
        Ok(weir_port_writer(Held::new(writer)))
    })
}

/// Opens a writer to a port without a name. The handle stays, for more writers.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_writer_open(
    handle: Option<&weir_handle>,
    options: Option<&weir_options>,
    writer: Option<&mut MaybeUninit<*mut weir_port_writer>>,
) -> weir_status {
    make(writer, || {
        let handle = given(handle, "a handle")?.port()?;
        let writer = PortWriter::open(handle, &port_writer_options(options, WEIR_FOREVER)?)?;
        Ok(weir_port_writer(Held::new(writer)))
    })
}

/// Sends a message, waiting for room. It is sent whole or not at all.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_send(
    writer: Option<&mut weir_port_writer>,
    message: *const c_void,
    count: usize,
    timeout_ns: i64,
) -> weir_status {
    call(|| {
        let writer = &mut given(writer, WRITER)?.0.end;
        // SAFETY: C promises that many bytes.
        let message = unsafe { arguments::bytes(message, count) }?;
        writer.send_timeout(message, timeout(timeout_ns))
    })
}

/// As weir_writer_descriptor(): send with timeout 0 until that fails with WEIR_WOULD_BLOCK.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_writer_descriptor(
    writer: Option<&mut weir_port_writer>,
    descriptor: Option<&mut MaybeUninit<c_int>>,
) -> weir_status {
    store_descriptor(descriptor, || given(writer, WRITER)?.0.end.poll_descriptor())
}

/// Stores the account of the writer.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_writer_account(
    writer: Option<&mut weir_port_writer>,
    account: Option<&mut MaybeUninit<weir_account>>,
) -> weir_status {
    store_account(account, || given(writer, WRITER)?.0.end.account())
}

/// Frees the writer: the reader receives what was sent, and then the end of this writer.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_writer_free(writer: Option<Box<weir_port_writer>>) {
    free(writer);
}
