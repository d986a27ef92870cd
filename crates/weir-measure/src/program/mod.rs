//! What the file of a program shows.

pub mod elf;
mod uncounted;

pub use uncounted::{is_served, may_move_uncounted};
