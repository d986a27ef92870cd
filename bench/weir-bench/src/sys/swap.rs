//! Swap files.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Makes a file that can be swapped to (as mkswap(8) does). Only its owner can read it, and it is
/// written in full, since a swap file must not have holes.
///
/// # Errors
/// The file exists already, or there is no space.
pub fn make_file(path: &Path, bytes: u64) -> io::Result<()> {
    let page = rustix::param::page_size();
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let block = vec![0; 1 << 20];
    for at in (0..bytes).step_by(block.len()) {
        file.write_all_at(&block, at)?;
    }
    // linux/swap.h, union swap_header: version, last page, then the mark at the page's end.
    let last_page =
        u32::try_from(bytes / page as u64 - 1).map_err(|_| io::ErrorKind::InvalidInput)?;
    file.write_all_at(&1_u32.to_ne_bytes(), 1024)?;
    file.write_all_at(&last_page.to_ne_bytes(), 1028)?;
    file.write_all_at(b"SWAPSPACE2", page as u64 - 10)?;
    file.sync_data()
}

/// Lets the kernel swap to a file.
///
/// # Errors
/// `EPERM` without privilege; `EINVAL` where the file system cannot.
pub fn on(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a C string; the kernel takes only the file's blocks.
    if unsafe { libc::swapon(path.as_ptr(), 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Stops swapping to a file.
///
/// # Errors
/// `EINVAL` if it is not in use; `ENOMEM` if its content does not fit into memory.
pub fn off(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a C string.
    if unsafe { libc::swapoff(path.as_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
