//! Regions, read from outside.

use super::beginning::copy_of;
use super::{Memories, as_seen};
use std::mem::offset_of;
use weir_ring::paging::{self, PagingBoard};

/// The account of a region (of `weir-region`) at one moment.
///
/// ```
/// for region in weir::stat::regions() {
///     println!("{}: {} bytes, {} faults", region.pid, region.region_bytes, region.hard_faults);
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionStat {
    /// The inode of its account, which identifies it.
    pub inode: u64,
    /// Its process.
    pub pid: u32,
    /// Its length.
    pub region_bytes: u64,
    /// The memory that it may use now.
    pub budget_bytes: u64,
    /// The memory that it uses.
    pub memory_bytes: u64,
    /// Faults on pages that were not in memory.
    pub hard_faults: u64,
    /// Touches of pages on their way out, which stayed.
    pub reclaimed_pages: u64,
    /// Bytes read from the file.
    pub read_bytes: u64,
    /// Bytes written to the file.
    pub written_bytes: u64,
    /// Reads of the file.
    pub reads: u64,
    /// Writes of the file.
    pub writes: u64,
    /// Pages that came unasked and whose use can be seen.
    pub seen_pages: u64,
    /// Pages that came unasked and were seen to be used.
    pub used_pages: u64,
    /// Pages that a fault brings in at present.
    pub cluster_pages: u64,
    /// Times that a fault waited for the file.
    pub waits: u64,
    /// The time of these waits.
    pub waited_ns: u64,
    /// Times that the whole region went out.
    pub swapped: u64,
    /// Transfers that failed.
    pub failures: u64,
    /// Processes that hold its account, and the descriptor in each.
    pub holders: Vec<(i32, i32)>,
}

/// Lists the regions whose account this user may open.
pub fn regions() -> Vec<RegionStat> {
    Memories::find().regions()
}

impl Memories {
    /// Lists the regions whose account this user may open.
    pub fn regions(&self) -> Vec<RegionStat> {
        let found = self.each(&[paging::FILE], |file, inode| {
            let magic = (offset_of!(PagingBoard, magic), paging::MAGIC);
            let version = (offset_of!(PagingBoard, version), paging::VERSION);
            let copy = copy_of::<PagingBoard>(file, magic, version)?;
            let word = |offset: usize| copy.u64(offset);
            let stat = RegionStat {
                inode,
                pid: copy.u32(offset_of!(PagingBoard, pid)),
                ..RegionStat::default()
            };
            Some(fill!(stat, word, PagingBoard: region_bytes budget_bytes memory_bytes hard_faults
            reclaimed_pages read_bytes written_bytes reads writes seen_pages used_pages
            cluster_pages waits waited_ns swapped failures))
        });
        let seen = |(stat, holders): (RegionStat, Vec<(i32, i32)>)| RegionStat {
            pid: as_seen(stat.pid, &holders),
            holders,
            ..stat
        };
        found.into_iter().map(seen).collect()
    }
}
