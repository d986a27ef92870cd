//! A file that nobody else changes, which is what makes a slice over it sound.

use std::fs::File;

/// A file that has one user only, as [`MappedRegion::over`](crate::MappedRegion::over) demands.
///
/// A region brings a page in from its file when it is touched, lets it go, and brings it in again. So
/// bytes that others change in the file would change behind a `&[u8]`, which Rust does not allow.
/// [`Region::over`](crate::Region::over) copies, and takes any file.
///
/// ```
/// use weir_region::{ExclusiveFile, MappedRegion, RegionOptions};
/// let file = tempfile::tempfile().expect("a file");
/// file.set_len(1 << 20).expect("longer");
/// // SAFETY: it has no name, and no other descriptor of it exists.
/// let file = unsafe { ExclusiveFile::new(file) };
/// match MappedRegion::over(file, &RegionOptions::new().memory_bytes(64 << 10)) {
///     Ok(mut region) => region[4096..][..3].copy_from_slice(b"abc"),
///     Err(why) => println!("without userfaultfd: {why}"),
/// }
/// ```
#[derive(Debug)]
pub struct ExclusiveFile(pub(crate) File);

impl ExclusiveFile {
    /// Takes the file of one user.
    ///
    /// # Safety
    /// Until what is made of this is dropped, nobody else writes to the file, in this process or in
    /// another: neither by another descriptor nor by a mapping. To cut the file off does no harm.
    pub unsafe fn new(file: File) -> ExclusiveFile {
        ExclusiveFile(file)
    }
}
