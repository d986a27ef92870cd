//! Ensures that a process has at most one writer and one reader of a memory.
//!
//! A handle is made of descriptors, which can be copied. Two writers of one memory in one process
//! would write the same bytes from two threads, and no check could make that sound. Two writers in
//! different processes do no such harm: what other processes write is checked.

use super::connection::Role;
use crate::connect::process::PerProcess;
use crate::error::{Error, ErrorKind, Result};
use rustix::fd::BorrowedFd;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_sys::forks::ParentOnly;

/// The device and inode of a memory file, and the role.
type EndKey = (u64, u64, Role);

static CLAIMED: PerProcess<Mutex<HashSet<EndKey>>> = PerProcess::new();

fn claimed() -> MutexGuard<'static, HashSet<EndKey>> {
    CLAIMED.get(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to be the writer or the reader of a memory. Dropping it gives the right back.
#[derive(Debug)]
pub struct Claim(EndKey);

impl Claim {
    pub fn new(memory: BorrowedFd, role: Role) -> Result<Claim> {
        let object = if role == Role::Writer { "a writer" } else { "a reader" };
        let stat = rustix::fs::fstat(memory).map_err(|cause| Error::os("open", object, cause))?;
        let key = (stat.st_dev, stat.st_ino, role);
        if claimed().insert(key) {
            return Ok(Claim(key));
        }
        let why = "this process has opened this end already";
        Err(Error::new(ErrorKind::Invalid, "open", object, why))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // In a forked child this is the child's own list, which does not contain it.
        claimed().remove(&self.0);
    }
}

/// The file of a memory, and the right to be its only writer or reader in this process.
#[derive(Debug)]
pub struct ClaimedFile {
    pub file: ParentOnly,
    _claim: Claim,
}

impl ClaimedFile {
    pub fn new(file: ParentOnly, role: Role) -> Result<ClaimedFile> {
        let here = file.here().map_err(|cause| Error::os("open", "memory", cause))?;
        Ok(ClaimedFile::of(Claim::new(here, role)?, file))
    }

    pub fn of(claim: Claim, file: ParentOnly) -> ClaimedFile {
        ClaimedFile { file, _claim: claim }
    }
}
