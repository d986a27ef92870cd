//! weir for Python: the extension module `weir._weir`, under the package `weir`.
//!
//! [`queue`] is what `weir.Queue` is built on. All `unsafe` is in [`memory`].
#![deny(unsafe_code)]

mod errors;
#[allow(unsafe_code)]
mod memory;
mod peers;
mod queue;
mod wait;

/// The extension module.
#[pyo3::pymodule]
mod _weir {
    #[pymodule_export]
    use crate::queue::QueueRing;
}
