//! The account of a region.

/// What a region has done so far, and what it holds now.
///
/// ```
/// use weir_region::{Region, RegionOptions};
/// let region = Region::new(4 << 20, &RegionOptions::new().memory_bytes(1 << 20))?;
/// for at in (0..4 << 20).step_by(4096) {
///     region.write_at(at, b"x")?;
/// }
/// let account = region.account();
/// assert!(account.written_bytes >= 3 << 20, "what memory does not hold is in the file");
/// assert!(account.memory_bytes <= 1 << 20);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionAccount {
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
    /// Pages that came in unasked, with their neighbours.
    pub unasked_pages: u64,
    /// Unasked pages that were seen to be used. A mapped region sees the use of one page of a
    /// cluster.
    pub used_pages: u64,
    /// The unasked pages whose use can be seen.
    pub seen_pages: u64,
    /// Pages that a fault brings in at present.
    pub cluster_pages: u64,
    /// Times that a fault waited for the file.
    pub waits: u64,
    /// The time of these waits.
    pub waited_ns: u64,
    /// Bytes in memory now, those that come and go included.
    pub memory_bytes: u64,
    /// The most bytes in memory at a time.
    pub most_memory_bytes: u64,
    /// Faults that the region would not have had if the pool had been its own.
    pub again_faults: u64,
    /// Times that the whole region went out for others in its pool.
    pub swapped: u64,
    /// Transfers that failed.
    pub failures: u64,
}
