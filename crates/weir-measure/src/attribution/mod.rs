//! Where the tasks of a pipeline spend their time, seen from outside and without privilege.
//!
//! In the order of flow:
//! - [`tree`](self): finds the processes and threads of each stage as they come and go;
//! - `pipes`: how full each pipe is, and enlarging one in use;
//! - `classify`: the state of one task, from the system call it is blocked in;
//! - `peers`: who is at the other end of a socket that is waited for;
//! - `births`: how many processes were started, most of them never seen;
//! - `locale`: by which rules a program compares text;
//! - `sampler`: at each tick, the state of each group of tasks, weighted by time.
//!
//! What is exact (CPU time, waiting for a CPU, bytes, memory) is read by the runner when a stage
//! ends; samples only say what the rest was spent on.

mod births;
mod calls;
mod classify;
mod group;
mod locale;
mod peers;
mod pipes;
mod process;
mod sampler;
mod tree;

pub use births::{Births, Census};
pub use classify::{Endpoints, Hints};
pub use group::{Group, Unreaped};
pub use peers::Peers;
pub use pipes::{Fill, PipeTotals, PipeWatch};
pub use process::Process;
pub use sampler::{Grouping, Sampler};
