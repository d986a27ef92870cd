//! Memory that processes share, and the frames of a pool. All `unsafe` of this crate is here.
//!
//! [`sealed`] makes memory files, and checks those that others made. [`mapping`] maps files and
//! unmaps them; it knows what a forked child has. On these two stand the memory of a pipe ([`map`]),
//! of a link ([`link`]), a page of flags or of a board ([`page`]), the header of a pipe seen from
//! outside ([`header`]), and the frames of a pool ([`frames`]), which [`transfers`] moves to a file
//! and back. [`views`] lends users a part of a pipe's memory.
//!
//! # Who may touch which bytes
//! The words of a memory are atomics. All other bytes belong to one end at a time: positions and
//! commit words, stored with Release and loaded with Acquire, hand them over. So in one process,
//! whose ends keep to the protocol, no two threads ever copy the same bytes at once. That an end
//! keeps to it is the work of `weir-ring`, and its tests run over these mappings under miri
//! (`tests::races`). A user of this crate cannot reach a mapping but through an end.
//!
//! A hostile peer is another process. It can write any byte at any time, and no order that this
//! process keeps to would hinder it. Its stores are not part of this program: a copy reads bytes
//! that are old, new, or some of each, and a reader takes any bytes for data. What is checked is
//! never copied: it is one atomic load, and the checked value is used.

mod copy;
mod frames;
mod header;
mod link;
mod map;
mod mapping;
mod page;
mod sealed;
#[cfg(test)]
pub(crate) mod tests;
mod transfers;
mod views;

pub(crate) use frames::{FrameReader, FrameWriter, Frames, Loan};
pub use header::{EndSnapshot, HeaderPage, Snapshot};
pub use link::{LinkExtent, LinkMap, MOST_ARENA_BYTES, MOST_CHANNELS, NAME as LINK};
pub use map::{Extent, Map, NAME, create, inspect, open};
pub use mapping::page_bytes;
pub use page::{BOARD, FLAGS, Page};
pub use sealed::{Use, errno_of};
#[cfg(test)]
pub(crate) use transfers::tests::faulty::{Faults, Faulty};
pub(crate) use transfers::{Failure, Transfers, usual_directory};
pub use views::{View, ViewMut};
