//! The example programs, run as their comments say.

use std::process::Command;

/// An example that cargo has built beside this test.
fn example(name: &str) -> Command {
    let own = std::env::current_exe().expect("a program");
    let built = own.ancestors().nth(2).expect("a directory").join("examples").join(name);
    let hint = "`cargo test -p weir-region` builds it, `--test examples` alone does not";
    assert!(built.exists(), "{} is missing: {hint}", built.display());
    Command::new(built)
}

#[test]
fn numbers_are_sorted_in_a_quarter_of_their_memory() {
    let sorted = example("region_sort").arg("16").output().expect("started");
    let text = String::from_utf8_lossy(&sorted.stdout);
    assert!(sorted.status.success(), "{text}");
    assert!(text.contains("sorted 1048576 numbers"), "{text}");
}
