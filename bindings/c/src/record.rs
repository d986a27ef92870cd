//! Pipes of records: each arrives whole, with its length.

use crate::arguments::{
    self, free, given, handle_place, held, make, place, store_descriptor, timeout,
};
use crate::error::{call, invalid, weir_status};
use crate::held::Held;
use crate::options::{
    WEIR_FOREVER, pipe_options, store_account, store_ending, weir_account, weir_ending,
    weir_options,
};
use crate::pipe::at_end;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use weir::{Error, RecordReader, RecordWriter, Result, Timeout};

const READER: &str = "a reader of records";
const WRITER: &str = "a writer of records";

/// The writing end of a pipe of records.
pub struct weir_record_writer {
    pub(crate) held: Held<RecordWriter>,
    /// What had been sent when a place was reserved: it is gone once another record is sent.
    reserved_after: Option<u64>,
}

/// The reading end of a pipe of records.
pub struct weir_record_reader {
    pub(crate) held: Held<RecordReader>,
    /// What had been received when a record was lent: it is gone once a record is received.
    lent_after: Option<u64>,
}

impl weir_record_writer {
    pub(crate) fn new(end: RecordWriter) -> weir_record_writer {
        weir_record_writer { held: Held::new(end), reserved_after: None }
    }
}

impl weir_record_reader {
    pub(crate) fn new(end: RecordReader) -> weir_record_reader {
        weir_record_reader { held: Held::new(end), lent_after: None }
    }
}

/// Makes a pipe of records. Both ends are in this process until one is handed on.
#[unsafe(no_mangle)]
pub extern "C" fn weir_records(
    options: Option<&weir_options>,
    writer: Option<&mut MaybeUninit<*mut weir_record_writer>>,
    reader: Option<&mut MaybeUninit<*mut weir_record_reader>>,
) -> weir_status {
    call(|| {
        let (to, from) = (handle_place(writer)?, handle_place(reader)?);
        let (writer, reader) = weir::records(&pipe_options(options, WEIR_FOREVER)?)?;
        *to = held(weir_record_writer::new(writer));
        *from = held(weir_record_reader::new(reader));
        Ok(())
    })
}

/// Connects to the reader that listens at a path, with a weir_listener, and waits for one if there is
/// none yet.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_writer_connect(
    path: *const c_char,
    options: Option<&weir_options>,
    timeout_ns: i64,
    writer: Option<&mut MaybeUninit<*mut weir_record_writer>>,
) -> weir_status {
    make(writer, || {
        // SAFETY: C promises a string.
        let path = unsafe { arguments::path(path) }?;
        let options = pipe_options(options, timeout_ns)?;
        Ok(weir_record_writer::new(RecordWriter::connect(path, &options)?))
    })
}

/// Sends a record, which may be empty, waiting for room. The record is sent whole or not at all. It has
/// at most as many bytes as the capacity.
#[unsafe(no_mangle)]
pub extern "C" fn weir_send(
    writer: Option<&mut weir_record_writer>,
    record: *const c_void,
    count: usize,
    timeout_ns: i64,
) -> weir_status {
    let Some(writer) = writer else { return is_null(WRITER) };
    // SAFETY: C promises that many bytes.
    if let Some(short) = unsafe { arguments::short(record, count) }
        && weir::parts::send_fast(&mut writer.held.end, short)
    {
        return weir_status::WEIR_OK;
    }
    send(writer, record, count, timeout_ns)
}

#[cold]
#[inline(never)]
fn is_null(what: &'static str) -> weir_status {
    call(|| given(None, what))
}

/// Sends what is not sent fast. Out of line, so that what is needs no stack.
#[inline(never)]
fn send(
    writer: &mut weir_record_writer,
    record: *const c_void,
    count: usize,
    timeout_ns: i64,
) -> weir_status {
    call(|| {
        // SAFETY: C promises that many bytes.
        let record = unsafe { arguments::bytes(record, count) }?;
        writer.held.end.send_timeout(record, timeout(timeout_ns))
    })
}

/// Receives the next record, waiting for it, and stores its length. Fails with WEIR_CLOSED once the
/// writer is gone and everything is received. With WEIR_TOO_SMALL the record stays, and `count` is
/// the size that the buffer needs.
#[unsafe(no_mangle)]
pub extern "C" fn weir_receive(
    reader: Option<&mut weir_record_reader>,
    buffer: *mut c_void,
    size: usize,
    timeout_ns: i64,
    count: Option<&mut MaybeUninit<usize>>,
) -> weir_status {
    let Some(reader) = reader else { return is_null(READER) };
    let Some(count) = count else { return is_null("a place for the count") };
    // SAFETY: C promises that much room.
    if let Some(short) = unsafe { arguments::short_buffer(buffer, size) }
        && weir::parts::receive_fast(&mut reader.held.end, short)
    {
        count.write(size);
        return weir_status::WEIR_OK;
    }
    receive(reader, buffer, size, timeout_ns, count.write(0))
}

/// Receives what is not received fast. Out of line, so that what is needs no stack.
#[inline(never)]
fn receive(
    reader: &mut weir_record_reader,
    buffer: *mut c_void,
    size: usize,
    timeout_ns: i64,
    count: &mut usize,
) -> weir_status {
    call(|| {
        // SAFETY: C promises that much room.
        let buffer = unsafe { arguments::buffer(buffer, size) }?;
        let reader = &mut reader.held.end;
        let received = if timeout_ns < 0 {
            reader.receive(buffer)
        } else {
            reader.receive_timeout(buffer, timeout(timeout_ns))
        };
        *count = came(received, count)?;
        Ok(())
    })
}

/// The length of what was received. Stores what a larger buffer would get.
#[inline(always)]
pub(crate) fn came(received: Result<Option<usize>>, needed: &mut usize) -> Result<usize> {
    match received {
        Ok(Some(count)) => Ok(count),
        Ok(None) => Err(at_end()),
        Err(error) => Err(too_small(error, needed)),
    }
}

#[cold]
pub(crate) fn too_small(error: Error, needed: &mut usize) -> Error {
    *needed = error.needed_bytes().unwrap_or(0);
    error
}

/// Lends the place of a record of `count` bytes, which the caller writes there: `place` leads to memory
/// that both processes share. weir_commit() sends it. Without that it is gone once this end sends or
/// reserves again, or is freed. For large records: it saves a copy.
#[unsafe(no_mangle)]
pub extern "C" fn weir_reserve(
    writer: Option<&mut weir_record_writer>,
    count: usize,
    timeout_ns: i64,
    place: Option<&mut MaybeUninit<*mut c_void>>,
) -> weir_status {
    call(|| {
        let to = arguments::place(place, std::ptr::null_mut(), "a place")?;
        let writer = given(writer, WRITER)?;
        writer.reserved_after = None;
        let sent = writer.held.end.account()?.records;
        let mut reservation = writer.held.end.reserve_timeout(count, timeout(timeout_ns))?;
        let mut view = reservation.view()?;
        // SAFETY: nothing is done with the slice but to take its address. That the other process
        // may write there too is for C to know.
        *to = unsafe { view.as_slice_mut() }.as_mut_ptr().cast();
        // It goes on: weir_commit() takes it up.
        std::mem::forget(reservation);
        writer.reserved_after = Some(sent);
        Ok(())
    })
}

/// Sends the record whose place was reserved.
#[unsafe(no_mangle)]
pub extern "C" fn weir_commit(writer: Option<&mut weir_record_writer>) -> weir_status {
    call(|| {
        let writer = given(writer, WRITER)?;
        let reserved = writer.reserved_after.take();
        if reserved != Some(writer.held.end.account()?.records) {
            return Err(invalid("a reservation", "nothing is reserved, or it was sent over"));
        }
        weir::parts::commit_forgotten(&mut writer.held.end)
    })
}

/// Lends the next record where it lies, waiting for it. `record` leads to memory that both processes
/// share: a hostile writer may change it at any time, so copy what you check. It is valid until
/// weir_consume(), weir_receive() or weir_record_reader_free(). Until one of them the record stays.
#[unsafe(no_mangle)]
pub extern "C" fn weir_lend(
    reader: Option<&mut weir_record_reader>,
    timeout_ns: i64,
    record: Option<&mut MaybeUninit<*const c_void>>,
    count: Option<&mut MaybeUninit<usize>>,
) -> weir_status {
    call(|| {
        let from = place(record, std::ptr::null(), "a record")?;
        let count = place(count, 0, "a count")?;
        let reader = given(reader, READER)?;
        reader.lent_after = None;
        let received = reader.held.end.account()?.records;
        let mut loan = reader.held.end.lend_timeout(timeout(timeout_ns))?.ok_or_else(at_end)?;
        let view = loan.view()?;
        // SAFETY: nothing is done with the slice but to take its address. That the other process
        // may write there is for C to know.
        *from = unsafe { view.as_slice() }.as_ptr().cast();
        *count = view.len();
        reader.lent_after = Some(received);
        Ok(())
    })
}

/// Consumes the record that was lent, and gives its room back.
#[unsafe(no_mangle)]
pub extern "C" fn weir_consume(reader: Option<&mut weir_record_reader>) -> weir_status {
    call(|| {
        let reader = given(reader, READER)?;
        let lent = reader.lent_after.take();
        let nothing = || invalid("a loan", "nothing is lent, or it was received meanwhile");
        if lent != Some(reader.held.end.account()?.records) {
            return Err(nothing());
        }
        // The same record again, which is still the next.
        reader.held.end.lend_timeout(Timeout::Now)?.ok_or_else(nothing)?.consume()
    })
}

/// Stores how the reader has ended, once a call has found that it is gone.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_writer_ending(
    writer: Option<&weir_record_writer>,
    ending: Option<&mut MaybeUninit<weir_ending>>,
) -> weir_status {
    store_ending(ending, || given(writer, WRITER)?.held.end.ending())
}

/// Stores how the writer has ended, once a call has found that it is gone.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_reader_ending(
    reader: Option<&weir_record_reader>,
    ending: Option<&mut MaybeUninit<weir_ending>>,
) -> weir_status {
    store_ending(ending, || given(reader, READER)?.held.end.ending())
}

/// As weir_writer_descriptor(): send with timeout 0 until that fails with WEIR_WOULD_BLOCK.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_writer_descriptor(
    writer: Option<&mut weir_record_writer>,
    descriptor: Option<&mut MaybeUninit<c_int>>,
) -> weir_status {
    store_descriptor(descriptor, || given(writer, WRITER)?.held.end.poll_descriptor())
}

/// As weir_writer_descriptor(): receive with timeout 0 until that fails with WEIR_WOULD_BLOCK.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_reader_descriptor(
    reader: Option<&mut weir_record_reader>,
    descriptor: Option<&mut MaybeUninit<c_int>>,
) -> weir_status {
    store_descriptor(descriptor, || given(reader, READER)?.held.end.poll_descriptor())
}

/// Stores the account of the writer.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_writer_account(
    writer: Option<&weir_record_writer>,
    account: Option<&mut MaybeUninit<weir_account>>,
) -> weir_status {
    store_account(account, || given(writer, WRITER)?.held.end.account())
}

/// Stores the account of the reader.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_reader_account(
    reader: Option<&weir_record_reader>,
    account: Option<&mut MaybeUninit<weir_account>>,
) -> weir_status {
    store_account(account, || given(reader, READER)?.held.end.account())
}

/// Frees the writer and closes the pipe: the reader receives what was sent, and then finds the end.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_writer_free(writer: Option<Box<weir_record_writer>>) {
    free(writer);
}

/// Frees the reader and closes the pipe: a send fails with WEIR_CLOSED from now on.
#[unsafe(no_mangle)]
pub extern "C" fn weir_record_reader_free(reader: Option<Box<weir_record_reader>>) {
    free(reader);
}
