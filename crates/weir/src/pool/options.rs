//! The options of a pool.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::usual_directory;
use crate::pool::core::PoolClock;
use std::path::PathBuf;
use weir_policy::paging::swapping::LARGEST;
use weir_policy::pool::{LEAST_FRAMES, PoolSettings, Rule};

/// The most frames of a pool, and the most blocks in its file. Both have numbers of 32 bits.
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
    pub(super) swaps: bool,
    pub(super) swap_largest: u32,
    pub(super) rule: Rule,
    pub(super) clock: PoolClock,
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
            swaps: true,
            swap_largest: LARGEST as u32,
            rule: Rule::default(),
            clock: PoolClock::default(),
        }
    }
}

impl PoolOptions {
    /// The default options: 256 MiB of memory in frames of 64 KiB, and a file of at most 10 GiB in
    /// `TMPDIR` or `/var/tmp`.
    pub fn new() -> PoolOptions {
        PoolOptions::default()
    }

    setters! { PoolOptions;
        /// Sets the bytes of memory for blocks: at least four frames, and at least a cluster.
        memory_bytes: u64 => memory_bytes;
        /// Sets the bytes of a frame: a power of two from a page to 16 MiB.
        frame_bytes: u64 => frame_bytes;
        /// Sets the most bytes that are written or read back at once: from one frame to 16 frames. A
        /// pool of less than a hundred times that uses smaller clusters.
        cluster_bytes: u64 => cluster_bytes;
        /// Sets the most bytes in the file.
        limit_bytes: u64 => limit_bytes;
        /// Sets whether the pool keeps a checksum of each block that it writes to the file, and checks
        /// what it reads back. Some kernels and devices report success for bytes that they lost. With
        /// checksums the read then fails, and nobody gets wrong bytes.
        ///
        /// The checksum is XXH3 of 64 bits, kept in memory (8 bytes for each block of the file). It
        /// costs a pass over each block both ways in the pool's thread: docs/contracts/pool.md has the
        /// figures.
        verify: bool => verifies;
        /// Sets whether whole regions of this pool go out in turn when they thrash. They do if nothing
        /// is set.
        swap_regions: bool => swaps;
        /// Sets among how many of the largest regions the oldest goes out: 4 where nothing is set. With
        /// 1 the largest goes, which may just have come; with as many as there are the oldest of all,
        /// which may be small (Joy 1980). 0 counts as 1.
        swap_largest: u32 => swap_largest;
    }

    /// Sets the directory of the file. The file has no name in it.
    pub fn spill_directory(mut self, directory: impl Into<PathBuf>) -> PoolOptions {
        self.directory = Some(directory.into());
        self.spills = true;
        self
    }

    /// Makes a pool without a file: memory only.
    pub fn no_spill(mut self) -> PoolOptions {
        self.spills = false;
        self
    }

    /// Sets the rule by which blocks are written to the file. All but the default repeat older
    /// systems, to be measured beside it.
    ///
    /// ```
    /// use weir::{Pool, PoolOptions, PoolRule};
    /// let options = PoolOptions::new().memory_bytes(1 << 20).rule(PoolRule::WriteThrough);
    /// let pool = Pool::new(&options.spill_directory(std::env::temp_dir()))?;
    /// # Ok::<(), weir::Error>(())
    /// ```
    #[cfg(any(test, feature = "rules"))]
    pub fn rule(mut self, rule: Rule) -> PoolOptions {
        self.rule = rule;
        self
    }

    /// The directory of the file, if the pool has one.
    pub(super) fn directory(&self) -> Option<PathBuf> {
        let spills = self.spills && self.limit_bytes >= self.frame_bytes;
        spills.then(|| self.directory.clone().unwrap_or_else(usual_directory))
    }

    /// Checks the options, and counts them in frames for the policy.
    pub(super) fn sizes(&self) -> Result<PoolSettings> {
        let refuse = |what: &str, why: String| {
            Error::new(ErrorKind::Invalid, "set", format!("the {what} of a pool"), why)
        };
        let within = |what: &str, asked: u64, least: u64, most: u64| {
            if (least..=most).contains(&asked) {
                return Ok(());
            }
            Err(refuse(what, format!("{asked} bytes are out of range: {least} to {most}")))
        };
        let (frame, page) = (self.frame_bytes, crate::memory::page_bytes());
        if !frame.is_power_of_two() || !(page..=16 << 20).contains(&frame) {
            let why = format!("{frame} bytes are not a power of two from {page} to 16777216");
            return Err(refuse("frames", why));
        }
        within("clusters", self.cluster_bytes, frame, 16 * frame)?;
        let least = (u64::from(LEAST_FRAMES) * frame).max(self.cluster_bytes);
        let most = MOST_BLOCKS * frame;
        within("memory", self.memory_bytes, least, most)?;
        within("file", self.limit_bytes, 0, most)?;
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
