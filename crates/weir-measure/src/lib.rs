//! Measuring: where the processes of a pipeline spend their time, and which conclusions paired runs
//! allow.
//!
//! - [`attribution`]: the sampler, which finds out for what tasks wait.
//! - [`runner`]: starts the stages of a pipeline, measures them, and reaps them; the result is a
//!   [`weir_doctor::facts::Run`].
//! - [`pairs`]: statistics of paired runs.
//! - `program`: what the file of a program shows.
//! - [`hot`]: the functions in which processes compute.
//! - [`oom`]: processes that the kernel killed because memory had run out.
//! - [`host_pipes`]: all pipes between processes on this host.
//! - [`host_cpu`], [`cgroup`], [`quota`]: other uses of the CPUs, and limits on their use.
//! - `confines`: what the control group of one stage withheld from it.
//! - [`mod@why`]: what a process waits for, and for whom.
//! - `lives`: the processes of a run, as the kernel's events tell them.
//! - `trace`: every switch of the CPUs from and to the tasks of a run.
//! - [`sys`]: system calls.
//! - [`clock`], [`machine`], [`programs`]: time, limits of the host, what is installed.

#![deny(unsafe_code)]

pub mod attribution;
mod bytes;
pub mod cgroup;
pub mod clock;
mod confines;
pub mod host_cpu;
pub mod host_pipes;
pub mod hot;
mod lives;
pub mod machine;
mod netlink;
pub mod oom;
pub mod pairs;
pub mod pipe_room;
mod program;
pub mod programs;
pub mod quota;
pub mod runner;
#[allow(unsafe_code, reason = "system calls that rustix lacks")]
pub mod sys;
mod trace;
pub mod why;
