//! The header of a pipe's memory, seen from outside.

use super::mapping::{Access, Mapping, page_bytes};
use crate::error::{Error, Result};
use rustix::fd::BorrowedFd;
use weir_ring::layout::Header;

/// The header of a pipe, mapped to be written: what `weir tune` changes.
#[derive(Debug)]
pub struct HeaderPage(Mapping);

impl HeaderPage {
    /// Maps it to be read: its words are only to be loaded.
    pub fn to_read(file: BorrowedFd) -> Result<HeaderPage> {
        map(file, Access::ReadOnly).map(HeaderPage)
    }

    /// Maps it to be written as well.
    pub fn to_write(file: BorrowedFd) -> Result<HeaderPage> {
        map(file, Access::Inherited).map(HeaderPage)
    }

    /// The words in it.
    pub fn header(&self) -> &Header {
        self.0.first()
    }
}

fn map(file: BorrowedFd, access: Access) -> Result<Mapping> {
    Mapping::of_file(file, page_bytes() as usize, access)
        .map_err(|cause| Error::os("map", "shared memory", cause))
}
