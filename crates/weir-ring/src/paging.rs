//! The account of a region, on a page that others read.

use crate::primitive::{AtomicU32, AtomicU64};

/// "weirpage" as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"weirpage");
/// The version of this layout.
pub const VERSION: u32 = 1;
/// The name of its file in /proc.
pub const FILE: &str = "weir-paging";

/// The words of such a page. Its process alone writes them.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct PagingBoard {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// The process.
    pub pid: AtomicU32,
    /// The length of the region.
    pub region_bytes: AtomicU64,
    /// The memory that it may use now.
    pub budget_bytes: AtomicU64,
    /// The memory that it uses.
    pub memory_bytes: AtomicU64,
    /// Faults on pages that were not in memory.
    pub hard_faults: AtomicU64,
    /// Touches of pages on their way out, which stayed.
    pub reclaimed_pages: AtomicU64,
    /// Bytes read from the file.
    pub read_bytes: AtomicU64,
    /// Bytes written to the file.
    pub written_bytes: AtomicU64,
    /// Reads of the file.
    pub reads: AtomicU64,
    /// Writes of the file.
    pub writes: AtomicU64,
    /// Pages that came unasked and whose use can be seen.
    pub seen_pages: AtomicU64,
    /// Pages that came unasked and were seen to be used.
    pub used_pages: AtomicU64,
    /// Pages that a fault brings in at present.
    pub cluster_pages: AtomicU64,
    /// Times that a fault waited for the file.
    pub waits: AtomicU64,
    /// The time of these waits.
    pub waited_ns: AtomicU64,
    /// Times that the whole region went out.
    pub swapped: AtomicU64,
    /// Transfers that failed.
    pub failures: AtomicU64,
}
