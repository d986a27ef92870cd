//! Readers of `/proc`, by file. See `proc(5)`.
//!
//! Parsers take bytes. They return `None` for bytes of another form, which callers treat as "not
//! known". Files that are read repeatedly are kept open ([`ProcFile`]): a descriptor that was opened
//! while a process lived can still be read when it is a zombie, even if the file could not be opened
//! any more.

mod file;
mod stat;

pub use file::{ProcFile, is_own, processes, read_small, refuse_foreign, tasks};
pub use stat::{Sched, Stat};
