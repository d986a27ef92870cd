//! The memory of a link. All `unsafe` of this crate is here.

mod link;
#[cfg(test)]
pub(crate) mod tests;

pub use link::{LinkExtent, LinkHere, LinkMap, MOST_ARENA_BYTES, MOST_CHANNELS};
