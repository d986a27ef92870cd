//! The house rules over this workspace; `tests/src/tidy` describes them.
//!
//! A failure names file, line and rule. The tests of each rule are beside the rules.

use weir_tests::tidy::circles::{House, Texts, circles};
use weir_tests::tidy::{arrows, check, commands, contracts, demand_none, files};

/// Returns the tracked texts; without git, the rules for files have nothing to check.
fn texts() -> Option<Texts> {
    let texts = files::texts(&files::root());
    if texts.is_none() {
        println!("SKIPPED: git does not say which files are tracked here");
    }
    texts
}

#[test]
fn crates_depend_on_each_other_as_the_design_says() {
    let root = files::root();
    let metadata = arrows::metadata(&root);
    demand_none(&arrows::arrows(&root, &metadata));
    let Some(texts) = texts() else { return };
    demand_none(&arrows::unused(&root, &metadata, &texts));
}

#[test]
fn tracked_files_keep_the_house_rules() {
    let Some(texts) = texts() else { return };
    let mut faults: Vec<_> = texts.iter().flat_map(|(path, text)| check(path, text)).collect();
    faults.extend(contracts::named_tests(&texts));
    faults.extend(commands::recipes(&texts));
    faults.extend(commands::tools(&texts));
    demand_none(&faults);
}

/// A Rust version that CI does not build must not be claimed.
#[test]
fn the_rust_version_is_the_one_that_builds() {
    let said = |file: &str, key: &str| {
        let text = std::fs::read_to_string(files::root().join(file)).expect("a file of ours");
        let line = text.lines().find_map(|line| line.strip_prefix(key).map(str::to_owned));
        line.unwrap_or_else(|| panic!("{file} has no '{key}'"))
    };
    let builds = said("rust-toolchain.toml", "channel = ");
    for manifest in ["Cargo.toml", "bench/compare/Cargo.toml"] {
        assert_eq!(said(manifest, "rust-version = "), builds, "{manifest}");
    }
}

#[test]
fn files_import_each_other_one_way() {
    let Some(texts) = texts() else { return };
    let arrows = House::read(&texts).arrows();
    let mut faults = circles(&arrows);
    faults.extend(arrows::rooms(texts.keys().map(String::as_str), &arrows));
    demand_none(&faults);
}
