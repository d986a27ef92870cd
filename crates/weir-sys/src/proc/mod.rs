//! The only reader of `/proc`, by file. See proc(5).
//!
//! A file is named by its directory ([`ProcDir`]) and read by the type of its contents
//! (`Stat::of(pid)`), which is `None` for bytes of another form and for what is hidden or gone. Files
//! that are read repeatedly are kept open ([`ProcFile`]).
//!
//! - [`Stat`], [`Sched`], [`Io`], [`Blocked`], [`Status`]: what a process or a thread does, has used
//!   and has moved, and who it is. [`words`], [`children`] and others: single things of a process.
//! - [`Descriptor`], [`FdInfo`]: what a descriptor of another process refers to.
//! - [`Mappings`], [`Mounts`], [`ControlGroups`]: lists.
//! - [`HostFile`], [`sysctl`]: the whole host.

mod cgroup;
mod descriptor;
mod fdinfo;
mod file;
mod host;
mod io;
mod maps;
mod mounts;
mod process;
mod stat;
mod syscall;
mod text;

pub use cgroup::ControlGroups;
pub use descriptor::{
    Descriptor, FileKind, access, borrow, descriptor, descriptors, is_anonymous_pipe, link,
    may_inspect, path_of, path_of_own, pidfd, program_file, regular, special,
};
pub use fdinfo::{FdInfo, behind_pidfd, locks};
pub use file::{ProcContents, ProcDir, ProcFile, is_mounted, is_own, processes, tasks};
pub use host::{HostFile, NewestId, kernel_symbols, largest_id, sysctl};
pub use io::Io;
pub use maps::{Mapping, Mappings, own_page_map};
pub use mounts::{Mount, Mounts};
pub use process::{
    ProcessIdentity, Status, ancestors, children, children_of_thread, current_directory,
    environment, gid, has_timers, identity, is_child, is_shown, is_taken, kernel_function,
    kernel_stack, name, namespace, own_id, owner, program, program_path, seen_by, sockets, uid,
    words,
};
pub use stat::{LastRun, Sched, Stat};
pub use syscall::Blocked;
pub use text::{field, number};
