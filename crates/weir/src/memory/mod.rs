//! Memory that processes share, and the frames of a pool. All `unsafe` of this crate is here.
//!
//! [`sealed`] makes memory files, and checks those that others made. [`mapping`] maps files, and
//! knows which mappings a forked child has. The others are built on these two: the memory of a pipe
//! ([`map`]), a page of flags or of a board ([`page`]), the header of a
//! pipe seen from outside ([`header`]), and the frames of a pool ([`frames`]), which [`transfers`]
//! moves to a file and back. [`views`] lends users a part of a pipe's memory.
//!
//! # Who may touch which bytes
//! The words of a memory are atomics. All other bytes belong to one end at a time: positions and
//! commit words, stored with Release and loaded with Acquire, hand them over. So in one process,
//! whose ends keep to the protocol, no two threads ever copy the same bytes at once. `weir-ring`
//! implements the protocol, and its tests run over these mappings under miri (`tests::races`).
//! Users of this crate reach a mapping only through an end.
//!
//! A hostile peer is another process. It can write any byte at any time, and nothing that this
//! process does can prevent it. Its stores are not part of this program: a copy reads bytes that
//! are old, new, or some of each, and a reader accepts any bytes as data. A value that is checked
//! is loaded once, by one atomic load, and the checked value is used.
//!
//! One case is left. Where both ends of a pipe are in this process and another process has its memory
//! as well, what that one stores can make two threads of this process copy the same bytes
//! (docs/contracts/pipe.md, 20).

mod copy;
mod frames;
mod header;
mod map;
mod mapping;
mod page;
mod sealed;
#[cfg(test)]
pub(crate) mod tests;
mod transfers;
mod views;

pub use copy::{SHORT_BYTES, copy, copy_far, copy_short, prefetch, prefetch_to_write};
pub(crate) use frames::{FrameLoan, FrameReader, FrameWriter, Frames};
pub use header::{EndSnapshot, HeaderPage, HeaderSnapshot};
pub use map::{Extent, Map, MapHere, NAME, create, inspect, open};
pub use mapping::{AtomicWords, MapAccess, Mapping, page_bytes};
pub use page::{BOARD, FLAGS, PageContent, SharedPage};
pub use sealed::{FirstWords, SEALS, SealedMemory, Use, allocate, errno_of, make_empty, refused};
#[cfg(test)]
pub(crate) use transfers::tests::faulty::Faults;
pub(crate) use transfers::{Failure, FrameTransfers};
pub use transfers::{usual_directory, wanted_engine};
pub use views::{View, ViewMut};
