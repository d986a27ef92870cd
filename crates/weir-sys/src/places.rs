//! Where files are kept from one run to the next.

use std::path::PathBuf;

/// The path of a file that weir keeps: the value of the variable, or else a path below
/// `XDG_STATE_HOME` or `~/.local/state`. `None` if there is no home. An `XDG_STATE_HOME` that is no whole
/// path is ignored, as its specification demands: it would be another place in each directory.
pub fn kept(variable: &str, file: &str) -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let xdg = || set("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = || xdg().or_else(|| Some(set("HOME")?.join(".local/state")));
    set(variable).or_else(|| Some(state()?.join("weir").join(file)))
}
