//! What only the measurer needs of Linux and rustix does not offer.
//!
//! - [`wait`], [`usage`]: reaping a child together with its resource use; what this process used.
//! - [`spawn`], [`fork`]: starting a child with some standard descriptors closed; a second process.
//! - [`signals`]: dispositions, and dying of a signal.
//! - [`sched`], [`memory`], [`locale`]: scheduling classes, reading a few bytes of another process,
//!   whether a locale is installed.

pub mod fork;
pub mod locale;
pub mod memory;
pub mod sched;
pub mod signals;
pub mod spawn;
pub mod usage;
pub mod wait;

pub use weir_sys::Pid;
