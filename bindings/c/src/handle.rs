//! Handles: ends that are not open, on their way to another process.
//!
//! A forked child inherits handles, and not ends: in a child the parent's ends answer WEIR_FORKED. So
//! make handles, fork, and open one end in each process. A program that is executed gets a handle as a
//! text, and any process gets one over a unix socket.

use crate::arguments::{self, descriptor, free, given, handle_place, held, make};
use crate::error::{call, invalid, weir_status};
use crate::held::Held;
use crate::options::{WEIR_FOREVER, pipe_options, reader_options, weir_options, writer_options};
use crate::pipe::{weir_reader, weir_writer};
use crate::record::{weir_record_reader, weir_record_writer};
use rustix::fd::{FromRawFd, OwnedFd};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use weir::{
    Error, ErrorKind, Handle, PortHandle, Reader, RecordReader, RecordWriter, Result, Writer,
};

/// An end that is not open, or a way to a port without a name. Freeing one that was not opened or sent
/// closes its pipe.
pub struct weir_handle(Option<Inside>);

pub(crate) enum Inside {
    Writer(Handle),
    Reader(Handle),
    Port(PortHandle),
    /// From a socket, which of the two it is being known to the library.
    End(Handle),
}

fn empty() -> Error {
    invalid("a handle", "it is empty: its end was opened or sent")
}

impl weir_handle {
    pub(crate) fn new(inside: Inside) -> weir_handle {
        weir_handle(Some(inside))
    }

    /// Takes the end out of the handle.
    pub(crate) fn take_end(&mut self) -> Result<Handle> {
        match self.0.take().ok_or_else(empty)? {
            Inside::Writer(end) | Inside::Reader(end) | Inside::End(end) => Ok(end),
            port @ Inside::Port(_) => {
                self.0 = Some(port);
                Err(invalid("a handle", "it is a port's"))
            }
        }
    }

    /// The way to a port.
    pub(crate) fn port(&self) -> Result<&PortHandle> {
        match self.0.as_ref().ok_or_else(empty)? {
            Inside::Port(port) => Ok(port),
            _ => Err(invalid("a handle", "it is an end's, not a port's")),
        }
    }
}

fn place_pair(
    made: impl FnOnce() -> Result<(Handle, Handle)>,
    writer: Option<&mut MaybeUninit<*mut weir_handle>>,
    reader: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> Result<()> {
    let (to, from) = (handle_place(writer)?, handle_place(reader)?);
    let (writer, reader) = made()?;
    *to = held(weir_handle::new(Inside::Writer(writer)));
    *from = held(weir_handle::new(Inside::Reader(reader)));
    Ok(())
}

/// Makes a pipe of bytes whose ends are opened in any process.
#[unsafe(no_mangle)]
pub extern "C" fn weir_pipe_handles(
    options: Option<&weir_options>,
    writer: Option<&mut MaybeUninit<*mut weir_handle>>,
    reader: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> weir_status {
    let made = || Handle::stream_pair(&pipe_options(options, WEIR_FOREVER)?);
    call(|| place_pair(made, writer, reader))
}

/// Makes a pipe of records whose ends are opened in any process. Two of them, one in each direction,
/// are a channel for requests.
#[unsafe(no_mangle)]
pub extern "C" fn weir_records_handles(
    options: Option<&weir_options>,
    writer: Option<&mut MaybeUninit<*mut weir_handle>>,
    reader: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> weir_status {
    let made = || Handle::record_pair(&pipe_options(options, WEIR_FOREVER)?);
    call(|| place_pair(made, writer, reader))
}

/// Opens a writer that was handed on, and empties the handle.
#[unsafe(no_mangle)]
pub extern "C" fn weir_writer_open(
    handle: Option<&mut weir_handle>,
    options: Option<&weir_options>,
    writer: Option<&mut MaybeUninit<*mut weir_writer>>,
) -> weir_status {
    make(writer, || {
        let options = writer_options(options)?;
        let writer = Writer::open_with(given(handle, "a handle")?.take_end()?, &options)?;
        Ok(weir_writer(Held::new(writer)))
    })
}

/// Opens a reader that was handed on, and empties the handle.
#[unsafe(no_mangle)]
pub extern "C" fn weir_reader_open(
    handle: Option<&mut weir_handle>,
    options: Option<&weir_options>,
    reader: Option<&mut MaybeUninit<*mut weir_reader>>,
) -> weir_status {
    make(reader, || {
        let options = reader_options(options)?;
        let reader = Reader::open_with(given(handle, "a handle")?.take_end()?, &options)?;
        Ok(weir_reader(Held::new(reader)))
    })
}

/// Opens a writer that was handed on, and empties the handle.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_writer_open(
    handle: Option<&mut weir_handle>,
    options: Option<&weir_options>,
    writer: Option<&mut MaybeUninit<*mut weir_record_writer>>,
) -> weir_status {
    make(writer, || {
        let options = writer_options(options)?;
        let handle = given(handle, "a handle")?.take_end()?;
        Ok(weir_record_writer::new(RecordWriter::open_with(handle, &options)?))
    })
}

/// Opens a reader that was handed on, and empties the handle.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_reader_open(
    handle: Option<&mut weir_handle>,
    options: Option<&weir_options>,
    reader: Option<&mut MaybeUninit<*mut weir_record_reader>>,
) -> weir_status {
    make(reader, || {
        let options = reader_options(options)?;
        let handle = given(handle, "a handle")?.take_end()?;
        Ok(weir_record_reader::new(RecordReader::open_with(handle, &options)?))
    })
}

/// Frees a writer and makes a handle of it, without closing the pipe. `handle` is NULL if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn weir_writer_to_handle(
    writer: Option<Box<weir_writer>>,
    handle: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> weir_status {
    make(handle, || {
        let end = given(writer, "a writer")?.0.end.into_handle()?;
        Ok(weir_handle::new(Inside::Writer(end)))
    })
}

/// As weir_writer_to_handle(), of a reader.
#[unsafe(no_mangle)]
pub extern "C" fn weir_reader_to_handle(
    reader: Option<Box<weir_reader>>,
    handle: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> weir_status {
    make(handle, || {
        let end = given(reader, "a reader")?.0.end.into_handle()?;
        Ok(weir_handle::new(Inside::Reader(end)))
    })
}

/// As weir_writer_to_handle(), of a writer of records.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_writer_to_handle(
    writer: Option<Box<weir_record_writer>>,
    handle: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> weir_status {
    make(handle, || {
        let end = given(writer, "a writer of records")?.held.end.into_handle()?;
        Ok(weir_handle::new(Inside::Writer(end)))
    })
}

/// As weir_writer_to_handle(), of a reader of records.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_reader_to_handle(
    reader: Option<Box<weir_record_reader>>,
    handle: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> weir_status {
    make(handle, || {
        let end = given(reader, "a reader of records")?.held.end.into_handle()?;
        Ok(weir_handle::new(Inside::Reader(end)))
    })
}

/// Writes the handle as a text such as "writer 5 6", for the arguments or the environment of a program
/// that is executed next: its descriptors stay open over exec from now on. 40 bytes are enough. The
/// program makes a handle of it by weir_handle_from_text(). This process frees its own after fork().
#[unsafe(no_mangle)]
pub extern "C" fn weir_handle_to_text(
    handle: Option<&weir_handle>,
    text: *mut c_char,
    size: usize,
) -> weir_status {
    call(|| {
        // SAFETY: C promises that much room.
        let to = unsafe { arguments::buffer(text.cast(), size) }?;
        let (kind, (one, other)) = match given(handle, "a handle")?.0.as_ref().ok_or_else(empty)? {
            Inside::Writer(end) => ("writer", end.keep_over_exec()?),
            Inside::Reader(end) => ("reader", end.keep_over_exec()?),
            Inside::Port(port) => ("port", port.keep_over_exec()?),
            Inside::End(_) => return Err(invalid("a handle", "open it first")),
        };
        let made = format!("{kind} {one} {other}\0");
        let place = to.get_mut(..made.len());
        let place = place.ok_or_else(|| invalid("a buffer", "it is too small for the text"))?;
        place.copy_from_slice(made.as_bytes());
        Ok(())
    })
}

/// Makes a handle of a text that weir_handle_to_text() has written in the program before this one. Its
/// descriptors belong to the handle from now on.
#[unsafe(no_mangle)]
pub extern "C" fn weir_handle_from_text(
    text: *const c_char,
    handle: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> weir_status {
    make(handle, || {
        // SAFETY: C promises a string.
        let text = unsafe { arguments::text(text, "a text") }?;
        Ok(weir_handle::new(read(&text.to_string_lossy())?))
    })
}

fn read(text: &str) -> Result<Inside> {
    let invalid = |why: String| Error::new(ErrorKind::Invalid, "open", "a handle", why);
    let words: Vec<&str> = text.split(' ').collect();
    let numbers = || {
        let [_, one, other] = words[..] else { return None };
        let (one, other): (c_int, c_int) = (one.parse().ok()?, other.parse().ok()?);
        (one > 2 && other > 2 && one != other).then_some((one, other))
    };
    let refused = || invalid(format!("'{text}' is not the text of a handle"));
    let (one, other) = numbers().ok_or_else(refused)?;
    let make: fn(OwnedFd, OwnedFd) -> Inside = match words[0] {
        "writer" => |memory, socket| Inside::Writer(Handle::writer(memory, socket)),
        "reader" => |memory, socket| Inside::Reader(Handle::reader(memory, socket)),
        "port" => |way, alive| Inside::Port(PortHandle::new(way, alive)),
        _ => return Err(refused()),
    };
    for number in [one, other] {
        if rustix::io::fcntl_getfd(descriptor(number)?).is_err() {
            return Err(invalid(format!("descriptor {number} is not open")));
        }
    }
    Ok(make(own(one)?, own(other)?))
}

/// Takes over an inherited descriptor, and keeps it from programs that are executed later.
fn own(number: c_int) -> Result<OwnedFd> {
    rustix::io::fcntl_setfd(descriptor(number)?, rustix::io::FdFlags::CLOEXEC)
        .map_err(|cause| Error::os("open", "a handle", cause))?;
    // SAFETY: it is open, and C promises that it came with the text and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sends the end over a connected unix socket, without waiting, and empties the handle. Of a port's
/// handle a copy is sent, and it stays.
#[unsafe(no_mangle)]
pub extern "C" fn weir_handle_send(handle: Option<&mut weir_handle>, socket: c_int) -> weir_status {
    call(|| {
        let (handle, socket) = (given(handle, "a handle")?, descriptor(socket)?);
        match handle.port() {
            Ok(port) => port.send(socket),
            Err(_) => handle.take_end()?.send(socket),
        }
    })
}

/// Receives an end that was sent over a connected unix socket, and waits for it.
#[unsafe(no_mangle)]
pub extern "C" fn weir_handle_receive(
    socket: c_int,
    handle: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> weir_status {
    make(handle, || Ok(weir_handle::new(Inside::End(Handle::receive(descriptor(socket)?)?))))
}

/// Receives the handle of a port that was sent over a connected unix socket, and waits for it.
#[unsafe(no_mangle)]
pub extern "C" fn weir_port_handle_receive(
    socket: c_int,
    handle: Option<&mut MaybeUninit<*mut weir_handle>>,
) -> weir_status {
    make(handle, || Ok(weir_handle::new(Inside::Port(PortHandle::receive(descriptor(socket)?)?))))
}

/// Frees a handle.
#[unsafe(no_mangle)]
pub extern "C" fn weir_handle_free(handle: Option<Box<weir_handle>>) {
    free(handle);
}
