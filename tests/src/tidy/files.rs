//! Which files the rules are for: what git tracks.

use super::circles::Texts;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace, where `Cargo.toml` and `Cargo.lock` are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace").into()
}

/// All tracked texts below `root` by their paths, with `/`; nothing when git cannot say what is
/// tracked (an unpacked archive). Links and what is not text are left out.
pub fn texts(root: &Path) -> Option<Texts> {
    let output = Command::new("git").current_dir(root).args(["ls-files", "-z"]).output().ok()?;
    let list = String::from_utf8(output.stdout).ok()?;
    let read = |path: &str| {
        // A file deleted but not yet committed is still tracked.
        let is_file = root.join(path).symlink_metadata().ok()?.is_file();
        let text = String::from_utf8(std::fs::read(root.join(path)).ok()?).ok()?;
        (is_file && !text.contains('\0')).then(|| (path.to_owned(), text))
    };
    let texts: Texts = list.split('\0').filter_map(read).collect();
    // In an archive inside some other repository git answers, but not about these files.
    (output.status.success() && texts.contains_key("Cargo.toml")).then_some(texts)
}
