//! A rest of the bare rings that the library does not have.

/// Waits until other CPUs can see the stores of this one. So a look does not meet a message of this
/// side that is still on its way out. Some 16 ns (`mfence`), and longer while a store waits for its
/// line; a full fence where there is no such instruction.
#[inline(always)]
pub fn wait_for_stores() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: MFENCE (SSE2, which x86-64 has) touches neither memory, stack nor flags.
    unsafe {
        std::arch::asm!("mfence", options(nomem, nostack, preserves_flags))
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
