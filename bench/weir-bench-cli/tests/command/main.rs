//! The tests of `weir bench`, `compare` and `history`, in one program.

mod bench;
mod common;
mod compare_runs;
mod saved;
