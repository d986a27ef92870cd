//! Advice in sentences: what to do and why, and what it could gain.

use super::groups::repacked_names;
use super::{LONGEST, mark_word, own_quota, quota, started, tools};
use weir_command::units::words::{
    LARGE, count, factor_about, factor_at_most, mean_time, of_cpus, percent, stage, things,
};
use weir_command::units::{capacity, seconds};
use weir_command::widths::cut;
use weir_doctor::advice::{AdviceKind, Advised, Filter, Gain, Rereads, Restarts, Scarcity};
use weir_doctor::facts::{Evidence, Run};
use weir_doctor::programs::{EachLine, Instead, each_line, takes_a_list, with_grep};

/// What must hold of a filter that comes before a stage which changes lines.
const MADE: &str = ", if what it looks for is not made there";

/// Returns what to do and why, in a sentence without the gain.
pub fn advice(run: &Run, advised: &Advised) -> String {
    let advice = &advised.advice;
    if let Some(position) = advice.pipe {
        return pipe(run, advised, position);
    }
    if advice.kind == AdviceKind::LongestFirst {
        return longest_first(run).unwrap_or_default();
    }
    match advice.stage {
        Some(position) => of_stage(run, advised, position),
        None => more_cpus(run, advised.scarcity.as_ref(), ""),
    }
}

/// Returns a piece of advice with what the run could gain by it: `... (at most 1.9x faster)`, `... (perhaps
/// over 10x faster)`. A bound above ten promises what hardly anybody gets, and is left out.
pub fn with_gain((advised, text): (&Advised, &str)) -> String {
    let gain = match advised.advice.gain {
        Gain::AtMost(factor) if factor > LARGE => return text.to_owned(),
        Gain::AtMost(factor) => factor_at_most(factor),
        Gain::About(factor) => factor_about(factor),
    };
    format!("{text} ({gain} faster)")
}

fn pipe(run: &Run, advised: &Advised, position: usize) -> String {
    let pipe = &run.pipes[position];
    let (full, empty) = pipe.shares();
    let between = format!("{}->{}", pipe.from + 1, pipe.to + 1);
    let (full, empty) = (percent(full), percent(empty));
    let evidence = format!("it was full {full} and empty {empty} of the time");
    if advised.advice.kind == AdviceKind::LargerPipe {
        let limit = capacity(pipe.limit_bytes);
        let option = match (run.watched.is_some(), run.script) {
            (true, _) => String::from("--grow"),
            // What a script makes is enlarged once, when it is found.
            (_, true) => format!("--pipe-size {}", pipe.limit_bytes),
            _ => String::from("--pipe-size auto"),
        };
        return format!("give pipe {between} up to {limit} ({option}): {evidence}");
    }
    let again = if advised.remembered { "run again with --elastic, or: " } else { "" };
    format!(
        "put an elastic buffer into pipe {between} ({again}... | weir buffer | ...): {evidence}, \
         in bursts larger than a pipe"
    )
}

fn of_stage(run: &Run, advised: &Advised, position: usize) -> String {
    let kind = advised.advice.kind;
    let hint = advised.hint.as_deref().unwrap_or_default();
    let of = &run.stages[position];
    let (name, io) = (stage(position, &of.label), of.io.unwrap_or_default());
    match kind {
        AdviceKind::FewerProcesses => {
            let what = of.started.as_ref().map(started).unwrap_or_default();
            format!("{hint}: {name} {what}")
        }
        AdviceKind::FewerFlushes => {
            let times = count(of.flushes.times);
            format!(
                "{hint}: {name} waited {times} times or more until what it wrote was on the disk"
            )
        }
        AdviceKind::CLocale => format!(
            "set LC_ALL=C for {name} if byte order is enough: {} compares text by the locale {}",
            of.program,
            of.locale.as_deref().unwrap_or_default()
        ),
        AdviceKind::MoreCpus => more_cpus(run, advised.scarcity.as_ref(), &name),
        AdviceKind::ParallelCompressor => {
            let (instead, note) = parallel(advised.instead.as_ref());
            let why = while_idle(run, advised.instead.as_ref());
            format!("{instead} in place of {name}{note}: {why}")
        }
        AdviceKind::OnePass => {
            advised.rereads.and_then(|found| one_pass(run, hint, &found)).unwrap_or_default()
        }
        AdviceKind::NoPacking => no_packing(advised, &name),
        AdviceKind::OneProcess => {
            advised.restarts.and_then(|found| one_process(run, hint, &found)).unwrap_or_default()
        }
        AdviceKind::CountInTable => {
            let uniq = run.stages.get(position + 1).map_or("uniq", |uniq| uniq.label.as_str());
            format!(
                "awk '{{n[$0]++}} END {{for (k in n) print n[k], k}}' in place of {name} | {uniq}, if \
                 the counts may come in any order: few of the lines differ"
            )
        }
        AdviceKind::FilterFirst => filter_first(run, advised, position, &name).unwrap_or_default(),
        AdviceKind::MoreThreads
        | AdviceKind::UncompressedStream
        | AdviceKind::FasterCipher
        | AdviceKind::LineBuffering
        | AdviceKind::DirectInput => tools::advice(run, advised, position, &name),
        AdviceKind::LargerReads => transfers(hint, &name, "reads", io.read_calls, io.read_bytes),
        _ => transfers(hint, &name, "writes", io.write_calls, io.write_bytes),
    }
}

/// Returns what to use in place of a (de)compressor that uses one CPU, with a note on it.
fn parallel(instead: Option<&Instead>) -> (&'static str, &'static str) {
    let Some(instead) = instead else { return ("a program that uses several CPUs", "") };
    let note = match instead.is_installed {
        Some(true) => " (same format)",
        Some(false) => " (same format; it is not installed here)",
        None if instead.needs_blocks => " (helps if the file was compressed in blocks)",
        None => "",
    };
    (instead.typed, note)
}

/// Returns why a program that uses several CPUs would do the work of this one sooner.
fn while_idle(run: &Run, instead: Option<&Instead>) -> String {
    /// Fewer idle CPUs than this are none that counts.
    const SOME: f64 = 0.25;
    let idle_cpus = run.host.idle_cpus.unwrap_or(0.0);
    let needs_less = instead.is_some_and(|instead| instead.needs_less);
    if idle_cpus < SOME && needs_less {
        return String::from("it does the same in less CPU time");
    }
    let idle = of_cpus((idle_cpus * 10.0).round() / 10.0);
    let were = if idle == "1 CPU" { "was" } else { "were" };
    format!("it used one CPU while {idle} {were} idle")
}

/// `give grep all its patterns at once (grep -f FILE), or use awk or join: 292 times grep -c ... read
/// orders.csv`.
fn one_pass(run: &Run, way: &str, found: &Rereads) -> Option<String> {
    let group = run.groups.get(found.group)?;
    let stage = group.run.stages.get(found.stage)?;
    let file = stage.shared_file.as_deref()?;
    let file = file.rsplit('/').next().unwrap_or(file);
    let (about, times) = (mark_word(group.instances_evidence), count(group.instances));
    Some(format!("{way}: {} was started {about}{times} times, and each read {file}", stage.program))
}

/// `put 3 grep x before 2 awk ..., if what it looks for is not made there: it passes 2 % of what it reads`.
fn filter_first(run: &Run, advised: &Advised, position: usize, name: &str) -> Option<String> {
    let label = &run.stages[position].label;
    let passes = match advised.filter? {
        Filter::Inside => {
            let typed = with_grep(label)?;
            let why = format!("{name} does nothing with another line");
            return Some(format!("{typed}, if few lines have it: {why}"));
        }
        Filter::Behind(part) => percent(part),
    };
    let filter = stage(position + 1, &run.stages.get(position + 1)?.label);
    let made = if each_line(label)? == EachLine::Keeps { "" } else { MADE };
    Some(format!("put {filter} before {name}{made}: it passes {passes} of what it reads"))
}

/// `one python for all, which loads its modules once: python3 was started 25 times, about 0.18s each`.
fn one_process(run: &Run, way: &str, found: &Restarts) -> Option<String> {
    let group = run.groups.get(found.group)?;
    let program = group.run.stages.get(found.row).map(|stage| stage.program.as_str())?;
    // Of a row of a pipeline those are counted that were seen.
    let evidence = if group.is_single() { group.instances_evidence } else { Evidence::Sampled };
    let (about, times) = (mark_word(evidence), count(group.times_of(found.row)));
    let each = mean_time(found.starts.each_ns);
    Some(format!("{way}: {program} was started {about}{times} times, {each} each"))
}

/// `start burn 5 first: xargs started it 2.0s after the first of 6 jobs; longest first, all take 5.1s
/// instead of 7.0s`.
fn longest_first(run: &Run) -> Option<String> {
    let shape = run.shape.as_ref()?;
    let (name, program, jobs) = (cut(&shape.longest, LONGEST), &shape.program, shape.jobs);
    let [after, all, was] = [shape.after_ns, shape.longest_first_ns?, shape.span_ns].map(seconds);
    // What a build makes may be needed by what comes later.
    let free = if takes_a_list(program) { "" } else { ", if it needs none of the others" };
    Some(format!(
        "start {name} first{free}: {program} started it {after} after the first of {jobs} jobs; the \
         longest first, all would take {all} instead of {was}"
    ))
}

/// `do not pack t.gz (or pack less: gzip -1): 1 gzip -c big.txt packs what 2 unpacks again`.
fn no_packing(advised: &Advised, name: &str) -> String {
    let found = &advised.repacked;
    let kept = if found.iter().all(|file| file.is_gone) { "" } else { ", unless you keep it" };
    let unpacker = found.first().map_or(0, |file| file.unpacker + 1);
    format!(
        "do not pack {}{kept} (or pack less, as by gzip -1): {name} packs what {unpacker} unpacks",
        repacked_names(found)
    )
}

fn transfers(hint: &str, name: &str, verb: &str, calls: u64, bytes: u64) -> String {
    let each = things((bytes + calls / 2) / calls.max(1), "byte");
    format!("{hint}: {name} {verb} {each} a call in {} calls", count(calls))
}

fn more_cpus(run: &Run, scarcity: Option<&Scarcity>, name: &str) -> String {
    match scarcity {
        Some(Scarcity::Quota(cpus, share)) => {
            format!("a higher CPU quota: the run was {}", quota(*cpus, *share))
        }
        Some(Scarcity::Group(of)) => format!("a higher CPU quota: {name} was {}", own_quota(of)),
        Some(Scarcity::Full(waited_ns)) => {
            let full = match run.usable_cpus() {
                1.0 => String::from("its one CPU was full"),
                usable => format!("the {} it may use were full", of_cpus(usable)),
            };
            let waited_s = *waited_ns as f64 / 1e9;
            format!("twice as many CPUs: {full}, and stages waited {waited_s:.1} s for a CPU")
        }
        None => String::new(),
    }
}
