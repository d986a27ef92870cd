//! What weir needs of Linux and rustix does not offer.
//!
//! - [`proc`]: readers of `/proc`, each a pure parser beside a file kept open.
//! - [`calls`]: system call numbers grouped by what a caller waits for.
//! - [`memory`]: reading a few bytes of another process.
//! - [`wait`]: reaping a child together with its resource use.
//! - [`spawn`]: starting a child with some standard descriptors closed.
//! - [`signals`]: dispositions, and dying of a signal.
//! - [`locale`]: whether a locale is installed.
//! - [`peer`]: the process at the other end of a socket.
//! - [`forks`]: descriptors that forked children do not keep.
//! - [`threads`]: threads of the library's own.
//! - [`spill`]: a file without a name, and engines that move memory to and from it.
//! - [`fork`], [`shared`], [`usage`], [`sched`]: a second process, memory for both, what they used.
//! - [`tun`], [`gather`]: a TUN device, and a write to it of two pieces of memory.
//! - [`words`]: a file as words that several processes share; [`overlay`]: static words that a
//!   file can be laid over.
//! - [`robust`]: a robust mutex for processes that share memory.
//! - [`floor`], [`filter`], [`uring`], [`mq`], [`filemap`], [`swap`], [`namespace`]: what is
//!   measured, or measured in.
//! - [`startup`]: which standard descriptors were closed, and SIGPIPE ignored, before `main`.
//!
//! This is one of the few places of the workspace where `unsafe` may stand; every block names
//! its invariant.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("weir runs on 64-bit Linux only");

pub mod calls;
pub mod filemap;
pub mod filter;
pub mod floor;
pub mod fork;
pub mod forks;
pub mod gather;
pub mod locale;
pub mod memory;
pub mod mq;
pub mod namespace;
pub mod overlay;
pub mod peer;
pub mod proc;
pub mod robust;
pub mod sched;
pub mod shared;
pub mod signals;
pub mod spawn;
pub mod spill;
pub mod startup;
pub mod swap;
pub mod threads;
pub mod tun;
pub mod uring;
pub mod usage;
pub mod wait;
pub mod words;

/// A process or thread id as the kernel counts them; always positive here.
pub type Pid = i32;
