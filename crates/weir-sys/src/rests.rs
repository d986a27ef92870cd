//! Instructions by which a loop rests between two looks at memory, and hints that fetch lines.
//!
//! They change when the next look is made, and nothing else: no order of accesses follows from them.
//! A program that needs one uses [`std::sync::atomic::fence`]. `std` offers only `spin_loop`, and lets
//! the compiler choose how to make a full fence (on x86-64, a locked instruction that takes 2 to 3 ns).

/// Waits until the loads of this CPU have their values. So a look does not begin before the last one
/// is over. Some 5 ns (`lfence`); a hint to the CPU where there is no such instruction.
#[inline(always)]
pub fn wait_for_loads() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: LFENCE (SSE2, which x86-64 has) touches neither memory, stack nor flags.
    unsafe {
        std::arch::asm!("lfence", options(nomem, nostack, preserves_flags))
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::hint::spin_loop();
}

/// Asks for the line of a place that is read soon. This is a hint.
#[inline(always)]
pub fn prefetch(place: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect that the program can see, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Asks for the line of a place that is written soon, and takes it from other CPUs (`prefetchw`).
/// This is a hint.
///
/// `_mm_prefetch` with `_MM_HINT_ET0` leaves it with them, unless the program is compiled for a CPU
/// that has the instruction. A CPU that does not have it does nothing.
#[inline(always)]
pub fn prefetch_to_write(place: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect that the program can see, wherever it points.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags))
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}
