//! What the libraries need of Linux and rustix does not offer.
//!
//! - [`proc`], [`cpu`]: readers of `/proc`, and CPU time of another process.
//! - [`forks`]: descriptors that forked children do not keep.
//! - [`peer`]: the process at the other end of a socket.
//! - [`threads`], [`signals`]: threads of the library's own.
//! - [`spill`]: a file without a name, and engines that move memory to and from it.
//! - [`tun`], [`gather`]: a TUN device, and a write to it of two pieces of memory.
//! - [`namespace`]: namespaces of networks and mounts.
//! - [`mapping`]: anonymous memory. [`words`]: a file as words that several processes share.
//!   [`overlay`]: static words that a file can be laid over.
//!
//! This is one of the few places of the workspace where `unsafe` may stand; every block names
//! its invariant.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("weir runs on 64-bit Linux only");

pub mod cpu;
pub mod forks;
pub mod gather;
pub mod mapping;
pub mod namespace;
pub mod overlay;
pub mod peer;
pub mod proc;
pub mod signals;
pub mod spill;
pub mod threads;
pub mod tun;
pub mod words;

/// The type of a file system in memory, as `statfs` tells it.
pub const TMPFS_MAGIC: u64 = libc::TMPFS_MAGIC as u64;

/// A process or thread id as the kernel counts them; always positive here.
pub type Pid = i32;
