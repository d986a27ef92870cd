//! Buffers larger than memory. A [`Pool`] has frames of memory, and behind them a file without a
//! name. It holds streams of bytes, each with a [`BacklogWriter`] and a [`BacklogReader`].
//!
//! Bytes that are read soon are never written to the file. Other bytes are written late and in
//! clusters, and a reader that comes first cancels the write (BBN 1978; `weir_policy::pool`
//! decides).

mod account;
mod core;
mod disk;
pub mod elastic;
mod lender;
mod lending;
mod options;
mod reader;
mod share;
mod waiting;
mod writer;

pub use self::core::Backlog;
pub use account::PoolAccount;
pub use lending::{Borrower, ShareState};
pub use options::PoolOptions;
pub use reader::BacklogReader;
pub use share::Share;
pub use writer::BacklogWriter;

use self::core::{Core, Spill};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{FrameTransfers, Frames};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_policy::pool::PoolSettings;
use weir_sys::spill::SpillEngine;

/// Memory that many streams share, and a file behind it.
///
/// Clones are the same pool. The pool is freed with the last of its clones and ends.
///
/// ```
/// use weir::{Pool, PoolOptions};
/// let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20))?;
/// let (mut writer, mut reader) = pool.backlog()?;
/// // More than its memory: the bytes that will be read last go to the file.
/// writer.write(&vec![1; 4 << 20])?;
/// drop(writer);
/// assert_eq!(std::io::copy(&mut reader, &mut std::io::sink())?, 4 << 20);
/// assert!(pool.account().spilled_bytes > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    owner: Arc<PoolOwner>,
}

/// Ends the pool's thread when the last user of the pool is dropped.
#[derive(Debug)]
struct PoolOwner {
    core: Arc<Core>,
}

impl Drop for PoolOwner {
    fn drop(&mut self) {
        self.core.stop();
    }
}

impl Pool {
    /// Makes a pool and its file. Memory is taken from the machine when it is first needed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: a size is out of its range. [`ErrorKind::Os`]: the directory is
    /// missing or cannot be written, or there is no memory or no thread left.
    pub fn new(options: &PoolOptions) -> Result<Pool> {
        let sizes = options.sizes()?;
        let transfers = match options.directory() {
            Some(directory) => Some((FrameTransfers::open(&directory)?, directory)),
            None => None,
        };
        Pool::with(options, sizes, transfers)
    }

    /// Makes a pool whose file this engine reaches.
    pub(crate) fn over(options: &PoolOptions, engine: Box<dyn SpillEngine>) -> Result<Pool> {
        let directory = options.directory().unwrap_or_default();
        let transfers = FrameTransfers::with_engine(engine);
        Pool::with(options, options.sizes()?, Some((transfers, directory)))
    }

    fn with(
        options: &PoolOptions,
        settings: PoolSettings,
        mut transfers: Option<(FrameTransfers, std::path::PathBuf)>,
    ) -> Result<Pool> {
        if let Some((transfers, _)) = transfers.as_mut().filter(|_| options.verifies) {
            transfers.verify();
        }
        let frames = Frames::new(options.frame_bytes as usize, settings.frames)?;
        let spill = transfers.as_ref().map(|(transfers, directory)| Spill {
            directory: directory.clone(),
            engine: disk::describe(transfers),
        });
        let most = transfers.as_ref().map_or(1, |(transfers, _)| transfers.room() as u32);
        let settings = PoolSettings { transfers: most, ..settings };
        let core = Arc::new(Core::new(frames, settings, spill, options.clock.clone())?);
        // Relaxed: nobody else has the pool yet.
        core.lending.swaps.store(options.swaps, Ordering::Relaxed);
        core.lending.swap_largest.store(options.swap_largest, Ordering::Relaxed);
        if let Some((transfers, _)) = transfers {
            disk::start(core.clone(), transfers)?;
        }
        Ok(Pool { owner: Arc::new(PoolOwner { core }) })
    }

    /// Opens a stream in the pool. Both ends belong to this process, but may be used by different
    /// threads.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]: this is a forked child, and the pool belongs to its parent.
    pub fn backlog(&self) -> Result<(BacklogWriter, BacklogReader)> {
        self.core().check_here("open")?;
        let shared = self.core().open();
        let writer = BacklogWriter::new(self.clone(), shared.clone());
        Ok((writer, BacklogReader::new(self.clone(), shared)))
    }

    /// Opens a stream as [`Pool::backlog`] does. The bell rings too when something was read back.
    pub(crate) fn backlog_with(
        &self,
        bell: &Arc<OwnedFd>,
    ) -> Result<(BacklogWriter, BacklogReader)> {
        let ends = self.backlog()?;
        ends.1.ring_also(bell.clone());
        Ok(ends)
    }

    /// The account: the counts of all its streams, and the bytes in memory and in the file. It is
    /// empty in a forked child.
    pub fn account(&self) -> PoolAccount {
        self.core().account()
    }

    /// Describes what moves frames to the file and back, and why nothing better does.
    pub fn engine(&self) -> String {
        let spill = self.core().spill.as_ref();
        spill.map_or_else(|| String::from("memory only"), |spill| spill.engine.clone())
    }

    /// Why the pool cannot write to its file at present, if it cannot. It keeps trying.
    pub fn trouble(&self) -> Option<Error> {
        let core = self.core();
        core.check_here("ask").ok()?;
        let fault = core.lock().policy.trouble()?;
        Some(core.spill_error(fault))
    }

    /// Whether this process made the pool, and is not a forked child.
    pub(crate) fn is_here(&self) -> bool {
        self.core().frames.is_here()
    }

    /// The bytes of memory that it may have.
    pub fn memory_bytes(&self) -> u64 {
        let core = self.core();
        let frames = core.lock().policy.settings().frames;
        u64::from(frames) * core.frames.frame_bytes() as u64
    }

    fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }
}

fn cannot_write(kind: ErrorKind, why: &'static str) -> Error {
    Error::new(kind, "write to", "the backlog", why)
}

fn cannot_read(kind: ErrorKind, why: &'static str) -> Error {
    Error::new(kind, "read from", "the backlog", why)
}

#[cfg(test)]
mod tests;
