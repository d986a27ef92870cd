//! Pipes and ports in use, seen from outside: their accounts and their sizes.

pub mod stat;
pub mod tune;
