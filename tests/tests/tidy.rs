//! The house rules over this workspace; see `tests/src/tidy` for what they are.
//!
//! A failure names file, line and rule. Samples of each rule are tested beside the rules.

use weir_tests::tidy::{arrows, check, demand_none, files};

#[test]
fn crates_depend_on_each_other_as_the_design_says() {
    let root = files::root();
    demand_none(&arrows::arrows(&root, &arrows::metadata(&root)));
}

#[test]
fn tracked_files_keep_the_house_rules() {
    let root = files::root();
    let paths = files::tracked(&root);
    assert!(paths.iter().any(|path| path == "tests/tests/tidy.rs"), "found no files: {paths:?}");
    let mut faults = Vec::new();
    for path in &paths {
        if let Some(text) = files::text(&root.join(path)) {
            faults.extend(check(path, &text));
        }
    }
    demand_none(&faults);
}
