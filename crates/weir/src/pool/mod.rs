//! Buffers larger than memory: a [`Pool`] has frames of memory and a file without a name behind
//! them, and streams of bytes in it, a [`BacklogWriter`] and a [`BacklogReader`] each.
//!
//! What is read soon is never written to the file; what must be written is written late, in
//! clusters, and a reader that comes first cancels it (BBN 1978; `weir_policy::pool` decides).

mod account;
mod core;
mod disk;
pub mod elastic;
mod options;
mod reader;
mod wake;
mod writer;

pub use account::PoolAccount;
pub use options::PoolOptions;
pub use reader::BacklogReader;
pub use writer::BacklogWriter;

use self::core::{Core, Shared, Spill};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::FrameTransfers;
use crate::memory::Frames;
use std::sync::Arc;
use weir_policy::pool::PoolSettings;

/// Memory that many streams share, and a file behind it.
///
/// Its clones are the same pool. It is freed with the last of its clones and ends.
///
/// ```
/// use weir::{Pool, PoolOptions};
/// let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20))?;
/// let (mut writer, mut reader) = pool.backlog()?;
/// // More than its memory: what is read last goes to the file.
/// writer.write(&vec![1; 4 << 20])?;
/// drop(writer);
/// assert_eq!(std::io::copy(&mut reader, &mut std::io::sink())?, 4 << 20);
/// assert!(pool.account().spilled_bytes > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    owner: Arc<Owner>,
}

/// Ends the pool's thread when the last who uses the pool has gone.
#[derive(Debug)]
struct Owner {
    core: Arc<Core>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.core.stop();
    }
}

impl Pool {
    /// Makes a pool: its memory, which is taken from the machine as it is first needed, and its
    /// file.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: a size is out of its range. [`ErrorKind::Os`]: the directory is
    /// missing or may not be written, there is no memory, or no thread.
    pub fn new(options: &PoolOptions) -> Result<Pool> {
        let sizes = options.sizes()?;
        let transfers = match options.directory() {
            Some(directory) => Some((FrameTransfers::open(&directory)?, directory)),
            None => None,
        };
        Pool::with(options, sizes, transfers)
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
        if let Some((transfers, _)) = transfers {
            disk::start(core.clone(), transfers)?;
        }
        Ok(Pool { owner: Arc::new(Owner { core }) })
    }

    /// Opens a stream in the pool. Both ends are of this process, and may be in different threads.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]: this is a forked child, and the pool its parent's.
    pub fn backlog(&self) -> Result<(BacklogWriter, BacklogReader)> {
        let core = &self.owner.core;
        core.check_here("open")?;
        let stream = core.open();
        let shared = Arc::new(Shared::new(stream));
        core.seat(stream, &shared);
        let writer = BacklogWriter::new(self.clone(), shared.clone());
        Ok((writer, BacklogReader::new(self.clone(), shared)))
    }

    /// What was counted for all its streams, and what is in memory and in the file; nothing in a
    /// forked child.
    pub fn account(&self) -> PoolAccount {
        self.core().account()
    }

    /// What moves frames to the file and back, and why nothing better does.
    pub fn engine(&self) -> String {
        let spill = self.core().spill.as_ref();
        spill.map_or_else(|| String::from("memory only"), |spill| spill.engine.clone())
    }

    /// Why it cannot write to its file at present, if so. It is tried again.
    pub fn trouble(&self) -> Option<Error> {
        let core = self.core();
        core.check_here("ask").ok()?;
        let fault = core.lock().policy.trouble()?;
        Some(core.spill_error(fault))
    }

    fn core(&self) -> &Core {
        &self.owner.core
    }
}

fn closed(why: &'static str) -> Error {
    Error::new(ErrorKind::Closed, "write to", "the backlog", why)
}

#[cfg(test)]
mod tests;
