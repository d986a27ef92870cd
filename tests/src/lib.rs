//! The rules of the house, as code: each rule looks at one file or at the workspace and returns
//! its complaints. `tests/tidy.rs` applies them to the tree; beside each rule are samples that
//! break it.
//!
//! - [`arrows`]: which crate may depend on which.
//! - [`code`]: lengths of functions, places and reasons of `unsafe`, headers.
//! - [`text`]: lengths of files and lines, ASCII, words that must not stand.

#![forbid(unsafe_code)]

pub mod arrows;
pub mod code;
pub mod text;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The files of the project, relative to its root: those git tracks, or, where there is no git,
/// all but what is built.
pub fn files() -> Vec<PathBuf> {
    let root = root();
    let tracked = Command::new("git").args(["ls-files", "-z"]).current_dir(&root).output();
    let names = tracked.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let mut files: Vec<PathBuf> = match names {
        Some(names) => {
            let names = String::from_utf8_lossy(&names).into_owned();
            names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect()
        }
        None => walk(&root, Path::new("")),
    };
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files
}

fn walk(root: &Path, directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
    let mut files = Vec::new();
    for entry in entries {
        let path = directory.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                if entry.file_name() != "target" && entry.file_name() != ".git" {
                    files.extend(walk(root, &path));
                }
            }
            _ => files.push(path),
        }
    }
    files
}
