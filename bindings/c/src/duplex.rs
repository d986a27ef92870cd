//! Requests and replies: a channel is two pipes of records, one in each direction.
//!
//! Each of its two sides is a writer and a reader, which do all that other ends do.

use crate::arguments::{self, given, handle_place, held, place, timeout};
use crate::error::{call, weir_status};
use crate::options::{WEIR_FOREVER, pipe_options, weir_options};
use crate::record::{came, weir_record_reader, weir_record_writer};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::time::Instant;
use weir::{Error, ErrorKind, RecordDuplex, Timeout};

/// Makes a channel. `writer` and `reader` are one side of it, `other_writer` and `other_reader` the
/// other.
#[unsafe(no_mangle)]
pub extern "C" fn weir_duplex(
    options: Option<&weir_options>,
    writer: Option<&mut MaybeUninit<*mut weir_record_writer>>,
    reader: Option<&mut MaybeUninit<*mut weir_record_reader>>,
    other_writer: Option<&mut MaybeUninit<*mut weir_record_writer>>,
    other_reader: Option<&mut MaybeUninit<*mut weir_record_reader>>,
) -> weir_status {
    call(|| {
        let (to, from) = (handle_place(writer)?, handle_place(reader)?);
        let (other_to, other_from) = (handle_place(other_writer)?, handle_place(other_reader)?);
        let (one, other) = RecordDuplex::pair(&pipe_options(options, WEIR_FOREVER)?)?;
        *to = held(weir_record_writer::new(one.writer));
        *from = held(weir_record_reader::new(one.reader));
        *other_to = held(weir_record_writer::new(other.writer));
        *other_from = held(weir_record_reader::new(other.reader));
        Ok(())
    })
}

/// Connects to a weir_listener at a path, which takes the other side by weir_accept_duplex(). Waits
/// for one if there is none yet.
#[unsafe(no_mangle)]
pub extern "C" fn weir_duplex_connect(
    path: *const c_char,
    options: Option<&weir_options>,
    timeout_ns: i64,
    writer: Option<&mut MaybeUninit<*mut weir_record_writer>>,
    reader: Option<&mut MaybeUninit<*mut weir_record_reader>>,
) -> weir_status {
    call(|| {
        let (to, from) = (handle_place(writer)?, handle_place(reader)?);
        // SAFETY: C promises a string.
        let path = unsafe { arguments::path(path) }?;
        let side = RecordDuplex::connect(path, &pipe_options(options, timeout_ns)?)?;
        *to = held(weir_record_writer::new(side.writer));
        *from = held(weir_record_reader::new(side.reader));
        Ok(())
    })
}

/// Sends a request and waits for the next record that comes back. The timeout is for both together. If
/// it passes, the reply may still come, and the next request would get it.
#[unsafe(no_mangle)]
pub extern "C" fn weir_request(
    writer: Option<&mut weir_record_writer>,
    reader: Option<&mut weir_record_reader>,
    request: *const c_void,
    request_count: usize,
    reply: *mut c_void,
    reply_size: usize,
    timeout_ns: i64,
    reply_count: Option<&mut MaybeUninit<usize>>,
) -> weir_status {
    call(|| {
        let count = place(reply_count, 0, "a count")?;
        let writer = &mut given(writer, "a writer of records")?.held.end;
        let reader = &mut given(reader, "a reader of records")?.held.end;
        // SAFETY: C promises that many bytes.
        let request = unsafe { arguments::bytes(request, request_count) }?;
        // SAFETY: C promises that much room.
        let reply = unsafe { arguments::buffer(reply, reply_size) }?;
        let timeout = match timeout(timeout_ns) {
            Timeout::After(time) => {
                Instant::now().checked_add(time).map_or(Timeout::Never, Timeout::At)
            }
            other => other,
        };
        writer.send_timeout(request, timeout)?;
        *count = came(reader.receive_timeout(reply, timeout), count).map_err(|error| {
            let why = "the other side has closed or died";
            match error.kind() {
                ErrorKind::Closed => Error::new(ErrorKind::Closed, "receive", "a reply", why),
                _ => error,
            }
        })?;
        Ok(())
    })
}
