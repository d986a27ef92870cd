//! The header of a pipe's memory, seen from outside.

use super::mapping::{MapAccess, Mapping, page_bytes};
use crate::error::{Error, Result};
use rustix::fd::BorrowedFd;
use weir_ring::account::Account;
use weir_ring::layout::{AccountLine, PipeHeader, SleepLine};
use weir_ring::primitive::{AtomicU64, Ordering, fence};

/// The header of a pipe, mapped to be changed: by `weir tune`, and by an end in the memory that follows its own.
#[derive(Debug)]
pub struct HeaderPage(Mapping);

impl HeaderPage {
    pub fn to_write(file: BorrowedFd) -> Result<HeaderPage> {
        map(file, MapAccess::Own).map(HeaderPage)
    }

    pub fn header(&self) -> &PipeHeader {
        self.0.first()
    }
}

fn map(file: BorrowedFd, access: MapAccess) -> Result<Mapping> {
    Mapping::of_file(file, page_bytes() as usize, access)
        .map_err(|cause| Error::os("map", "shared memory", cause))
}

/// The content of a header at one moment, for `weir stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderSnapshot {
    /// The reader's position. It is never beyond `written` if the writer is honest.
    pub read: u64,
    /// The writer's position.
    pub written: u64,
    pub segment_bytes: u64,
    pub atomic_bytes: u64,
    /// Device and inode of the port that the pipe leads to.
    pub port: (u64, u64),
    pub writer: EndSnapshot,
    pub reader: EndSnapshot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndSnapshot {
    pub account: Account,
    pub closed: bool,
    /// How it sleeps: `weir_ring::sleep`.
    pub sleep: u32,
}

impl HeaderSnapshot {
    /// Loads the header of a pipe's memory through a read-only mapping.
    pub fn of(file: BorrowedFd) -> Result<HeaderSnapshot> {
        map(file, MapAccess::ReadOnly).map(|page| HeaderSnapshot::load(page.first()))
    }

    /// Every load is Relaxed, and no reference leaves this function: see [`MapAccess::ReadOnly`].
    pub(super) fn load(header: &PipeHeader) -> HeaderSnapshot {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let read = word(&header.reader.position);
        // Acquire: pairs with the Release store of the reader's position. The reader had seen the
        // writer's position before that, so the one loaded below is not behind it.
        fence(Ordering::Acquire);
        let end = |sleep: &SleepLine, account: &AccountLine| EndSnapshot {
            account: Account::read(account),
            closed: sleep.closed.load(Ordering::Relaxed) != 0,
            sleep: sleep.word.load(Ordering::Relaxed),
        };
        let line = &header.writer_account;
        HeaderSnapshot {
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
