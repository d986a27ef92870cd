//! Memory for long arrays that were received.
//!
//! A new array of many megabytes costs more in page faults than in copying. So a block has huge
//! pages where the kernel gives them, and the last ones that were given back are kept for the next
//! arrays.

use std::alloc::{Layout, alloc, dealloc};
use std::sync::{Mutex, PoisonError};

/// A huge page.
const ALIGN: usize = 2 << 20;
/// Blocks that are kept, and the most bytes of them together.
const KEPT: usize = 2;
const MOST_KEPT_BYTES: usize = 256 << 20;

/// Blocks by address and length.
static FREE: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_next_multiple_of(ALIGN)?.max(ALIGN), ALIGN).ok()
}

/// A block of at least so many bytes, or null.
pub fn take(bytes: usize) -> *mut u8 {
    let Some(layout) = layout(bytes) else { return std::ptr::null_mut() };
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = free.iter().position(|(_, kept)| *kept == layout.size()) {
        return std::ptr::with_exposed_provenance_mut(free.swap_remove(place).0);
    }
    drop(free);
    // SAFETY: the layout has bytes.
    let start = unsafe { alloc(layout) };
    if !start.is_null() {
        let advice = rustix::mm::Advice::LinuxHugepage;
        // SAFETY: the block is new; the advice changes none of its bytes.
        let _ = unsafe { rustix::mm::madvise(start.cast(), layout.size(), advice) };
    }
    start
}

/// Takes a block of so many bytes back.
pub fn give_back(start: *mut u8, bytes: usize) {
    let Some(own) = layout(bytes) else { return };
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    free.push((start.expose_provenance(), own.size()));
    while free.len() > KEPT || free.iter().map(|(_, kept)| kept).sum::<usize>() > MOST_KEPT_BYTES {
        let (start, bytes) = free.remove(0);
        let Some(layout) = layout(bytes) else { return };
        let start = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: `take` got it by this layout, and nobody has it any more.
        unsafe { dealloc(start, layout) };
    }
}
