//! Copies between shared memory and private memory, and the hints that go before them.

/// Asks for the line of a place that is read soon. This is a hint.
#[inline]
pub(super) fn prefetch(place: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect that the program can see, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Asks for the lines of a range that is written soon, the first 4 KiB of it. This is a hint.
///
/// A CPU that stores to lines that another CPU has fetches few of them at once. Asked for beforehand,
/// they travel together.
#[inline]
pub(super) fn prefetch_to_write(start: *mut u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for at in (0..bytes.min(4096)).step_by(64) {
        let place = start.wrapping_add(at);
        // SAFETY: a prefetch has no effect that the program can see, wherever it points. CPUs that
        // do not know this one do nothing.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (start, bytes);
}

/// Copies bytes. Short copies are inlined, as words that overlap in the middle.
///
/// # Safety
/// As for `ptr::copy_nonoverlapping`. That includes data races: no other thread of this process
/// writes what is read, or touches what is written. Another process may: see [the module](super).
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    match bytes {
        16..=64 => {
            let word = |at: usize| {
                // SAFETY: both are valid for `bytes`, and `at` is at most 16 before their end.
                unsafe {
                    std::ptr::copy_nonoverlapping(from.wrapping_add(at), to.wrapping_add(at), 16);
                }
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
        // SAFETY: the caller's promise.
        4 => unsafe { std::ptr::copy_nonoverlapping(from, to, 4) },
        5..=8 => {
            // SAFETY: both are valid for `bytes`, and this is the beginning.
            unsafe { std::ptr::copy_nonoverlapping(from, to, 4) };
            let last = bytes - 4;
            // SAFETY: as above; this is the end.
            unsafe {
                std::ptr::copy_nonoverlapping(from.wrapping_add(last), to.wrapping_add(last), 4)
            };
        }
        // SAFETY: the caller's promise.
        _ => unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) },
    }
}
