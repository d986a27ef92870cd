//! What a pool counts.

/// The account of a pool at a moment, in bytes. What is delayed, cancelled, spilled and read back
/// is counted in whole frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolAccount {
    /// Put into its backlogs.
    pub put_bytes: u64,
    /// Taken out of them.
    pub taken_bytes: u64,
    /// Chosen to be written, whether they were or not.
    pub delayed_bytes: u64,
    /// Of these, not written: their reader came first, memory came free, or writing failed.
    pub cancelled_bytes: u64,
    /// Of these, written.
    pub spilled_bytes: u64,
    /// Read back.
    pub read_back_bytes: u64,
    /// Memory in use now.
    pub memory_bytes: u64,
    /// Most memory there was in use.
    pub most_memory_bytes: u64,
    /// Of the file, in use now.
    pub file_bytes: u64,
    /// Most of the file there was in use.
    pub most_file_bytes: u64,
}
