//! Statics that each process has one of.

use std::sync::OnceLock;
use weir_sys::forks;

/// One `T` for each process. A forked child makes its own and does not touch its parent's, whose
/// locks another thread may have held at the fork.
pub struct PerProcess<T> {
    own: OnceLock<T>,
    child: OnceLock<Box<PerProcess<T>>>,
}

impl<T> PerProcess<T> {
    pub const fn new() -> PerProcess<T> {
        PerProcess { own: OnceLock::new(), child: OnceLock::new() }
    }

    /// The `T` of this process, made by `make` at the first call.
    pub fn get(&self, make: impl FnOnce() -> T) -> &T {
        let mut here = self;
        for _ in 0..forks::epoch() {
            let child: &Box<_> = forks::get_or_make(&here.child, || Box::new(PerProcess::new()));
            here = child;
        }
        here.own.get_or_init(make)
    }
}
