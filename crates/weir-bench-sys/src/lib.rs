//! What only the suites of the bench need of Linux and rustix does not offer: what is measured, or
//! measured in.
//!
//! - [`shared`], [`robust`]: memory for two processes or of a file, and a robust mutex in it.
//! - [`floor`], [`filter`], [`uring`]: system calls that do nothing, a filter for them, a ring.
//! - [`mq`], [`swap`]: message queues, swap areas.
//! - [`sequential`]: what a disk gives when a spill file is written and read.

pub mod filter;
pub mod floor;
pub mod mq;
pub mod robust;
pub mod sequential;
pub mod shared;
pub mod swap;
pub mod uring;
