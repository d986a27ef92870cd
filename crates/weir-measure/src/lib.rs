//! Measuring: where the processes of a pipeline spend their time, and what may be concluded from
//! paired runs.
//!
//! - [`attribution`]: the sampler, which sees what tasks wait for.
//! - [`runner`]: starts the stages of a pipeline, measures them, and reaps them; it gives a
//!   [`weir_doctor::facts::Run`].
//! - [`mod@bench`]: the engine of `weir bench`: cells, placements, estimates, the report.
//! - [`pairs`]: what may be concluded from paired runs.
//! - [`proc`]: readers of `/proc`.
//! - [`oom`]: processes that the kernel killed for want of memory.
//! - [`host_cpu`], [`cgroup`], [`quota`]: what else the CPUs did, and limits on their use.
//! - [`clock`], [`machine`], [`random`]: time, limits of the host, repeatable chance.

#![forbid(unsafe_code)]

pub mod attribution;
pub mod bench;
pub mod cgroup;
pub mod clock;
pub mod host_cpu;
pub mod machine;
pub mod oom;
pub mod pairs;
pub mod proc;
pub mod quota;
pub mod random;
pub mod runner;
