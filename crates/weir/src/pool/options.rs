//! What a pool is asked to be.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::usual_directory;
use crate::pool::core::Clock;
use std::path::PathBuf;
use weir_policy::pool::{LEAST_FRAMES, PoolSettings, Rule};

/// Frames of a pool are numbered by 32 bits, and so are places in its file.
const MOST_BLOCKS: u64 = 1 << 26;

/// Options of a pool, for [`Pool::new`](super::Pool::new).
///
/// ```
/// use weir::{Pool, PoolOptions};
/// let options = PoolOptions::new().memory_bytes(64 << 20).limit_bytes(1 << 30).verify(true);
/// let pool = Pool::new(&options.spill_directory(std::env::temp_dir()))?;
/// println!("{}", pool.engine());
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PoolOptions {
    pub(super) memory_bytes: u64,
    pub(super) frame_bytes: u64,
    pub(super) cluster_bytes: u64,
    pub(super) limit_bytes: u64,
    pub(super) directory: Option<PathBuf>,
    pub(super) spills: bool,
    pub(super) verifies: bool,
    pub(super) rule: Rule,
    pub(super) clock: Clock,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            memory_bytes: 256 << 20,
            frame_bytes: 64 << 10,
            cluster_bytes: 256 << 10,
            limit_bytes: 10 << 30,
            directory: None,
            spills: true,
            verifies: false,
            rule: Rule::default(),
            clock: Clock::default(),
        }
    }
}

impl PoolOptions {
    /// 256 MiB of memory in frames of 64 KiB, a file of at most 10 GiB in `TMPDIR` or `/var/tmp`.
    pub fn new() -> PoolOptions {
        PoolOptions::default()
    }

    /// Memory for blocks: at least four frames, and a cluster.
    pub fn memory_bytes(mut self, bytes: u64) -> PoolOptions {
        self.memory_bytes = bytes;
        self
    }

    /// Bytes of a frame, a power of two from a page to 16 MiB.
    pub fn frame_bytes(mut self, bytes: u64) -> PoolOptions {
        self.frame_bytes = bytes;
        self
    }

    /// Most bytes that are written or read back at once: a frame to 16 frames. Pools of less than a
    /// hundred times that have smaller ones.
    pub fn cluster_bytes(mut self, bytes: u64) -> PoolOptions {
        self.cluster_bytes = bytes;
        self
    }

    /// Where the file is made. It has no name there.
    pub fn spill_directory(mut self, directory: impl Into<PathBuf>) -> PoolOptions {
        self.directory = Some(directory.into());
        self.spills = true;
        self
    }

    /// No file: memory only.
    pub fn no_spill(mut self) -> PoolOptions {
        self.spills = false;
        self
    }

    /// Most bytes in the file.
    pub fn limit_bytes(mut self, bytes: u64) -> PoolOptions {
        self.limit_bytes = bytes;
        self
    }

    /// Whether a checksum is kept of each block that is written to the file, and what is read back
    /// checked by it. There are kernels and devices that report success for bytes which they lost:
    /// with it, that is an error of the read, and wrong bytes are given to nobody.
    ///
    /// It is XXH3 of 64 bits, kept in memory (8 bytes a block of the file), and costs a pass over
    /// each block both ways in the pool's thread: docs/contracts/pool.md has the figures.
    pub fn verify(mut self, verifies: bool) -> PoolOptions {
        self.verifies = verifies;
        self
    }

    /// Chooses by another rule which blocks give way when memory runs short.
    #[cfg(test)]
    pub(super) fn rule(mut self, rule: Rule) -> PoolOptions {
        self.rule = rule;
        self
    }

    /// Where the file is to be, if there is to be one.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        let spills = self.spills && self.limit_bytes >= self.frame_bytes;
        spills.then(|| self.directory.clone().unwrap_or_else(usual_directory))
    }

    /// Counted in frames.
    pub(super) fn sizes(&self) -> Result<PoolSettings> {
        let refuse = |what: &str, why: String| {
            Err(Error::new(ErrorKind::Invalid, "set", format!("the {what} of a pool"), why))
        };
        let (frame, page) = (self.frame_bytes, crate::memory::page_bytes());
        if !frame.is_power_of_two() || !(page..=16 << 20).contains(&frame) {
            let why = format!("{frame} bytes: it must be a power of two from {page} to 16777216");
            return refuse("frames", why);
        }
        if !(frame..=16 * frame).contains(&self.cluster_bytes) {
            let (asked, most) = (self.cluster_bytes, 16 * frame);
            return refuse(
                "clusters",
                format!("{asked} bytes are out of range: {frame} to {most}"),
            );
        }
        let least = (u64::from(LEAST_FRAMES) * frame).max(self.cluster_bytes);
        let most = MOST_BLOCKS * frame;
        if !(least..=most).contains(&self.memory_bytes) {
            let asked = self.memory_bytes;
            return refuse("memory", format!("{asked} bytes are out of range: {least} to {most}"));
        }
        if self.limit_bytes > most {
            let asked = self.limit_bytes;
            return refuse("file", format!("{asked} bytes are out of range: 0 to {most}"));
        }
        let spills = self.directory().is_some();
        Ok(PoolSettings {
            frames: (self.memory_bytes / frame) as u32,
            slots: if spills { (self.limit_bytes / frame) as u32 } else { 0 },
            cluster: (self.cluster_bytes / frame) as u32,
            transfers: 1,
            rule: self.rule,
        })
    }
}
