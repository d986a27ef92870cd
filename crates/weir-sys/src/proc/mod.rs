//! Readers of `/proc`, by file. See `proc(5)`.
//!
//! Parsers take bytes and never fail loudly: `None` is "not of that form", which callers treat as
//! "not known". Files that are read again and again are kept open ([`ProcFile`]); a descriptor
//! opened while a process lived can still be read when it is a zombie, even where opening the
//! file anew would be refused.

mod file;
mod stat;

pub use file::{ProcFile, is_own, processes, read_small, refuse_foreign, tasks};
pub use stat::{Sched, Stat};
