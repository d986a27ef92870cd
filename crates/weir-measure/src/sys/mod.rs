//! System calls that only the measurer needs and rustix does not offer.
//!
//! - [`wait`], [`usage`]: reap a child with its resource use; report this process's own use.
//! - [`spawn`], [`fork`]: start a child with some standard descriptors closed, or a forked copy.
//! - [`signals`]: changes how signals are handled, and dies of a signal.
//! - [`socket`]: reads the kernel's figures on a TCP connection.
//! - [`perf`]: samples of program counters.
//! - [`bpf`]: programs that run in the kernel, at its tracepoints.
//! - [`sched`], [`memory`], [`locale`]: set scheduling classes, read a few bytes of another process,
//!   find installed locales.

pub mod bpf;
pub mod fork;
pub mod locale;
pub mod memory;
pub mod perf;
pub mod sched;
pub mod signals;
pub mod socket;
pub mod spawn;
pub mod usage;
pub mod wait;

pub use weir_sys::Pid;
use weir_sys::check;
