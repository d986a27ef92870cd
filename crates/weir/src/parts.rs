//! What crates on top of this one are built from: memory, waiting and the frames of a pool.
//!
//! `weir-region` uses it. These names follow the inside of the library, and change with it: they are
//! no part of what it promises.

pub use crate::connect::passing;
pub use crate::error::Text;
pub use crate::memory::{
    AtomicWords, MapAccess, Mapping, PageContent, SEALS, SharedPage, allocate, copy, make_empty,
    page_bytes, refused, usual_directory, wanted_engine,
};
pub use crate::park::Until;
pub use crate::park::ready::{wait_for_any, wait_ready};
pub use crate::pool::{Borrower, Share, ShareState};
