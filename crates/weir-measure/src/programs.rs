//! Programs that are installed.

use rustix::fs::{Access, access};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where shells look without a `PATH`.
const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds the file that a shell would start for a name.
pub fn find_program(name: &Path) -> Option<PathBuf> {
    let usable = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.components().count() > 1 || name.is_absolute() {
        return Some(name.to_owned()).filter(usable);
    }
    in_path(name).find(usable)
}

/// Iterates over the places where a shell looks for a name without a slash.
pub(crate) fn in_path(name: &Path) -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(USUAL));
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.into_iter().map(move |directory| directory.join(name))
}
