//! Programs that are installed.

use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

/// Finds the file that a shell would start for a name.
pub fn find_program(name: &Path) -> Option<PathBuf> {
    let usable = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.components().count() > 1 || name.is_absolute() {
        return Some(name.to_owned()).filter(usable);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(usable)
}
