//! System calls that the libraries need and rustix does not offer.
//!
//! For the library:
//!
//! - [`bell`]: event counters that wake who polls them.
//! - [`forks`]: descriptors that forked children do not keep.
//! - [`peer`]: the process at the other end of a socket. [`rights`]: messages that bring descriptors.
//! - [`threads`], [`signals`]: the library's own threads.
//! - [`spill`]: a file without a name, and engines that move memory to and from it.
//! - [`userfault`]: page faults that this process serves itself.
//! - [`gather`]: one write of two pieces of memory.
//! - [`rests`]: instructions by which a loop rests between two looks, and hints that fetch lines.
//!
//! For several other crates:
//!
//! - [`proc`]: the only reader of `/proc`. [`cpu`]: CPU time of another process.
//! - [`namespace`]: namespaces of networks and mounts.
//! - [`places`]: where files are kept.
//! - [`mapping`]: memory. [`words`]: a file as words that several processes share.
//! - [`overlay`], for profiles: words in static memory that can be replaced by a file.
//!
//! This is one of the few crates of the workspace that may use `unsafe`. Every block names its
//! invariant.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("weir runs on 64-bit Linux only");

pub mod bell;
pub mod cpu;
pub mod forks;
pub mod gather;
pub mod mapping;
pub mod namespace;
pub mod overlay;
pub mod peer;
pub mod places;
pub mod proc;
pub mod rests;
pub mod rights;
pub mod signals;
pub mod spill;
pub mod threads;
pub mod userfault;
pub mod words;

/// The type that `statfs` reports for a file system in memory.
pub const TMPFS_MAGIC: u64 = libc::TMPFS_MAGIC as u64;

/// Whether this process may write a file up to `end`. Beyond its limit the kernel would send
/// SIGXFSZ.
pub fn may_reach(end: u64) -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    limit.is_none_or(|limit| end <= limit)
}

/// Turns the result of a system call into the error that it left behind, if it is negative.
pub fn check<N: PartialOrd + Default>(code: N) -> std::io::Result<N> {
    if code < N::default() { Err(std::io::Error::last_os_error()) } else { Ok(code) }
}

/// A process or thread id as the kernel counts them; always positive here.
pub type Pid = i32;
