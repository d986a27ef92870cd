//! Paths of programs, and of the files that weir keeps from one run to the next.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Finds the file that a shell would start for a name.
pub fn find_program(name: &Path) -> Option<PathBuf> {
    let usable = |path: &PathBuf| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if name.components().count() > 1 || name.is_absolute() {
        return Some(name.to_owned()).filter(usable);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(usable)
}

/// The path of a file that weir keeps: the value of the variable, or else a path below
/// `XDG_STATE_HOME` or `~/.local/state`. `None` if there is no home.
pub fn kept(variable: &str, file: &str) -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = || set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    set(variable).or_else(|| Some(state()?.join("weir").join(file)))
}

/// Replaces a file atomically; others may read the old one meanwhile.
pub fn replace(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    // Created with mode 600, and removed again if it cannot replace the old file.
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(text)?;
    new.write_all(b"\n")?;
    new.persist(path).map(drop).map_err(|error| error.error)
}
