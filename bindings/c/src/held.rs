//! An end that C holds, and what tells others that it is freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An end that C holds. The waits to which it was added hear when it is freed.
pub(crate) struct Held<E> {
    pub end: E,
    life: Life,
}

/// Whether an end is freed.
#[derive(Default)]
struct Life(Arc<AtomicBool>);

impl Drop for Life {
    fn drop(&mut self) {
        // Relaxed: the same thread asks, or one that C has ordered with this one.
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<E> Held<E> {
    pub fn new(end: E) -> Held<E> {
        Held { end, life: Life::default() }
    }

    /// What says later whether the end is freed.
    pub fn is_freed(&self) -> Arc<AtomicBool> {
        self.life.0.clone()
    }
}
