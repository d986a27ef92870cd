//! Pipes of bytes and of records: their ends, and how ends get to other processes.

pub mod claim;
pub mod connection;
pub mod defaults;
pub mod duplex;
pub mod end;
pub mod endpoint;
pub mod handle;
pub mod options;
pub mod record;
pub mod socket;
pub mod storage;
pub mod stream;
mod wait;
