//! The options of a region.

use std::path::PathBuf;
use weir::Pool;
use weir::parts::{page_bytes, usual_directory};
use weir::{Error, ErrorKind, Result};
use weir_policy::paging::{LEAST_FRAMES, MOST_CLUSTER, PagingSettings};

/// What [`RegionOptions::replacement`] sets.
///
/// ```
/// use weir_region::{PageReplacement, Region, RegionOptions};
/// let options = RegionOptions::new().memory_bytes(1 << 20).replacement(PageReplacement::Fifo);
/// let region = Region::new(4 << 20, &options)?;
/// # Ok::<(), weir::Error>(())
/// ```
pub use weir_policy::paging::PageReplacement;

/// Options of a region, for [`Region::new`](super::Region::new) and
/// [`MappedRegion::new`](super::MappedRegion::new).
///
/// ```
/// use weir_region::{Region, RegionOptions};
/// let options = RegionOptions::new().memory_bytes(1 << 20).spill_directory(std::env::temp_dir());
/// let region = Region::new(8 << 20, &options)?;
/// println!("{}", region.mechanism());
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RegionOptions {
    memory_bytes: u64,
    most_bytes: u64,
    most_cluster_bytes: u64,
    directory: Option<PathBuf>,
    replacement: PageReplacement,
    pool: Option<Pool>,
}

impl Default for RegionOptions {
    fn default() -> RegionOptions {
        RegionOptions {
            memory_bytes: 256 << 20,
            most_bytes: 0,
            most_cluster_bytes: u64::MAX,
            directory: None,
            replacement: PageReplacement::Clock,
            pool: None,
        }
    }
}

impl RegionOptions {
    /// The default options: 256 MiB of memory, and a file in `TMPDIR` or `/var/tmp`.
    pub fn new() -> RegionOptions {
        RegionOptions::default()
    }

    /// Sets the bytes of memory for pages: at least eight pages. The region never has more.
    pub fn memory_bytes(self, memory_bytes: u64) -> RegionOptions {
        RegionOptions { memory_bytes, ..self }
    }

    /// Sets the bytes to which a region without a file of the user's can grow.
    pub fn most_bytes(self, most_bytes: u64) -> RegionOptions {
        RegionOptions { most_bytes, ..self }
    }

    /// Sets the most bytes that come in or are written together: a page up to 32 pages, and at
    /// most a quarter of the memory.
    pub fn most_cluster_bytes(self, most_cluster_bytes: u64) -> RegionOptions {
        RegionOptions { most_cluster_bytes, ..self }
    }

    /// Sets the rule that chooses which page goes.
    pub fn replacement(self, replacement: PageReplacement) -> RegionOptions {
        RegionOptions { replacement, ..self }
    }

    /// Sets the directory of the file. The file has no name in it.
    pub fn spill_directory(mut self, directory: impl Into<PathBuf>) -> RegionOptions {
        self.directory = Some(directory.into());
        self
    }

    /// Takes the memory from a pool, whose other regions and streams share it.
    /// [`RegionOptions::memory_bytes`] is the most that this region takes of it then.
    pub fn pool(mut self, pool: &Pool) -> RegionOptions {
        self.pool = Some(pool.clone());
        self
    }

    pub(super) fn shared_pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(usual_directory)
    }

    /// The bytes that are reserved for a region, in whole pages.
    pub(super) fn reserved(&self, bytes: u64) -> Result<u64> {
        let page = page_bytes();
        let most_pages = u64::from(u32::MAX) - 1;
        let wanted = bytes.max(self.most_bytes);
        if bytes == 0 || wanted > most_pages * page {
            let most = page * most_pages;
            let wrong = if bytes == 0 { bytes } else { wanted };
            let why = format!("{wrong} bytes are out of range: 1 to {most}");
            return Err(Error::new(ErrorKind::Invalid, "make", "a region", why));
        }
        Ok(wanted.next_multiple_of(page))
    }

    /// Checks the options, and counts them in pages for the policy.
    pub(super) fn settings(&self, bytes: u64, looks: bool, filed: bool) -> Result<PagingSettings> {
        let page = page_bytes();
        let least = u64::from(LEAST_FRAMES) * page;
        if self.memory_bytes < least {
            let why = format!("{} bytes are too few: {least} at least", self.memory_bytes);
            return Err(Error::new(ErrorKind::Invalid, "set", "the memory of a region", why));
        }
        let pages = bytes.div_ceil(page) as u32;
        // More frames than pages are of no use.
        let frames = (self.memory_bytes / page).min(self.reserved(bytes)? / page);
        let pooled = self.pool.as_ref().map_or(u64::MAX, |pool| pool.memory_bytes() / page);
        let frames = frames.min(pooled) as u32;
        Ok(PagingSettings {
            pages,
            frames: frames.max(LEAST_FRAMES),
            most_cluster: (self.most_cluster_bytes / page).clamp(1, MOST_CLUSTER.into()) as u32,
            replacement: self.replacement,
            looks,
            starts_filed: filed,
        })
    }
}
