//! The account of a pool.

/// The account of a pool at one moment, in bytes. Delayed, cancelled, spilled and read-back bytes
/// are counted in whole frames.
///
/// ```
/// let pool = weir::Pool::new(&weir::PoolOptions::new().memory_bytes(1 << 20))?;
/// let (mut writer, _reader) = pool.backlog()?;
/// writer.write(&[1; 4096])?;
/// assert_eq!(pool.account().put_bytes, 4096);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolAccount {
    /// Bytes that writers put into its backlogs.
    pub put_bytes: u64,
    /// Bytes that readers took out of its backlogs.
    pub taken_bytes: u64,
    /// Bytes chosen to be written to the file, whether they were written or not.
    pub delayed_bytes: u64,
    /// Delayed bytes that were not written: their reader came first, memory came free, or writing
    /// failed.
    pub cancelled_bytes: u64,
    /// Delayed bytes that were written to the file.
    pub spilled_bytes: u64,
    /// Bytes read back from the file.
    pub read_back_bytes: u64,
    /// Memory in use now.
    pub memory_bytes: u64,
    /// The most memory that was ever in use.
    pub most_memory_bytes: u64,
    /// The part of the memory in use that regions have.
    pub lent_bytes: u64,
    /// Bytes of the file in use now.
    pub file_bytes: u64,
    /// The most bytes of the file that were ever in use.
    pub most_file_bytes: u64,
}
