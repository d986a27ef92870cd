//! All `unsafe` of this crate: Python's buffers, and the memory that the processes of a queue
//! share.
//!
//! # Who may touch which bytes
//! [`buffer`] reads and writes objects of Python. Other threads of Python may write a buffer while
//! it is copied, as they may while any C code reads it: bytes that are copied then are old, new,
//! or some of each, and any bytes are a value. [`shared`] is the memory of a queue: its words are
//! atomics, and its other bytes belong to whoever holds one of its two locks.

mod blocks;
mod buffer;
mod loan;
mod raw;
mod shared;

pub use buffer::{Fresh, Source, references, text_of};
pub use loan::{Lender, lend_record};
pub use shared::{Guard, Header, PAGE_BYTES, Peer, RingWords, Shared, Side, duplicate};
