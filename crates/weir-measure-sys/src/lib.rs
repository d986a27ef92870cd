//! System calls that only the measurer needs and rustix does not offer.
//!
//! - [`wait`], [`usage`]: reaps a child with its resource use; reports this process's own.
//! - [`spawn`], [`fork`]: starts a child with some standard descriptors closed, or a forked copy.
//! - [`signals`]: dispositions, and dying of a signal.
//! - [`socket`]: the kernel's figures on a TCP connection.
//! - [`sched`], [`memory`], [`locale`]: scheduling classes, reading a few bytes of another process,
//!   finding installed locales.

pub mod fork;
pub mod locale;
pub mod memory;
pub mod sched;
pub mod signals;
pub mod socket;
pub mod spawn;
pub mod usage;
pub mod wait;

pub use weir_sys::Pid;
