//! Listeners: pipes and channels between strangers, by a path.

use crate::arguments::{self, free, given, handle_place, held, make, store_descriptor, timeout};
use crate::error::{call, weir_status};
use crate::held::Held;
use crate::pipe::weir_reader;
use crate::record::{weir_record_reader, weir_record_writer};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use weir::{Listener, Reader, RecordDuplex, RecordReader};

/// What accepts those that connect to a path.
pub struct weir_listener(Listener);

/// Listens at a path, which only processes of this user reach. The path goes when the listener does.
#[unsafe(no_mangle)]
pub extern "C" fn weir_listen(
    path: *const c_char,
    listener: Option<&mut MaybeUninit<*mut weir_listener>>,
) -> weir_status {
    make(listener, || {
        // SAFETY: C promises a string.
        let path = unsafe { arguments::path(path) }?;
        Ok(weir_listener(Listener::bind(path)?))
    })
}

/// Waits for the next weir_writer_connect().
#[unsafe(no_mangle)]
pub extern "C" fn weir_accept_reader(
    listener: Option<&weir_listener>,
    timeout_ns: i64,
    reader: Option<&mut MaybeUninit<*mut weir_reader>>,
) -> weir_status {
    make(reader, || {
        let listener = &given(listener, "a listener")?.0;
        let reader = listener.accept_timeout::<Reader>(timeout(timeout_ns))?;
        Ok(weir_reader(Held::new(reader)))
    })
}

/// Waits for the next weir_record_writer_connect().
#[unsafe(no_mangle)]
pub extern "C" fn weir_accept_record_reader(
    listener: Option<&weir_listener>,
    timeout_ns: i64,
    reader: Option<&mut MaybeUninit<*mut weir_record_reader>>,
) -> weir_status {
    make(reader, || {
        let listener = &given(listener, "a listener")?.0;
        let reader = listener.accept_timeout::<RecordReader>(timeout(timeout_ns))?;
        Ok(weir_record_reader::new(reader))
    })
}

/// Waits for the next weir_duplex_connect().
#[unsafe(no_mangle)]
pub extern "C" fn weir_accept_duplex(
    listener: Option<&weir_listener>,
    timeout_ns: i64,
    writer: Option<&mut MaybeUninit<*mut weir_record_writer>>,
    reader: Option<&mut MaybeUninit<*mut weir_record_reader>>,
) -> weir_status {
    call(|| {
        let (to, from) = (handle_place(writer)?, handle_place(reader)?);
        let listener = &given(listener, "a listener")?.0;
        let side = listener.accept_timeout::<RecordDuplex>(timeout(timeout_ns))?;
        *to = held(weir_record_writer::new(side.writer));
        *from = held(weir_record_reader::new(side.reader));
        Ok(())
    })
}

/// Stores a descriptor for poll() and epoll, which belongs to the listener. It is readable until an
/// accept with timeout 0 fails with WEIR_WOULD_BLOCK, and again once somebody connects. Ask for it
/// before other threads accept.
#[unsafe(no_mangle)]
pub extern "C" fn weir_listener_descriptor(
    listener: Option<&mut weir_listener>,
    descriptor: Option<&mut MaybeUninit<c_int>>,
) -> weir_status {
    store_descriptor(descriptor, || given(listener, "a listener")?.0.poll_descriptor())
}

/// Frees the listener and removes its path.
#[unsafe(no_mangle)]
pub extern "C" fn weir_listener_free(listener: Option<Box<weir_listener>>) {
    free(listener);
}
