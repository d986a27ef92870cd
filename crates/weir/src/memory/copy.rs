//! Copies between shared memory and private memory.

/// Copies bytes. Short copies are inlined, as words that overlap in the middle.
///
/// # Safety
/// As for `ptr::copy_nonoverlapping`. That includes data races: no other thread of this process
/// writes what is read, or touches what is written. Another process may: see [the module](super).
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    match bytes {
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
        _ => unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) },
    }
}
