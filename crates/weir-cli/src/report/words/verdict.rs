//! The verdict in sentences, one a line: what held the run up, what else took CPU time from it, and the next
//! limit.

use super::lines::own_lines;
use super::{LONGEST, all_cpus, outside, part_list, quota, started};
use weir_command::units::binary;
use weir_command::units::words::{
    count, cpus, factor_about, factor_at_most, of_cpus, percent, rough_count, stage,
};
use weir_command::widths::cut;
use weir_doctor::around::{CpuCause, Pages};
use weir_doctor::facts::{Exchange, LeftOpen, LeftProcess, Run};
use weir_doctor::programs::program_name;
use weir_doctor::verdict::{Bottleneck, Busy, Finding, Verdict};

/// Returns the verdict on a run.
pub fn verdict(run: &Run, verdict: &Verdict) -> String {
    let text = numbered(run, verdict, Some(0));
    let Some(culprit) = verdict.culprit.as_ref().filter(|_| run.script) else { return text };
    // Which lines of a shell: of a group the words about the group tell it.
    let stage = &run.stages[culprit.stage];
    let who = format!("held up by {}", named(run, culprit.stage, Some(0)));
    match text.strip_prefix(&who) {
        Some(rest) => format!("{who}{}{rest}", own_lines(stage)),
        None => text,
    }
}

/// Returns the verdict on a part of a run, whose first stage has this position in the run; `None` where
/// its stages have no numbers.
pub(super) fn numbered(run: &Run, verdict: &Verdict, first: Option<usize>) -> String {
    let name = |position: usize| named(run, position, first);
    let is_other = |found: &&CpuCause| matches!(found, CpuCause::Others(_) | CpuCause::Steal(_));
    let own = verdict.around.iter().filter(|found| !is_other(found));
    let mut around: Vec<String> = own.map(|found| self::around(run, found)).collect();
    around.extend(beside_others(run, verdict, verdict.around.iter().filter(is_other)));
    let first = match &verdict.finding {
        Finding::NothingRan => String::from("nothing ran"),
        Finding::TooShort if run.stages.is_empty() => {
            String::from("too short to say what held it up")
        }
        Finding::TooShort => {
            let ms = run.wall_ns as f64 / 1e6;
            format!("too short to say what held it up ({ms:.0} ms)")
        }
        Finding::Blind => String::from(
            "cannot say: /proc does not show the stages, so only CPU time and memory are known",
        ),
        Finding::Hidden(position, share) => format!(
            "cannot say: {} was blocked {} of the time on something that weir may not see",
            name(*position),
            percent(*share)
        ),
        Finding::SlowInput(share) => format!(
            "held up from outside: it waited for standard input {} of the time",
            percent(*share)
        ),
        Finding::SlowOutput(share) => format!(
            "held up from outside: it waited for the reader of standard output {} of the time",
            percent(*share)
        ),
        Finding::LeftOpen(at) => run
            .left
            .get(*at)
            .map_or_else(String::new, |left| format!("held up by {}", left_open(run, left))),
        Finding::Idle => String::from("no single bottleneck: no stage was busy for long"),
        Finding::EachWaits => {
            String::from("no single bottleneck: each waited for another one for most of the time")
        }
        Finding::Tie(both) | Finding::EqualWork(both) => {
            let is_full = matches!(verdict.around.first(), Some(CpuCause::Full));
            let full = is_full.then(|| around.remove(0));
            tie(both.map(|(position, share)| (name(position), share)), verdict, full)
        }
        Finding::QuotaTie(both) => {
            let [first, last] =
                both.map(|(position, share)| format!("{} used {}", name(position), percent(share)));
            let why = around.remove(0);
            format!("no single bottleneck: {why}; {first} and {last} of the CPU time")
        }
        Finding::Quota => {
            let culprit = verdict.culprit.as_ref();
            let (position, share) =
                culprit.map_or((0, 0.0), |culprit| (culprit.stage, culprit.share));
            let (why, part) = (around.remove(0), percent(share));
            format!("held up by {}: {why}, and it used {part} of the CPU time", name(position))
        }
        Finding::LockStep(position) => {
            let stage = verdict.culprit.as_ref().map(|culprit| name(culprit.stage));
            lock_step(&run.exchanges[*position], stage)
        }
        Finding::InTurn(held) => in_turn(run, held),
        Finding::HeldUp(busy) => {
            let position = verdict.culprit.as_ref().map_or(0, |culprit| culprit.stage);
            held_up(run, verdict, position, &name(position), busy)
        }
    };
    let next = verdict.culprit.as_ref().and_then(|culprit| next_limit(run, culprit));
    let lines: Vec<String> = [first].into_iter().chain(around).chain(next).collect();
    lines.join("\n")
}

/// `no single bottleneck: 1 a (busy 88 %) and 2 b (busy 93 %); the 2 CPUs were full`.
fn tie(both: [(String, f64); 2], verdict: &Verdict, full: Option<String>) -> String {
    let [first, last] = both.map(|(name, share)| format!("{name} (busy {})", percent(share)));
    let without = match verdict.finding {
        Finding::EqualWork(_) => ", waits for a CPU left out",
        _ => "",
    };
    let full = full.map_or_else(String::new, |full| format!("; {full}"));
    format!("no single bottleneck: {first} and {last}{without}{full}")
}

/// `sleep 4 (PID 17), left running by stage 1, which still had the pipe open: stage 2 waited ...`
pub fn left_open(run: &Run, left: &LeftOpen) -> String {
    let (one, next) = (left.stage + 1, left.stage + 2);
    let who = left.process.as_ref().map_or_else(|| String::from("a process"), left_process);
    let after = run.waited_for_left_ns(left) as f64 / 1e9;
    format!(
        "{who}, left running by stage {one}, which still had the pipe open: stage {next} waited \
         {after:.2}s for the end of file: close its output with > /dev/null, or wait for it"
    )
}

fn left_process(LeftProcess { pid, command }: &LeftProcess) -> String {
    match command.as_str() {
        "" => format!("process {pid}"),
        command => format!("{} (PID {pid})", cut(command, LONGEST)),
    }
}

/// `sleep 20 (PID 17), left running, still has the output open: ...`
pub fn left_output(left: &LeftProcess) -> String {
    format!(
        "{}, left running, still has the output open: whoever reads that to its end waits for it: close \
         its output with > /dev/null 2>&1, or wait for it",
        left_process(left)
    )
}

/// Returns the name of a stage of a part of a run, as [`numbered`] has it.
pub(super) fn named(run: &Run, position: usize, first: Option<usize>) -> String {
    let name = stage(first.unwrap_or(0) + position, &run.stages[position].label);
    let number = name.find(' ').filter(|_| first.is_none() && !name.starts_with("stage "));
    name[number.map_or(0, |blank| blank + 1)..].to_owned()
}

/// `no single bottleneck: bash and bc ask and answer in turn, about 15 k times, 60 us each time`. `inside`:
/// the stage in which both are.
fn lock_step(exchange: &Exchange, inside: Option<String>) -> String {
    let [one, other] = exchange.both.each_ref().map(|stage| {
        let on_cpu = percent(exchange.share(stage.times.cpu_ns));
        format!("{} (on CPU {on_cpu})", cut(&stage.label, LONGEST))
    });
    let each = outside::each_time(exchange.together_ns / exchange.times().max(1));
    let times = rough_count(exchange.times());
    let who = match inside {
        Some(stage) => format!("held up by {stage}"),
        None => String::from("no single bottleneck"),
    };
    format!(
        "{who}: {one} and {other} ask and answer in turn, about {times} times, {each} \
         each time: one waits while the other works, and much of that time goes into waking it; more in \
         each question, or questions sent ahead of the answers, would take fewer turns"
    )
}

/// `held up by 2 sort for 55 % of the time, and by 1 gzip for 45 %`.
fn in_turn(run: &Run, held: &[(usize, f64)]) -> String {
    let part = |at: usize, (position, share): (usize, f64)| {
        let name = stage(position, &run.stages[position].label);
        let of_what = if at == 0 { " of the time" } else { "" };
        format!("by {name} for {}{of_what}", percent(share))
    };
    let mut parts: Vec<String> = held.iter().enumerate().map(|(at, one)| part(at, *one)).collect();
    let last = if parts.len() > 1 { parts.pop() } else { None };
    let last = last.map(|last| format!(", and {last}")).unwrap_or_default();
    format!("held up {}{last}", parts.join(", "))
}

/// Returns a stage by its number and program.
pub(super) fn short_stage(run: &Run, position: usize) -> String {
    let label = &run.stages[position].label;
    stage(position, program_name(label).unwrap_or(label))
}

/// `beside others: other processes used 1.2 of 2 CPUs, and stages waited 3.1 s for a CPU`.
pub(super) fn beside_others<'a>(
    run: &Run,
    verdict: &Verdict,
    others: impl Iterator<Item = &'a CpuCause>,
) -> Option<String> {
    let who: Vec<String> = others.map(|found| around(run, found)).collect();
    let waited = verdict.queued_ns as f64 / 1e9;
    (!who.is_empty()).then(|| {
        format!("beside others: {}, and stages waited {waited:.1} s for a CPU", who.join(", "))
    })
}

/// Returns what took CPU time from the run, in a clause.
fn around(run: &Run, around: &CpuCause) -> String {
    match around {
        CpuCause::Throttled { cpus, share } => quota(*cpus, *share),
        CpuCause::Others(used) => {
            // Of another time than the figure, so without theirs.
            let named = run.neighbours.iter().map(|it| it.program.as_str());
            let named = named.collect::<Vec<_>>().join(", ");
            let named = if named.is_empty() { named } else { format!(" (most: {named})") };
            format!("other processes used {} of {}{named}", cpus(*used), all_cpus(run))
        }
        CpuCause::Steal(used) => {
            format!("the hypervisor took away {} of {} (steal)", cpus(*used), all_cpus(run))
        }
        CpuCause::Full => match run.usable_cpus() {
            1.0 => String::from("the one CPU was full"),
            cpus => format!("the {} were full", of_cpus(cpus)),
        },
    }
}

/// Returns what held a run up, where one stage did, of this name.
fn held_up(run: &Run, verdict: &Verdict, position: usize, name: &str, busy: &Busy) -> String {
    let (stage, found) = (&run.stages[position], &verdict.stages[position]);
    let does = match busy {
        Busy::Outside(peer, limit, share) => return outside::held_up(peer, limit, name, *share),
        Busy::Starting(share) => {
            let what = stage.started.as_ref().map(started).unwrap_or_default();
            format!("{what}: {} of the time", percent(*share))
        }
        Busy::Parts(parts) => {
            let pages = found.pages.as_ref().map(pages).unwrap_or_default();
            let trips = outside::round_trips_in(parts, run.wall_ns);
            format!("{pages}{} of the time{trips}", part_list(parts))
        }
        Busy::Paced(parts) => format!("it keeps to a rate: {} of the time", part_list(parts)),
    };
    match found.err {
        Some(share) => format!(
            "held up by the reader of what {name} writes to its standard error: {does}; {name} waited \
             for it {}",
            percent(share)
        ),
        None => format!("held up by {name}: {does}"),
    }
}

/// `waits for pages (memory limit 64 MiB of its control group 'job', 40 k faults from disk): `
fn pages(Pages { limit, faults, pressure, swapped }: &Pages) -> String {
    let limit = limit.as_ref().map(|limit| {
        let group = match limit.group.as_str() {
            "" => String::new(),
            group => format!(" of its control group '{group}'"),
        };
        format!("memory limit {}{group}, ", binary(limit.limit_bytes))
    });
    let from = if *swapped { "disk and swap" } else { "disk" };
    let short = pressure.filter(|_| limit.is_none());
    let short =
        short.map(|share| format!("; the host was short of memory {} of the time", percent(share)));
    let (limit, short, faults) =
        (limit.unwrap_or_default(), short.unwrap_or_default(), count(*faults));
    format!("waits for pages ({limit}{faults} faults from {from}{short}): ")
}

/// `if 2 grep took no time, the next limit would be 3 wc -l: at most 2.0x faster`.
fn next_limit(run: &Run, culprit: &Bottleneck) -> Option<String> {
    /// What is so much shorter is no limit that anybody meets.
    const TRIVIAL: f64 = 50.0;
    let (next, limit) = (culprit.next_stage?, culprit.speedup_limit?);
    let short = short_stage(run, culprit.stage);
    if limit >= TRIVIAL {
        return Some(format!("if {short} took no time, hardly anything would be left"));
    }
    let next = stage(next, &run.stages[next].label);
    let gain = match (culprit.crowded_speedup, limit) {
        (Some(likely @ 1.05..), _) => {
            format!("{} faster while others use the CPUs", factor_about(likely))
        }
        (_, ..1.05) => String::from("not measurably faster"),
        (_, limit) => format!("{} faster", factor_at_most(limit)),
    };
    Some(format!("if {short} took no time, the next limit would be {next}: {gain}"))
}
