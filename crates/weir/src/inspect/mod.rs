//! The accounts and sizes of pipes and ports in use, read and set from outside.

pub mod stat;
pub mod tune;
