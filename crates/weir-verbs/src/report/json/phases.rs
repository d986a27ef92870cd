//! The phases of a run.

use crate::json::seconds;
use serde_json::{Value, json};
use weir_doctor::facts::Run;
use weir_doctor::facts::{Holder, Phase};

pub fn phase(run: &Run, phase: &Phase) -> Value {
    let (stages, busy_share, alone) = match phase.holder {
        Holder::Stage { stage, busy, alone } => (vec![stage], Some(busy), alone),
        Holder::Two(two) => (two.to_vec(), None, false),
        Holder::Nobody => (Vec::new(), None, false),
    };
    json!({
        "start_s": seconds(phase.start_ns),
        "end_s": seconds(phase.end_ns),
        "share": run.share(phase.length_ns()),
        "stages": stages.iter().map(|stage| stage + 1).collect::<Vec<_>>(),
        "busy_share": busy_share,
        "alone": alone,
    })
}
