//! What C passes: bytes, texts, places for results, timeouts, descriptors.

use crate::error::{call, invalid, weir_status};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use weir::{Result, Timeout};

/// Returns a place where C wants a result, after storing what is there if the call fails. It may have
/// held anything before.
#[inline]
pub(crate) fn place<'a, T: Copy>(
    out: Option<&'a mut MaybeUninit<T>>,
    otherwise: T,
    what: &'static str,
) -> Result<&'a mut T> {
    let out = out.ok_or_else(|| invalid(what, "the place for the result is NULL"))?;
    Ok(out.write(otherwise))
}

/// Returns the place for a handle, which is NULL if the call fails.
pub(crate) fn handle_place<H>(out: Option<&mut MaybeUninit<*mut H>>) -> Result<&mut *mut H> {
    place(out, std::ptr::null_mut(), "a handle")
}

/// Puts what C is to hold on the heap.
pub(crate) fn held<H>(made: H) -> *mut H {
    Box::into_raw(Box::new(made))
}

/// The whole of a function that makes something for C to hold.
pub(crate) fn make<H>(
    out: Option<&mut MaybeUninit<*mut H>>,
    made: impl FnOnce() -> Result<H>,
) -> weir_status {
    call(|| {
        let to = handle_place(out)?;
        *to = held(made()?);
        Ok(())
    })
}

/// The whole of a function that frees what C held.
pub(crate) fn free<H>(held: Option<Box<H>>) {
    call(|| {
        drop(held);
        Ok(())
    });
}

/// The whole of a function that stores a descriptor for poll().
pub(crate) fn store_descriptor<'a>(
    out: Option<&mut MaybeUninit<c_int>>,
    descriptor: impl FnOnce() -> Result<BorrowedFd<'a>>,
) -> weir_status {
    call(|| {
        let out = place(out, -1, "a descriptor")?;
        *out = descriptor()?.as_raw_fd();
        Ok(())
    })
}

/// What `argument` leads to.
#[inline(always)]
pub(crate) fn given<T>(argument: Option<T>, what: &'static str) -> Result<T> {
    argument.ok_or_else(|| invalid(what, "it is NULL"))
}

#[inline(always)]
fn check(is_null: bool, count: usize) -> Result<()> {
    if is_null && count > 0 {
        return Err(invalid("a buffer", "it is NULL, and its size is not 0"));
    }
    if count > isize::MAX as usize {
        return Err(invalid("a buffer", "its size is more than there is memory"));
    }
    Ok(())
}

/// The bytes at `from`.
///
/// # Safety
/// `from` is NULL or leads to `count` bytes, which nobody changes for as long as the call lasts.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(from: *const c_void, count: usize) -> Result<&'a [u8]> {
    check(from.is_null(), count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: by this function's contract; it is not NULL, and `count` is in range.
    Ok(unsafe { std::slice::from_raw_parts(from.cast(), count) })
}

/// The buffer at `to`.
///
/// # Safety
/// `to` is NULL or leads to `count` bytes, which nobody else uses for as long as the call lasts.
#[inline(always)]
pub(crate) unsafe fn buffer<'a>(to: *mut c_void, count: usize) -> Result<&'a mut [u8]> {
    check(to.is_null(), count)?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: by this function's contract; it is not NULL, and `count` is in range.
    Ok(unsafe { std::slice::from_raw_parts_mut(to.cast(), count) })
}

/// The lengths for which the library's copy is four words. Where the compiler knows so, a function that
/// moves a record need not save what a call to memcpy would spoil.
const SHORT_BYTES: RangeInclusive<usize> = 16..=64;

/// The bytes at `from`, if they are so few that they are copied without a call.
///
/// # Safety
/// That of [`bytes`].
#[inline(always)]
pub(crate) unsafe fn short<'a>(from: *const c_void, count: usize) -> Option<&'a [u8]> {
    if from.is_null() || !SHORT_BYTES.contains(&count) {
        return None;
    }
    // SAFETY: by this function's contract; it is not NULL, and `count` is in range.
    Some(unsafe { std::slice::from_raw_parts(from.cast(), count) })
}

/// The buffer at `to`, if what fills it is copied without a call.
///
/// # Safety
/// That of [`buffer`].
#[inline(always)]
pub(crate) unsafe fn short_buffer<'a>(to: *mut c_void, count: usize) -> Option<&'a mut [u8]> {
    if to.is_null() || !SHORT_BYTES.contains(&count) {
        return None;
    }
    // SAFETY: by this function's contract; it is not NULL, and `count` is in range.
    Some(unsafe { std::slice::from_raw_parts_mut(to.cast(), count) })
}

/// The text at `from`.
///
/// # Safety
/// `from` is NULL or a string that ends with a NUL, which nobody changes for as long as the call
/// lasts.
pub(crate) unsafe fn text<'a>(from: *const c_char, what: &'static str) -> Result<&'a CStr> {
    if from.is_null() {
        return Err(invalid(what, "it is NULL"));
    }
    // SAFETY: by this function's contract; it is not NULL.
    Ok(unsafe { CStr::from_ptr(from) })
}

/// The path at `from`.
///
/// # Safety
/// That of [`text`].
pub(crate) unsafe fn path<'a>(from: *const c_char) -> Result<&'a Path> {
    // SAFETY: by this function's contract.
    let text = unsafe { text(from, "a name") }?;
    Ok(OsStr::from_bytes(text.to_bytes()).as_ref())
}

/// A descriptor that C lends for the call.
pub(crate) fn descriptor<'a>(number: c_int) -> Result<BorrowedFd<'a>> {
    if number < 0 {
        return Err(invalid("a descriptor", "its number is negative"));
    }
    // SAFETY: the number is not -1. If it is not open, the kernel says so: nothing here relies on
    // what it leads to.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// How long a call waits: a negative number waits for ever.
#[inline(always)]
pub(crate) fn timeout(timeout_ns: i64) -> Timeout {
    match u64::try_from(timeout_ns) {
        Err(_) => Timeout::Never,
        Ok(0) => Timeout::Now,
        Ok(ns) => Timeout::After(Duration::from_nanos(ns)),
    }
}
