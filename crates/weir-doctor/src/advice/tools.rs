//! Advice that goes by what a program is and which options it was given.

use super::{Advice, AdviceKind, Gain};
use crate::around::{cpus_full, throttled};
use crate::command::Command;
use crate::facts::{Pipe, Run, Stage};
use crate::limits;
use crate::programs;
use crate::verdict::{Bottleneck, BusyReason, Verdict};
use alloc::string::String;
use alloc::vec::Vec;

/// User time below this share of the run is not worth saving.
const MUCH_CPU: f64 = 0.2;
/// CPU time for a copy below this share of the run is not worth saving.
const MUCH_COPYING: f64 = 0.15;
/// Time that a packed byte takes its writer, and its reader (docs/design/advice.md).
const PACKED_NS: (u64, u64) = (190, 10);
/// The same for a byte of text.
const TEXT_NS: (u64, u64) = (9, 1);
/// The most that goes of a stage's time in user mode: it does not only pack.
const MOST_PACKING: f64 = 0.85;
/// What a further CPU adds to the first: it may be a thread of the same core, and the work cannot all
/// be shared. Two CPUs did 1.3 to 1.7 times the work of one (docs/design/advice.md).
const A_FURTHER_CPU: f64 = 0.6;

/// Advises against compressing, or formatting as text, what the next stage reads at once: for all
/// stages at once, since each of them that continues packs what the next one unpacks.
pub(super) fn uncompressed_stream(run: &Run) -> Option<Advice> {
    let writers = packers(run);
    let first = *writers.first()?;
    let mut both: Vec<usize> = writers.iter().flat_map(|at| [*at, at + 1]).collect();
    both.dedup();
    if !both.iter().any(|at| run.share(run.stages[*at].user_ns) >= MUCH_CPU) {
        return None;
    }
    let saved: Vec<(usize, u64)> = writers.iter().flat_map(|at| packing_ns(run, *at)).collect();
    // Waits for a CPU would stay what they are: only the work becomes less.
    let gain = Gain::About(limits::without_some(run, &saved) / limits::without_some(run, &[]));
    let kind = AdviceKind::UncompressedStream;
    Some(Advice { kind, stage: Some(first), pipe: None, gain })
}

/// Returns what packing takes of the time of a stage, and unpacking of that of the next one, about: by
/// the bytes that went through the pipe. The stages compute what they are there for all the same.
fn packing_ns(run: &Run, position: usize) -> [(usize, u64); 2] {
    let stage = &run.stages[position];
    let bytes = stage.pipe_out_bytes.or(stage.io.map(|io| io.write_bytes)).unwrap_or(0);
    let (pack_ns, unpack_ns) = match programs::writes_text(&stage.label) {
        true => TEXT_NS,
        false => PACKED_NS,
    };
    let most = |at: usize, byte_ns: u64| {
        let most_ns = MOST_PACKING * run.stages[at].user_ns as f64;
        (at, bytes.saturating_mul(byte_ns).min(most_ns as u64))
    };
    [most(position, pack_ns), most(position + 1, unpack_ns)]
}

/// Returns the stages that pack records for a next stage that unpacks them at once.
pub(super) fn packers(run: &Run) -> Vec<usize> {
    let packs = |pipe: &&Pipe| {
        let ends = run.stages.get(pipe.from).zip(run.stages.get(pipe.to));
        let next = pipe.to == pipe.from + 1;
        ends.is_some_and(|(writer, reader)| {
            next && programs::uncompressed(&writer.label, &reader.label).is_some()
        })
    };
    run.pipes.iter().filter(packs).map(|pipe| pipe.from).collect()
}

/// Advises more threads for a program that has an option for them.
pub(super) fn more_threads(run: &Run, culprit: &Bottleneck) -> Option<Advice> {
    let stage = &run.stages[culprit.stage];
    if !used_one_cpu(stage) {
        return None;
    }
    programs::with_threads(&stage.label, threads(run, culprit.stage))?;
    if has_too_little(run, culprit.stage) {
        return None;
    }
    let gain = Gain::About(shared_out(run, culprit, 1.0)?);
    let kind = AdviceKind::MoreThreads;
    Some(Advice { kind, stage: Some(culprit.stage), pipe: None, gain })
}

/// Estimates the gain if the CPU work of the bottleneck were shared out among the CPUs that the run
/// had: those that it used, and those that were idle. The other stages need theirs too, and whoever
/// else used some continues. `efficiency`: what the new program does in the same CPU time.
pub(super) fn shared_out(run: &Run, culprit: &Bottleneck, efficiency: f64) -> Option<f64> {
    let stage = &run.stages[culprit.stage];
    let idle_cpus = run.host.idle_cpus.filter(|_| throttled(run).is_none())?;
    let computes = matches!(culprit.reason, BusyReason::Cpu | BusyReason::Queue);
    if !computes || run.wall_ns == 0 {
        return None;
    }
    let (used, own) = (run.share(run.cpu_sum_ns()), run.share(stage.cpu_sum_ns()));
    let cpus = (used + idle_cpus).min(run.usable_cpus().max(used));
    // CPU time is worth less where several CPUs work.
    let work = (own / efficiency + used - own) * capacity(used) / used.max(f64::MIN_POSITIVE);
    let waits = 1.0 - run.share(stage.times.cpu_ns + stage.times.queue_ns).min(1.0);
    let bound = culprit.speedup_limit.unwrap_or(f64::INFINITY);
    Some((1.0 / (waits + work / capacity(cpus))).min(bound))
}

/// Returns how much work CPUs do, in that of one that works alone.
fn capacity(cpus: f64) -> f64 {
    cpus.min(1.0) + A_FURTHER_CPU * (cpus - 1.0).max(0.0)
}

/// Whether a stage had too little work for several threads, as far as is known.
pub(super) fn has_too_little(run: &Run, position: usize) -> bool {
    let stage = &run.stages[position];
    // What went through the pipe behind the first stage may be packed.
    let own = stage.io.map(|io| io.read_bytes.max(io.write_bytes));
    let handled = run.passed(position).0.max(own);
    // Each of its processes shares out its own: pigz packed 300 files of 80 kB no faster than gzip.
    let each = |bytes: u64| bytes / stage.processes.max(1);
    handled.is_some_and(|bytes| each(bytes) < programs::least_bytes(&stage.label))
}

/// Whether a stage never used more than about one CPU: programs that read and compress in two
/// threads that take turns count too.
pub(super) fn used_one_cpu(stage: &Stage) -> bool {
    const SLIGHTLY_MORE: f64 = 1.15;
    stage.single_task || stage.cpu_sum_ns() as f64 <= SLIGHTLY_MORE * stage.wall_ns as f64
}

/// Returns the threads that a stage should have: the CPUs shared out by the CPU time that each
/// stage used.
pub(super) fn threads(run: &Run, position: usize) -> u32 {
    let share = run.stages[position].cpu_sum_ns() as f64 / run.cpu_sum_ns().max(1) as f64;
    libm::round(run.usable_cpus() * share).max(1.0) as u32
}

/// Returns the stages that get more threads when the CPUs are shared out by the CPU time that each
/// stage used.
pub(super) fn shared_threads(run: &Run) -> Vec<(usize, Option<String>)> {
    let of = |(at, stage): (usize, &Stage)| {
        Some((at, Some(programs::with_threads(&stage.label, threads(run, at))?)))
    };
    run.stages.iter().enumerate().filter_map(of).collect()
}

/// Advises a cipher that the CPU has instructions for.
pub(super) fn faster_cipher(run: &Run, position: usize) -> Option<Advice> {
    let stage = &run.stages[position];
    let command = Command::read(&stage.label)?;
    let chosen = command.option(&["-c", "-o"]).is_some();
    // To compress takes more than any cipher.
    let other = command.program() != "ssh" || command.has_letter('C');
    if other || chosen || !run.host.aes || run.share(stage.user_ns) < MUCH_CPU {
        return None;
    }
    let gain = Gain::AtMost(limits::without_user_time(run, position));
    Some(Advice { kind: AdviceKind::FasterCipher, stage: Some(position), pipe: None, gain })
}

/// Advises to open the file instead of reading it through `cat`, where the copy costs time: its
/// reader holds the run up, or no CPU was free for both.
pub(super) fn direct_input(run: &Run, verdict: &Verdict) -> Option<Advice> {
    let (cat, reader) = (run.stages.first()?, run.stages.get(1)?);
    let named = verdict.culprit.as_ref().is_some_and(|culprit| culprit.stage <= 1);
    let saved_ns = cat.cpu_sum_ns() + reader.system_ns;
    if !(named || cpus_full(run)) || run.share(saved_ns) < MUCH_COPYING {
        return None;
    }
    // Time in the kernel for tiny writes is not time for reading.
    let io = reader.io.unwrap_or_default();
    if limits::are_tiny(io.write_calls, io.write_bytes) {
        return None;
    }
    programs::cat_of_one_file(&cat.label)?;
    programs::without_cat(&cat.label, &reader.label)?;
    let gain = Gain::AtMost(limits::without_source(run));
    Some(Advice { kind: AdviceKind::DirectInput, stage: Some(0), pipe: None, gain })
}
