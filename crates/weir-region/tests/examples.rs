//! The example programs, run as their comments say.

#[path = "../../weir/tests/common/examples.rs"]
mod examples;

use examples::example;

#[test]
fn numbers_are_sorted_in_a_quarter_of_their_memory() {
    let sorted = example("region_sort").arg("16").output().expect("started");
    let text = String::from_utf8_lossy(&sorted.stdout);
    assert!(sorted.status.success(), "{text}");
    assert!(text.contains("sorted 1048576 numbers"), "{text}");
}

#[test]
fn keys_are_found_in_an_index_of_four_times_its_memory() {
    let found = example("region_index").args(["8", "2000"]).output().expect("started");
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(found.status.success(), "{text}");
    assert!(text.contains("looked up 2000 keys"), "{text}");
}
