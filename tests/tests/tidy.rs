//! The rules of the house, applied to the tree as it is.

use std::process::Command;
use weir_tests::{arrows, code, files, root, text};

fn hold(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn arrows_between_crates_point_one_way() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata = serde_json::from_slice(&output.stdout).expect("metadata");
    hold(&arrows::complaints(&metadata));
}

#[test]
fn files_keep_the_rules() {
    let files = files();
    assert!(files.len() > 20, "the files of the project are not found: {}", files.len());
    let mut complaints = Vec::new();
    for file in files {
        // What is not text is not ours to judge.
        let Ok(contents) = std::fs::read_to_string(root().join(&file)) else { continue };
        complaints.extend(text::complaints(&file, &contents));
        if file.extension().is_some_and(|extension| extension == "rs") {
            complaints.extend(code::complaints(&file, &contents));
        }
    }
    hold(&complaints);
}
