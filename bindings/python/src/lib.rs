//! weir for Python: the extension module `weir._weir`, under the package `weir`.
//!
//! [`queue`] is what `weir.Queue` is built on, with [`items`] for its objects; [`ends`] and
//! [`flags`] are classes of their own. All `unsafe` is in [`memory`].
#![deny(unsafe_code)]

mod ends;
mod errors;
mod flags;
mod items;
#[allow(unsafe_code)]
mod memory;
mod peers;
mod plain;
mod queue;
mod wait;

/// The extension module. A free-threaded Python takes its lock back for it: what exports memory
/// counts its views under that lock.
#[pyo3::pymodule(gil_used = true)]
mod _weir {
    #[pymodule_export]
    use crate::ends::{Message, PyPort, PyPortWriter, Reader, RecordReader, RecordWriter, Writer};
    #[pymodule_export]
    use crate::ends::{pipe, records};
    #[pymodule_export]
    use crate::flags::Flags;
    #[pymodule_export]
    use crate::queue::QueueRing;
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
