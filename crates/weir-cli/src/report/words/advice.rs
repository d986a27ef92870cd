//! Advice in sentences: what to do and why, and what it could gain.

use super::{hints, quota, started, tools, verdict};
use weir_command::units::capacity;
use weir_command::units::words::{
    count, factor_about, factor_at_most, of_cpus, percent, stage, things,
};
use weir_doctor::advice::{Advice, AdviceKind, Gain, Scarcity, scarcity};
use weir_doctor::around::{CpuCause, others, queued};
use weir_doctor::facts::{Run, Stage};

/// Returns what to do and why, in a sentence without the gain. `remembers`: a later run of the same text
/// can use what this one showed.
pub fn advice(run: &Run, advice: &Advice, remembers: bool) -> String {
    if let Some(position) = advice.pipe {
        return pipe(run, advice.kind, position, remembers && !run.script);
    }
    match advice.stage {
        Some(position) => of_stage(run, advice.kind, position),
        None => more_cpus(run),
    }
}

/// Returns what the run could gain: `at most 1.9x faster`, `perhaps 1.9x faster`, `over 10x faster`.
pub fn gain(gain: Gain) -> String {
    match gain {
        Gain::AtMost(factor) => format!("{} faster", factor_at_most(factor)),
        Gain::About(factor) => format!("{} faster", factor_about(factor)),
    }
}

fn pipe(run: &Run, kind: AdviceKind, position: usize, remembers: bool) -> String {
    let pipe = &run.pipes[position];
    let (full, empty) = pipe.shares();
    let between = format!("{}->{}", pipe.from + 1, pipe.to + 1);
    let (full, empty) = (percent(full), percent(empty));
    let evidence = format!("it was full {full} and empty {empty} of the time");
    if kind == AdviceKind::LargerPipe {
        let limit = capacity(pipe.limit_bytes);
        let option = match (run.watched.is_some(), run.script) {
            (true, _) => String::from("--grow"),
            // What a script makes is enlarged once, when it is found.
            (_, true) => format!("--pipe-size {}", pipe.limit_bytes),
            _ => String::from("--pipe-size auto"),
        };
        return format!("give pipe {between} up to {limit} ({option}): {evidence}");
    }
    let again = if remembers { "run again with --elastic, or: " } else { "" };
    format!(
        "put an elastic buffer into pipe {between} ({again}... | weir buffer | ...): {evidence}, \
         in bursts larger than a pipe"
    )
}

fn of_stage(run: &Run, kind: AdviceKind, position: usize) -> String {
    let of = &run.stages[position];
    let (name, io) = (stage(position, &of.label), of.io.unwrap_or_default());
    match kind {
        AdviceKind::FewerProcesses => {
            let what = of.started.as_ref().map(started).unwrap_or_default();
            let programs = of.started.iter().flat_map(|started| started.frequent());
            let instead = hints::instead_of_processes(&of.label, &of.program, programs);
            format!("{instead}: {name} {what}")
        }
        AdviceKind::CLocale => format!(
            "set LC_ALL=C for {name} if byte order is enough: {} compares text by the locale {}",
            of.program,
            of.locale.as_deref().unwrap_or_default()
        ),
        AdviceKind::ParallelCompressor => {
            let idle = of_cpus((run.host.idle_cpus.unwrap_or(0.0) * 10.0).round() / 10.0);
            let were = if idle == "1 CPU" { "was" } else { "were" };
            let (instead, note) = hints::parallel(&of.label, &run.installed);
            format!("{instead} in place of {name}{note}: it used one CPU while {idle} {were} idle")
        }
        AdviceKind::MoreThreads
        | AdviceKind::UncompressedStream
        | AdviceKind::FasterCipher
        | AdviceKind::LineBuffering
        | AdviceKind::DirectInput => tools::advice(run, kind, position, &name),
        AdviceKind::LargerReads => {
            transfers(of, kind, &name, "reads", io.read_calls, io.read_bytes)
        }
        _ => transfers(of, kind, &name, "writes", io.write_calls, io.write_bytes),
    }
}

fn transfers(
    of: &Stage,
    kind: AdviceKind,
    name: &str,
    verb: &str,
    calls: u64,
    bytes: u64,
) -> String {
    let each = things((bytes + calls / 2) / calls.max(1), "byte");
    let hint = hints::buffering(&of.label, kind);
    format!("{hint}: {name} {verb} {each} a call in {} calls", count(calls))
}

fn more_cpus(run: &Run) -> String {
    let waited = queued(run) * run.wall_ns as f64 / 1e9;
    let waited = format!("stages waited {waited:.1} s for a CPU");
    match scarcity(run) {
        Some(Scarcity::Quota(cpus, share)) => {
            format!("a higher CPU quota: the run was {}", quota(cpus, share))
        }
        Some(Scarcity::Crowded) => {
            let said = |around: CpuCause| verdict::around(run, &around);
            let who = others(run).map(said).collect::<Vec<_>>().join(", ");
            format!("run it when the host has less to do: {who}, and {waited}")
        }
        _ => {
            let full = match run.usable_cpus() {
                1.0 => String::from("its one CPU was full"),
                usable => format!("the {} it may use were full", of_cpus(usable)),
            };
            format!("twice as many CPUs: {full}, and {waited}")
        }
    }
}
