//! Readers of `/proc`, by file. See `proc(5)`.
//!
//! Parsers take bytes and never fail loudly: `None` is "not of that form", which callers treat as
//! "not known". Files that are read again and again are kept open ([`ProcFile`]); a descriptor
//! opened while a process lived can still be read when it is a zombie, even where opening the
//! file anew would be refused.

mod fd;
mod file;
mod ids;
mod stat;
mod syscall;

pub use fd::{Descriptor, Kind, descriptor, epoll_interest};
pub use file::{ProcFile, is_own, read_small};
pub use ids::{Identity, identity, is_child, is_taken, largest_id, last_id, processes, tasks};
pub use stat::{Io, Sched, Stat, peak_rss_bytes};
pub use syscall::Blocked;
