//! Listeners: pipes and channels between strangers, by a path.

use crate::arguments::{self, given, handle_place, place, timeout};
use crate::error::{call, weir_status};
use crate::held::Held;
use crate::pipe::weir_reader;
use crate::record::{weir_record_reader, weir_record_writer};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use weir::{Listener, Reader, RecordDuplex, RecordReader};

/// What accepts those that connect to a path.
pub struct weir_listener(Listener);

/// Listens at a path, which only processes of this user reach. The path goes when the listener does.
#[unsafe(no_mangle)]
pub extern "C" fn weir_listen(
    path: *const c_char,
    listener: Option<&mut MaybeUninit<*mut weir_listener>>,
) -> weir_status {
    call(|| {
        let to = handle_place(listener)?;
        // SAFETY: C promises a string.
        let path = unsafe { arguments::path(path) }?;
        *to = Box::into_raw(Box::new(weir_listener(Listener::bind(path)?)));
        Ok(())
    })
}

/// Waits for the next weir_writer_connect().
#[unsafe(no_mangle)]
pub extern "C" fn weir_accept_reader(
    listener: Option<&weir_listener>,
    timeout_ns: i64,
    reader: Option<&mut MaybeUninit<*mut weir_reader>>,
) -> weir_status {
    call(|| {
        let to = handle_place(reader)?;
        let listener = &given(listener, "a listener")?.0;
        let reader = listener.accept_timeout::<Reader>(timeout(timeout_ns))?;
        *to = Box::into_raw(Box::new(weir_reader(Held::new(reader))));
        Ok(())
    })
}

/// Waits for the next weir_record_writer_connect().
#[unsafe(no_mangle)]
pub extern "C" fn weir_accept_record_reader(
    listener: Option<&weir_listener>,
    timeout_ns: i64,
    reader: Option<&mut MaybeUninit<*mut weir_record_reader>>,
) -> weir_status {
    call(|| {
        let to = handle_place(reader)?;
        let listener = &given(listener, "a listener")?.0;
        let reader = listener.accept_timeout::<RecordReader>(timeout(timeout_ns))?;
        *to = weir_record_reader::place(reader);
        Ok(())
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
        *to = weir_record_writer::place(side.writer);
        *from = weir_record_reader::place(side.reader);
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
    call(|| {
        let descriptor = place(descriptor, -1, "a descriptor")?;
        *descriptor = given(listener, "a listener")?.0.poll_descriptor()?.as_raw_fd();
        Ok(())
    })
}

/// Frees the listener and removes its path.
#[unsafe(no_mangle)]
pub extern "C" fn weir_listener_free(listener: Option<Box<weir_listener>>) {
    call(|| {
        drop(listener);
        Ok(())
    });
}
