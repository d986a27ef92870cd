//! Writing the files that weir keeps from one run to the next.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file that weir keeps, for nobody but its user, and the directory for it.
pub fn keep(path: &Path, text: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(directory_of(path))?;
    replace(path, &[text, b"\n"].concat(), 0o600)
}

/// Replaces a file whole; others may read the old one meanwhile. The mask of modes takes from
/// `mode` what it takes from any new file.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    builder.permissions(Permissions::from_mode(mode));
    // The new one is removed again if it cannot replace the old one.
    let mut new = builder.tempfile_in(directory_of(path))?;
    new.write_all(bytes)?;
    new.persist(path).map(drop).map_err(|error| error.error)
}

/// Returns the directory in which a file stands.
pub fn directory_of(path: &Path) -> &Path {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}
