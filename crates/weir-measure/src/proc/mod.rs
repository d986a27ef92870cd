//! Files of `/proc` beyond those that [`weir_sys::proc`] reads: who a process is, what its
//! descriptors refer to, what it moved, and the call in which it is blocked.

pub(crate) mod elf;
mod fd;
mod ids;
mod io;
mod mounts;
mod signals;
mod syscall;
mod uncounted;

pub use fd::{
    Descriptor, FileKind, access, behind_pidfd, borrow, descriptor, descriptors, epoll_interest,
    is_anonymous_pipe, is_nonblocking, link, pidfd, position, program_file, regular, special,
};
pub use ids::{
    ProcessIdentity, children, gid, identity, is_child, is_taken, largest_id, last_id, name,
    name_in, status, uid,
};
pub use io::{field, number, parse_io, peak_rss_bytes, read_whole, words, words_in};
pub use mounts::Mount;
pub use signals::{CHILD, bit, is_handled_alarm, may_be_for_a_child, that_end_a_wait};
pub use syscall::Blocked;
pub use uncounted::{device_in, is_served, may_move_uncounted};
