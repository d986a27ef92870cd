//! Texts too deep, too long or with too many stages, and what a plan costs.

use super::{plan_of, stages_of};
use crate::shell::{MAX_STAGES, MAX_TEXT_BYTES, Plan};

#[test]
fn depth_and_length_are_bounded() {
    let openings =
        ["(", "$(", "{ ", "${x:-", "$((", "((", "<(", "\"$(", "if ", "x=(", "case x in a) "];
    for opening in openings.into_iter().chain(["f() ", "! ", "`", "for x in a; do ", "a | ", "'"]) {
        for count in [8, 20, 10_000] {
            let _ = plan_of(&opening.repeat(count));
            let _ = plan_of(&format!("{}a", opening.repeat(count)));
            let _ = plan_of(&format!(") {}a", opening.repeat(count)));
        }
    }
    let nested = format!("a {}b{} | c", "$(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(plan_of(&nested), Ok(Plan::Whole));
    let many = "a | ".repeat(MAX_STAGES);
    assert_eq!(plan_of(&format!("{many} a")), Ok(Plan::Whole));
    assert_eq!(stages_of(many.trim_end_matches("| ")).len(), MAX_STAGES);
    assert_eq!(plan_of(&"a".repeat(MAX_TEXT_BYTES + 1)), Ok(Plan::Whole));
    assert_eq!(plan_of("a\0b"), Ok(Plan::Whole));
}
