//! Plumbing between processes, measured.
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(target_os = "linux"))]
compile_error!("weir runs on Linux only");

pub mod error;
#[cfg(not(loom))]
mod map;
mod primitive;
#[doc(hidden)]
pub mod ring;

pub use error::{Error, ErrorKind, Result};
