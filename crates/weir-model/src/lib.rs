//! Machines in virtual time.

#![forbid(unsafe_code)]

pub mod bbn;
pub mod disk;
pub mod heap;
pub mod kernel;
pub mod machine;
pub mod outcome;
pub mod published;
pub mod random;
