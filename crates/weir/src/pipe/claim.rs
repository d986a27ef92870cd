//! That a process has one writer and one reader of a memory.
//!
//! A handle is made of descriptors, which can be copied. Two writers of one memory in one process
//! would write to the same bytes from two threads, which no check of what lies there can make
//! sound. Ends of other processes are another matter: what they write is checked.

use super::connection::Role;
use crate::connect::process::PerProcess;
use crate::error::{Error, ErrorKind, Result};
use rustix::fd::BorrowedFd;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The file system and number of a memory file, and the role.
type Key = (u64, u64, Role);

static CLAIMED: PerProcess<Mutex<HashSet<Key>>> = PerProcess::new();

fn claimed() -> MutexGuard<'static, HashSet<Key>> {
    CLAIMED.get(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to be the end of a role over a memory, given back when it is dropped.
#[derive(Debug)]
pub struct Claim(Key);

impl Claim {
    /// Takes the right.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: this process has such an end.
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
        // In a forked child this is the child's own list, which never had it.
        claimed().remove(&self.0);
    }
}
