//! Sentences of advice that depends on a program and its options: what to type, and why.

use weir_command::units::bytes;
use weir_command::units::words::{of_cpus, stage};
use weir_doctor::advice::{AdviceKind, Advised};
use weir_doctor::facts::Run;

/// Returns what to do about the stage at `position`, whose program is `name`.
pub(super) fn advice(run: &Run, advised: &Advised, position: usize, name: &str) -> String {
    let of = &run.stages[position];
    let kind = advised.advice.kind;
    let changes = advised.changes.iter().flatten();
    let typed: Vec<&str> = changes.filter_map(|(_, text)| text.as_deref()).collect();
    let next = run.stages.get(position + 1).map(|next| next.label.as_str());
    let next = stage(position + 1, next.unwrap_or_default());
    let what = match (typed.is_empty(), kind) {
        (false, _) => typed.join(" | "),
        // What a script typed is not known.
        (_, AdviceKind::MoreThreads) => format!("give {name} more threads"),
        (_, AdviceKind::UncompressedStream) => String::from("pass records on uncompressed"),
        (_, AdviceKind::FasterCipher) => String::from("choose an AES cipher"),
        (_, AdviceKind::LineBuffering) => format!("let {name} write each line at once"),
        _ => format!("let {next} read the file itself"),
    };
    // It was named just now.
    let it = if what.contains(name) && typed.is_empty() { "it" } else { name };
    match kind {
        AdviceKind::MoreThreads => {
            let idle = of_cpus((run.host.idle_cpus.unwrap_or(0.0) * 10.0).round() / 10.0);
            format!("{what}: {it} used one CPU while of all CPUs {idle} had nothing to do")
        }
        AdviceKind::UncompressedStream => {
            format!("{what}: {next} at once unpacks or reads what {name} packed or formatted")
        }
        AdviceKind::FasterCipher => {
            format!("{what}: {name} spends its time in its cipher, and this CPU has AES")
        }
        AdviceKind::LineBuffering => {
            format!("{what}: {it} keeps lines until a block is full, and {next} waits for them")
        }
        _ => match of.pipe_out_bytes {
            Some(passed) => format!("{what}: {name} only copies {} from a file", bytes(passed)),
            None => format!("{what}: {name} only copies it"),
        },
    }
}
