//! Where files are kept from one run to the next.

use std::path::PathBuf;

/// The path of a file that weir keeps: the value of the variable, or else a path below
/// `XDG_STATE_HOME` or `~/.local/state`. `None` if there is no home. What is no whole path counts as not
/// set there: it would be another directory for each process.
pub fn kept(variable: &str, file: &str) -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let whole = |name| set(name).filter(|path| path.is_absolute());
    let state = || whole("XDG_STATE_HOME").or_else(|| Some(whole("HOME")?.join(".local/state")));
    set(variable).or_else(|| Some(state()?.join("weir").join(file)))
}
