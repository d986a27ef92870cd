//! Copies between shared memory and private memory, and the hints that go before them.

use std::ops::RangeInclusive;
use weir_sys::rests;

pub use weir_sys::rests::prefetch;

/// Asks for the lines of a range that is written soon, the first 4 KiB of it. This is a hint.
///
/// A CPU that stores to lines that another CPU has fetches few of them at once. Asked for beforehand,
/// they travel together.
#[inline]
pub fn prefetch_to_write(start: *mut u8, bytes: usize) {
    for at in (0..bytes.min(4096)).step_by(64) {
        rests::prefetch_to_write(start.wrapping_add(at));
    }
}

/// The copies that are inlined, as words that overlap in the middle.
pub const SHORT_BYTES: RangeInclusive<usize> = 4..=64;

/// Copies bytes.
///
/// # Safety
/// As for `ptr::copy_nonoverlapping`. That includes data races: no other thread of this process
/// writes what is read, or touches what is written. Another process may: see [the module](super).
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    match bytes {
        // SAFETY: the caller's promise.
        16..=64 => unsafe { copy_long_words(from, to, bytes) },
        // SAFETY: as above.
        4..=15 => unsafe { copy_short_words(from, to, bytes) },
        // SAFETY: as above.
        _ => unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) },
    }
}

/// Copies bytes, by a call. This is for what is seldom copied.
///
/// # Safety
/// As for [`copy`].
#[cold]
#[inline(never)]
pub unsafe fn copy_far(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
}

/// Copies as many bytes as are short.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn copy_short(from: *const u8, to: *mut u8, bytes: usize) {
    debug_assert!(SHORT_BYTES.contains(&bytes), "it is short");
    if bytes >= 16 {
        // SAFETY: the caller's promise.
        unsafe { copy_long_words(from, to, bytes) };
    } else {
        // SAFETY: as above.
        unsafe { copy_short_words(from, to, bytes) };
    }
}

/// Copies 16 to 64 bytes.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_long_words(from: *const u8, to: *mut u8, bytes: usize) {
    let word = |at: usize| {
        // SAFETY: both are valid for `bytes`, and `at` is at most 16 before their end.
        unsafe { copy_word::<16>(from.wrapping_add(at), to.wrapping_add(at)) };
    };
    word(0);
    if bytes > 32 {
        word(16);
    }
    if bytes > 48 {
        word(bytes - 32);
    }
    word(bytes - 16);
}

/// Copies 4 to 15 bytes.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_short_words(from: *const u8, to: *mut u8, bytes: usize) {
    match bytes {
        // SAFETY: the caller's promise.
        4 => unsafe { copy_word::<4>(from, to) },
        5..=8 => {
            // SAFETY: both are valid for `bytes`, and this is the beginning.
            unsafe { copy_word::<4>(from, to) };
            let last = bytes - 4;
            // SAFETY: as above; this is the end.
            unsafe { copy_word::<4>(from.wrapping_add(last), to.wrapping_add(last)) };
        }
        _ => {
            // SAFETY: both are valid for `bytes`, and this is the beginning.
            unsafe { copy_word::<8>(from, to) };
            let last = bytes - 8;
            // SAFETY: as above; this is the end.
            unsafe { copy_word::<8>(from.wrapping_add(last), to.wrapping_add(last)) };
        }
    }
}

/// Copies so many bytes at once.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_word<const BYTES: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, BYTES) };
}
