//! Statics that each process has one of.

use std::sync::{Mutex, OnceLock, PoisonError};
use weir_sys::forks;

/// One `T` for each process. A forked child makes its own and does not touch its parent's, whose
/// locks another thread may have held at the fork.
pub struct PerProcess<T> {
    own: OnceLock<T>,
    /// Held by the thread that makes `own` where that may fail.
    making: Mutex<()>,
    child: OnceLock<Box<PerProcess<T>>>,
}

impl<T> PerProcess<T> {
    pub const fn new() -> PerProcess<T> {
        PerProcess { own: OnceLock::new(), making: Mutex::new(()), child: OnceLock::new() }
    }

    /// The `T` of this process, made by `make` at the first call.
    pub fn get(&self, make: impl FnOnce() -> T) -> &T {
        self.here().own.get_or_init(make)
    }

    /// As [`PerProcess::get`], for a `T` that cannot always be made: the next call tries again.
    pub fn get_or_try<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let here = self.here();
        if let Some(own) = here.own.get() {
            return Ok(own);
        }
        let _making = here.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = here.own.get() {
            return Ok(own);
        }
        let made = make()?;
        Ok(here.own.get_or_init(|| made))
    }

    fn here(&self) -> &PerProcess<T> {
        let mut here = self;
        for _ in 0..forks::epoch() {
            let child: &Box<_> = forks::get_or_make(&here.child, || Box::new(PerProcess::new()));
            here = child;
        }
        here
    }
}
