//! The header of a pipe's memory, seen from outside.

use super::mapping::{Access, Mapping, page_bytes};
use crate::error::{Error, Result};
use rustix::fd::BorrowedFd;
use weir_ring::account::Account;
use weir_ring::layout::{AccountLine, PipeHeader, SleepLine};
use weir_ring::primitive::{AtomicU64, Ordering, fence};

/// The header of a pipe, mapped to be written: what `weir tune` changes.
#[derive(Debug)]
pub struct HeaderPage(Mapping);

impl HeaderPage {
    /// Maps it.
    pub fn to_write(file: BorrowedFd) -> Result<HeaderPage> {
        map(file, Access::Inherited).map(HeaderPage)
    }

    /// The words in it.
    pub fn header(&self) -> &PipeHeader {
        self.0.first()
    }
}

fn map(file: BorrowedFd, access: Access) -> Result<Mapping> {
    Mapping::of_file(file, page_bytes() as usize, access)
        .map_err(|cause| Error::os("map", "shared memory", cause))
}

/// What a header said at a moment: what `weir stat` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The reader's position, which is not beyond that of an honest writer.
    pub read: u64,
    /// The writer's position.
    pub written: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes of the atomic bound.
    pub atomic_bytes: u64,
    /// Device and inode of the port the pipe leads to.
    pub port: (u64, u64),
    /// The writer.
    pub writer: EndSnapshot,
    /// The reader.
    pub reader: EndSnapshot,
}

/// What one end said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndSnapshot {
    /// What it has counted.
    pub account: Account,
    /// Whether it has closed.
    pub closed: bool,
    /// How it sleeps: `weir_ring::sleep`.
    pub sleep: u32,
}

impl Snapshot {
    /// Looks at the header of a pipe's memory, which is mapped for reading alone.
    pub fn of(file: BorrowedFd) -> Result<Snapshot> {
        map(file, Access::ReadOnly).map(|page| Snapshot::load(page.first()))
    }

    /// Every load is Relaxed, and no reference leaves this function: see [`Access::ReadOnly`].
    pub(super) fn load(header: &PipeHeader) -> Snapshot {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let read = word(&header.reader.position);
        // Acquire: pairs with the release of the reader's position, whose reader had seen the
        // writer's. So the writer's, loaded after this, is not behind it.
        fence(Ordering::Acquire);
        let end = |sleep: &SleepLine, account: &AccountLine| EndSnapshot {
            account: Account::read(account),
            closed: sleep.closed.load(Ordering::Relaxed) != 0,
            sleep: sleep.word.load(Ordering::Relaxed),
        };
        let line = &header.writer_account;
        Snapshot {
            read,
            written: word(&header.writer.position),
            segment_bytes: word(&header.tuning.segment_bytes),
            atomic_bytes: word(&header.tuning.atomic_bytes),
            port: (word(&line.port_device), word(&line.port_inode)),
            writer: end(&header.writer_sleep, line),
            reader: end(&header.reader_sleep, &header.reader_account),
        }
    }
}
