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
