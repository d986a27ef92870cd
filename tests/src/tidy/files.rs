//! Which files the rules are for: what git tracks, or all there is where git cannot say.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories that are never looked into when git cannot say what is tracked.
const PASSED_OVER: [&str; 5] = [".git", "target", "node_modules", "__pycache__", ".venv"];

/// The root of the workspace, where `Cargo.toml` and `Cargo.lock` are.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace").into()
}

/// Paths of all tracked files below `root`, with `/`, sorted.
pub fn tracked(root: &Path) -> Vec<String> {
    let mut paths = from_git(root).unwrap_or_else(|| walk(root));
    // A file deleted but not yet committed is still tracked; a link is not a text.
    paths
        .retain(|path| root.join(path).symlink_metadata().is_ok_and(|metadata| metadata.is_file()));
    paths.sort();
    paths
}

/// The text of a file, or nothing when it is not text (a NUL byte, or not UTF-8).
pub fn text(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    if bytes.contains(&0) {
        return None;
    }
    String::from_utf8(bytes).ok()
}

/// What git tracks; nothing when git is missing or `root` is not the work tree's.
fn from_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git").current_dir(root).args(["ls-files", "-z"]).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let list = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> =
        list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    // An unpacked archive inside some other repository: git answers, but not about these files.
    paths.iter().any(|path| path == "Cargo.toml").then_some(paths)
}

/// All files below `root`.
pub fn walk(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let passed_over = PASSED_OVER.iter().any(|passed| name == *passed);
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !passed_over => pending.push(path),
                Ok(kind) if kind.is_file() => {
                    let below = path.strip_prefix(root).expect("found below the root");
                    found.push(below.to_string_lossy().into_owned());
                }
                _ => {}
            }
        }
    }
    found
}
