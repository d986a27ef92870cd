//! Files of `/proc` beyond those that [`weir_sys::proc`] reads: who a process is, what its
//! descriptors refer to, what it moved, and the call in which it is blocked.

mod fd;
mod ids;
mod io;
mod syscall;

pub use fd::{Descriptor, FileKind, borrow, descriptor, epoll_interest, is_anonymous_pipe, pidfd};
pub use ids::{Identity, identity, is_child, is_taken, largest_id, last_id};
pub use io::{field, number, parse_io, peak_rss_bytes};
pub use syscall::Blocked;
