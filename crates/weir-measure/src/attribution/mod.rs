//! Where the tasks of a pipeline spend their time, seen from outside and without privilege.
//!
//! In the order of flow:
//! - [`tree`](self): finds the processes and threads of each stage as they come and go;
//! - `pipes`: how full each pipe is, and enlarging one in use;
//! - `classify`: the state of one task, from the system call it is blocked in;
//! - `sampler`: at each tick, the state of each group of tasks, weighted by time.
//!
//! What is exact (CPU time, waiting for a CPU, bytes, memory) is read by the runner when a stage
//! ends; samples only say what the rest was spent on.

mod classify;
mod group;
mod pipes;
mod process;
mod sampler;
mod tree;

pub use classify::{Endpoints, Hints};
pub use group::Group;
pub use pipes::{Fill, PipeWatch};
pub use process::Process;
pub use sampler::{Grouping, Sampler};
