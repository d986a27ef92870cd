//! Linux facilities that only the suites of the bench need and that rustix lacks.
//!
//! - [`shared`], [`robust`]: memory for two processes or of a file, and a robust mutex in it.
//! - [`floor`], [`filter`], [`uring`]: system calls that do nothing, filters for them, an io_uring.
//! - [`mq`], [`swap`]: message queues, swap areas.
//! - [`stores`]: a wait until the stores of this CPU are seen.
//! - [`sequential`]: the rate of a disk when a spill file is written and read.

pub mod filter;
pub mod floor;
pub mod mq;
pub mod robust;
pub mod sequential;
pub mod shared;
pub mod stores;
pub mod swap;
pub mod uring;
