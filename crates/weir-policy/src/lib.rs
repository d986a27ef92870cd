//! The decisions of the library: no clock, no input or output, no unsafe code.
//!
//! Facts come in, decisions go out, so that the same code runs on the real machine, in a model of
//! one, and in a test that writes the facts down by hand.
//!
//! - [`pipe`]: the sizes of weir's own pipe, when to wake, how long to spin, when to back off.
//! - [`ready`]: which of many channels is next, and for how long.
//! - [`arena`]: who has which blocks of an arena.
//! - [`paging`]: which pages of a region come, stay and go, and when a whole region goes.
//! - [`pool`]: which blocks are written, when, and when they are read back.
//! - [`random`]: numbers that follow from a seed.
//! - [`size`]: sizes in bytes, as people write them.
//! - [`text`]: which foreign text may be shown on a terminal.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod arena;
pub mod paging;
pub mod pipe;
pub mod pool;
pub mod random;
pub mod ready;
pub mod size;
pub mod text;
