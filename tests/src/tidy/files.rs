//! The files to which the rules apply: those that git tracks.

use super::circles::Texts;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the workspace, which holds `Cargo.toml` and `Cargo.lock`.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace").into()
}

/// Returns all tracked texts below `root` by their paths with `/`; `None` if git cannot tell what
/// is tracked (in an unpacked archive). Links and binary files are left out.
pub fn texts(root: &Path) -> Option<Texts> {
    let output = Command::new("git").current_dir(root).args(["ls-files", "-z"]).output().ok()?;
    let list = String::from_utf8(output.stdout).ok()?;
    let read = |path: &str| {
        // A deleted file stays tracked until the deletion is committed.
        let is_file = root.join(path).symlink_metadata().ok()?.is_file();
        let text = String::from_utf8(std::fs::read(root.join(path)).ok()?).ok()?;
        (is_file && !text.contains('\0')).then(|| (path.to_owned(), text))
    };
    let texts: Texts = list.split('\0').filter_map(read).collect();
    // In an archive inside another repository git answers, but not about these files.
    (output.status.success() && texts.contains_key("Cargo.toml")).then_some(texts)
}
