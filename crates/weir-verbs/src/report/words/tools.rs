//! Sentences of advice that depends on a program and its options: what to type, and why.

use crate::units::bytes;
use crate::units::words::{of_cpus, stage};
use weir_doctor::advice::{Advice, AdviceKind, Gain, rewrite};
use weir_doctor::facts::Run;

/// Returns what to do about the stage at `position`, whose program is `name`.
pub(super) fn advice(run: &Run, kind: AdviceKind, position: usize, name: &str) -> String {
    let of = &run.stages[position];
    let advice = Advice { kind, stage: Some(position), pipe: None, gain: Gain::AtMost(1.0) };
    let changes = rewrite(run, &advice).unwrap_or_default();
    let typed: Vec<String> = changes.into_iter().filter_map(|(_, text)| text).collect();
    let typed = typed.join(" | ");
    match kind {
        AdviceKind::MoreThreads => {
            let idle = of_cpus((run.host.idle_cpus.unwrap_or(0.0) * 10.0).round() / 10.0);
            format!("{typed}: {name} used one CPU while of all CPUs {idle} had nothing to do")
        }
        AdviceKind::UncompressedStream => {
            let next = run.stages.get(position + 1).map(|next| next.label.as_str());
            let next = stage(position + 1, next.unwrap_or_default());
            format!("{typed}: {next} at once unpacks or reads what {name} packed or formatted")
        }
        AdviceKind::FasterCipher => {
            format!("{typed}: {name} spends its time in its cipher, and this CPU has AES")
        }
        AdviceKind::LineBuffering => {
            let next = run.stages.get(position + 1).map(|next| next.label.as_str());
            let next = stage(position + 1, next.unwrap_or_default());
            format!("{typed}: {name} keeps lines until a block is full, and {next} waits for them")
        }
        _ => {
            format!(
                "{typed}: {name} only copies {} from a file",
                bytes(of.pipe_out_bytes.unwrap_or(0))
            )
        }
    }
}
