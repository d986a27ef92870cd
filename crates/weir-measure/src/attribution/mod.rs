//! Attribution: where the tasks of a pipeline spend their time, seen from outside and without
//! privilege.
//!
//! In the order of flow:
//! - [`tree`](self): finds the processes and threads of each stage as they come and go;
//! - `pipes`: samples the fill of each pipe, and enlarges one in use;
//! - `classify`: finds the state of one task from the system call in which it is blocked;
//! - `record`: what is known of one process, by samples and by the kernel's events;
//! - `rows`: looks inside of a stage, at each process that it starts;
//! - `peers`, `diag`: find the other end of a socket for which a task waits;
//! - `outside`, `tcp`: look at what is there while somebody waits for it;
//! - `files`: names the files and devices for which a task waits;
//! - `births`: estimates how many processes were started, most of them never seen;
//! - `position`: how far a process came in the file that it reads;
//! - `signals`: the signals that let a thread continue;
//! - `locale`: finds the locale by which a program compares text;
//! - `dry`: what is waiting for input and looks like work;
//! - `course`: keeps what each stage spent its time on, from which phases are cut;
//! - `family`: what copies of a process did together with it;
//! - `sampler`: at each tick, the state of each group of tasks, weighted by time.
//!
//! The runner reads the exact figures (CPU time, waiting for a CPU, bytes, memory) when a stage
//! ends; samples only divide the remaining time.

mod bash;
mod births;
pub(crate) mod calls;
pub(crate) mod classify;
mod course;
mod diag;
mod dry;
mod family;
pub(crate) mod files;
mod group;
mod locale;
mod outside;
pub(crate) mod peers;
mod pipes;
mod position;
mod process;
mod record;
mod rows;
mod sampler;
pub(crate) mod signals;
mod tcp;
mod tree;

pub use bash::Places;
pub use births::{Births, Census};
pub use classify::{Endpoints, Hints};
pub use files::{Files, shared};
pub use group::{Group, MoreEnd};
pub use outside::Peers;
pub use pipes::{Fill, PipeTotals, PipeWatch};
pub(crate) use process::by_letter;
pub use process::{Process, Unreaped, counted};
pub(crate) use record::ending_of;
pub use record::{ProcessRecord, ending};
pub use rows::{Rows, is_named, regular_file};
pub use sampler::{Grouping, Sampler};
