//! The public API of the library is the one that `crates/weir/public-api.txt` lists.
//!
//! A change shows in the diff of that file what programs will notice.

use std::path::{Path, PathBuf};
use std::process::Command;

/// If this variable is set, the test writes the list anew.
const UPDATE: &str = "WEIR_UPDATE_API";

#[test]
fn the_public_api_is_the_one_that_is_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let list = root.join("crates/weir/public-api.txt");
    let found = public_api(root);
    assert!(found.contains("pub fn weir::pipe("), "rustdoc described the library:\n{found}");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&list, &found).expect("written");
    }
    let listed = std::fs::read_to_string(&list).expect("the list");
    let differences = differences(&listed, &found);
    assert!(
        differences.is_empty(),
        "the public API differs from {}; if that is meant, run\n\
         {UPDATE}=1 cargo test -p weir-tests --test public_api\n{differences}",
        list.display()
    );
}

#[test]
fn what_is_added_and_what_is_removed_is_shown() {
    assert_eq!(differences("a\nb\n", "b\na\n"), "");
    assert_eq!(differences("a\nb\n", "a\nc\n"), "- b\n+ c\n");
}

/// Returns the lines that one text has and the other lacks.
fn differences(listed: &str, found: &str) -> String {
    let lacks = |text: &str, line: &str| !text.lines().any(|other| other == line);
    let removed =
        listed.lines().filter(|line| lacks(found, line)).map(|line| format!("- {line}\n"));
    let added = found.lines().filter(|line| lacks(listed, line)).map(|line| format!("+ {line}\n"));
    removed.chain(added).collect()
}

/// Returns the public items of the library, one on each line, without `parts`, which promises nothing.
fn public_api(root: &Path) -> String {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("public-api");
    let status = Command::new(env!("CARGO"))
        .args([
            "rustdoc",
            "--quiet",
            "--locked",
            "-p",
            "weir-pipes",
            "--lib",
            "--features",
            "tokio,rules",
        ])
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        // rustdoc's JSON is not stable. The toolchain is pinned, so it does not change by itself.
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(root)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "rustdoc describes the library");
    let api = public_api::Builder::from_rustdoc_json(target.join("doc/weir.json"))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .expect("a public API");
    api.items().map(|item| format!("{item}\n")).collect()
}
