//! The phases of a run.

use serde_json::{Value, json};
use weir_command::json::seconds;
use weir_doctor::facts::{Holder, Phase, Run};

/// Returns the phases. In a pipeline a stage holds each phase up, in a script a group does.
pub fn phases(run: &Run, phases: &[Phase]) -> Vec<Value> {
    let of = if run.script { "groups" } else { "stages" };
    phases.iter().map(|one| phase(run, one, of)).collect()
}

fn phase(run: &Run, phase: &Phase, of: &str) -> Value {
    let (holders, busy_share, alone) = match phase.holder {
        Holder::Stage { stage, busy, alone } => (vec![stage], Some(busy), alone),
        Holder::Two(two) => (two.to_vec(), None, false),
        Holder::Nobody => (Vec::new(), None, false),
    };
    let numbers = |name: &str| {
        let holders = holders.iter().filter(|_| name == of);
        holders.map(|holder| holder + 1).collect::<Vec<_>>()
    };
    json!({
        "start_s": seconds(phase.start_ns),
        "end_s": seconds(phase.end_ns),
        "share": run.share(phase.length_ns()),
        "stages": numbers("stages"),
        "groups": numbers("groups"),
        "busy_share": busy_share,
        "alone": alone,
    })
}
