//! The house rules over this workspace; see `tests/src/tidy` for what they are.
//!
//! A failure names file, line and rule. Samples of each rule are tested beside the rules.

use weir_tests::tidy::circles::{House, Texts, circles};
use weir_tests::tidy::{arrows, check, contracts, demand_none, files};

/// The tracked texts; without git the rules for files have nothing to go by.
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
    demand_none(&arrows::arrows(&root, &arrows::metadata(&root)));
}

#[test]
fn tracked_files_keep_the_house_rules() {
    let Some(texts) = texts() else { return };
    let mut faults: Vec<_> = texts.iter().flat_map(|(path, text)| check(path, text)).collect();
    faults.extend(contracts::named_tests(&texts));
    demand_none(&faults);
}

#[test]
fn files_import_each_other_one_way() {
    let Some(texts) = texts() else { return };
    let arrows = House::read(&texts).arrows();
    let mut faults = circles(&arrows);
    faults.extend(arrows::rooms(texts.keys().map(String::as_str), &arrows));
    demand_none(&faults);
}
