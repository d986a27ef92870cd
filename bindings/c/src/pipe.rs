//! Pipes of bytes.

use crate::arguments::{
    self, free, given, handle_place, held, make, place, store_descriptor, timeout,
};
use crate::error::{call, weir_status};
use crate::held::Held;
use crate::options::{
    WEIR_FOREVER, pipe_options, store_account, store_ending, weir_account, weir_ending,
    weir_options,
};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use weir::{Error, ErrorKind, Reader, Writer};

const READER: &str = "a reader";
const WRITER: &str = "a writer";

/// The writing end of a pipe of bytes.
pub struct weir_writer(pub(crate) Held<Writer>);

/// The reading end of a pipe of bytes.
pub struct weir_reader(pub(crate) Held<Reader>);

/// Makes a pipe of bytes. Both ends are in this process until one is handed on.
#[unsafe(no_mangle)]
pub extern "C" fn weir_pipe(
    options: Option<&weir_options>,
    writer: Option<&mut MaybeUninit<*mut weir_writer>>,
    reader: Option<&mut MaybeUninit<*mut weir_reader>>,
) -> weir_status {
    call(|| {
        let (to, from) = (handle_place(writer)?, handle_place(reader)?);
        let (writer, reader) = weir::pipe(&pipe_options(options, WEIR_FOREVER)?)?;
        *to = held(weir_writer(Held::new(writer)));
        *from = held(weir_reader(Held::new(reader)));
        Ok(())
    })
}

/// Connects to the reader that listens at a path, with a weir_listener, and waits for one if there is
/// none yet.
#[unsafe(no_mangle)]
pub extern "C" fn weir_writer_connect(
    path: *const c_char,
    options: Option<&weir_options>,
    timeout_ns: i64,
    writer: Option<&mut MaybeUninit<*mut weir_writer>>,
) -> weir_status {
    make(writer, || {
        // SAFETY: C promises a string.
        let path = unsafe { arguments::path(path) }?;
        let writer = Writer::connect(path, &pipe_options(options, timeout_ns)?)?;
        Ok(weir_writer(Held::new(writer)))
    })
}

/// Writes all `count` bytes, waiting for room. `written` may be NULL; it gets how many bytes were
/// written, also if the call fails. If the time passes once some are written, the call succeeds and
/// `written` is less than `count`.
#[unsafe(no_mangle)]
pub extern "C" fn weir_write(
    writer: Option<&mut weir_writer>,
    bytes: *const c_void,
    count: usize,
    timeout_ns: i64,
    written: Option<&mut MaybeUninit<usize>>,
) -> weir_status {
    call(|| {
        let mut unused = 0;
        let written = written.map_or(&mut unused, |written| written.write(0));
        let writer = &mut given(writer, WRITER)?.0.end;
        // SAFETY: C promises that many bytes.
        let bytes = unsafe { arguments::bytes(bytes, count) }?;
        *written = writer
            .write_timeout(bytes, timeout(timeout_ns))
            .inspect_err(|error| *written = error.written_bytes().unwrap_or(0))?;
        Ok(())
    })
}

/// Reads what is there, at least one byte, waiting for it. Fails with WEIR_CLOSED once the writer is
/// gone and everything is read.
#[unsafe(no_mangle)]
pub extern "C" fn weir_read(
    reader: Option<&mut weir_reader>,
    buffer: *mut c_void,
    size: usize,
    timeout_ns: i64,
    count: Option<&mut MaybeUninit<usize>>,
) -> weir_status {
    call(|| {
        let count = place(count, 0, "a count")?;
        let reader = &mut given(reader, READER)?.0.end;
        // SAFETY: C promises that much room.
        let buffer = unsafe { arguments::buffer(buffer, size) }?;
        *count = reader.read_timeout(buffer, timeout(timeout_ns))?;
        if *count == 0 && size > 0 {
            return Err(at_end());
        }
        Ok(())
    })
}

/// The error of who reads on at the end.
#[cold]
pub(crate) fn at_end() -> Error {
    let why = "the writer has closed or died, and everything was read";
    Error::new(ErrorKind::Closed, "read from", "the pipe", why)
}

/// Stores how many bytes, at least, can be written without waiting, until this end writes.
#[unsafe(no_mangle)]
pub extern "C" fn weir_writer_room(
    writer: Option<&mut weir_writer>,
    bytes: Option<&mut MaybeUninit<u64>>,
) -> weir_status {
    call(|| {
        *place(bytes, 0, "a number")? = given(writer, WRITER)?.0.end.room()?;
        Ok(())
    })
}

/// Stores how many bytes, at least, can be read without waiting, until this end reads.
#[unsafe(no_mangle)]
pub extern "C" fn weir_reader_available(
    reader: Option<&mut weir_reader>,
    bytes: Option<&mut MaybeUninit<u64>>,
) -> weir_status {
    call(|| {
        *place(bytes, 0, "a number")? = given(reader, READER)?.0.end.available()?;
        Ok(())
    })
}

/// Stores how the reader has ended, once a call has found that it is gone.
#[unsafe(no_mangle)]
pub extern "C" fn weir_writer_ending(
    writer: Option<&weir_writer>,
    ending: Option<&mut MaybeUninit<weir_ending>>,
) -> weir_status {
    store_ending(ending, || given(writer, WRITER)?.0.end.ending())
}

/// Stores how the writer has ended, once a call has found that it is gone.
#[unsafe(no_mangle)]
pub extern "C" fn weir_reader_ending(
    reader: Option<&weir_reader>,
    ending: Option<&mut MaybeUninit<weir_ending>>,
) -> weir_status {
    store_ending(ending, || given(reader, READER)?.0.end.ending())
}

/// Stores a descriptor for poll() and epoll, which belongs to the end: do not read, write or close it.
/// It is readable while there may be something to do, a writer's too. So wait until it is readable,
/// and then write with timeout 0 until that fails with WEIR_WOULD_BLOCK. Only that makes the
/// descriptor wait for what comes next.
#[unsafe(no_mangle)]
pub extern "C" fn weir_writer_descriptor(
    writer: Option<&mut weir_writer>,
    descriptor: Option<&mut MaybeUninit<c_int>>,
) -> weir_status {
    store_descriptor(descriptor, || given(writer, WRITER)?.0.end.poll_descriptor())
}

/// As weir_writer_descriptor(), for reading.
#[unsafe(no_mangle)]
pub extern "C" fn weir_reader_descriptor(
    reader: Option<&mut weir_reader>,
    descriptor: Option<&mut MaybeUninit<c_int>>,
) -> weir_status {
    store_descriptor(descriptor, || given(reader, READER)?.0.end.poll_descriptor())
}

/// Stores the account of the writer.
#[unsafe(no_mangle)]
pub extern "C" fn weir_writer_account(
    writer: Option<&weir_writer>,
    account: Option<&mut MaybeUninit<weir_account>>,
) -> weir_status {
    store_account(account, || given(writer, WRITER)?.0.end.account())
}

/// Stores the account of the reader.
#[unsafe(no_mangle)]
pub extern "C" fn weir_reader_account(
    reader: Option<&weir_reader>,
    account: Option<&mut MaybeUninit<weir_account>>,
) -> weir_status {
    store_account(account, || given(reader, READER)?.0.end.account())
}

/// Frees the writer and closes the pipe: the reader reads what was written, and then finds the end.
#[unsafe(no_mangle)]
pub extern "C" fn weir_writer_free(writer: Option<Box<weir_writer>>) {
    free(writer);
}

/// Frees the reader and closes the pipe: a write fails with WEIR_CLOSED from now on.
#[unsafe(no_mangle)]
pub extern "C" fn weir_reader_free(reader: Option<Box<weir_reader>>) {
    free(reader);
}
