//! The groups of a run in sentences: the share of the time that each took, and what held it up.

use super::lines::{own_lines, place};
use super::verdict::{beside_others, named, numbered};
use super::{LONGEST, all_cpus, mark_word};
use weir_command::units::words::{count, cpus, mean_time, percent, short_time, stage};
use weir_command::units::{bytes, seconds};
use weir_command::widths::cut;
use weir_doctor::diagnosis::Diagnosis;
use weir_doctor::facts::{Evidence, FoundGroup, Run, Unseen};
use weir_doctor::graph::{CriticalPath, Jobs, Link};
use weir_doctor::groups::{
    GroupFinding, Inside, MoreJobs, Part, Straggler, straggler, waits_for_starter,
};
use weir_doctor::load::PipeSide;
use weir_doctor::read_again::read_again;
use weir_doctor::repacked::{Repacked, repacked};
use weir_doctor::starts::Starts;
use weir_doctor::verdict::{Finding, Verdict};
use weir_policy::text::printable;

/// The largest number of links of a critical path in a sentence.
const MOST_LINKS: usize = 8;
/// A path whose share is less than this below that of a group is not shorter: the build starts first.
const LESS: f64 = 0.05;

/// Returns the verdict on a run of several groups: a line for each that took much of the time.
pub(super) fn groups(run: &Run, found: &Diagnosis) -> String {
    let parts = &found.parts;
    let line = |part: &Part| {
        let group = &run.groups[part.group];
        let why = || why(group, &found.groups[part.group]);
        let held = pool(run, part.group).or_else(why).unwrap_or_default();
        let own = match group.is_parent() {
            true => format!(
                ", its own work {}{}",
                seconds(group.own_ns()),
                group.run.stages.first().map_or_else(String::new, own_lines)
            ),
            false => String::new(),
        };
        let who = self::group(run, part.group);
        let joint = match held.as_str() {
            "" => "",
            held if held.starts_with("held up by ") => ", ",
            _ => ": ",
        };
        format!("{} of the time: {who}{own}{joint}{held}", percent(part.share))
    };
    let mut lines: Vec<String> = parts.iter().map(line).collect();
    let most = parts.first().map_or(0.0, |part| part.share);
    // Of a build, what was waited for one after the other says more than what ran for longest.
    let leads = |path: &CriticalPath| run.jobs.is_some() && path.share >= most - LESS;
    let leads = run.critical_path.as_ref().is_some_and(leads);
    let alone = alone(run).filter(|_| run.jobs.is_none());
    let around =
        critical_path(run).into_iter().chain(jobs(run, found)).chain(alone).chain(uneven(run));
    lines.extend(repacking(run));
    lines.extend(reading_again(run));
    let place = if leads { 0 } else { lines.len() };
    lines.splice(place..place, around);
    lines.extend(beside_others(run, &found.verdict, found.verdict.around.iter()));
    lines.join("\n")
}

/// Returns whether a build would gain by more jobs at once.
fn jobs(run: &Run, found: &Diagnosis) -> Option<String> {
    let (idle, jobs): (f64, Jobs) = (run.host.idle_cpus?, run.jobs?);
    let at_once = match jobs.most {
        1 => String::from("one job at a time"),
        n => format!("{n} jobs at once"),
    };
    let share = percent((jobs.most_ns as f64 / jobs.any_ns.max(1) as f64).min(1.0));
    Some(match found.jobs? {
        MoreJobs::CpusFull => {
            format!("more jobs would gain little: the {} were full", all_cpus(run))
        }
        MoreJobs::May(number) => format!(
            "more jobs may help: it ran {at_once} for {share} of the time, and {} of {} were idle \
             (-j{number})",
            cpus(idle),
            all_cpus(run)
        ),
        MoreJobs::OneByOne(below) => {
            let asked = jobs.asked.unwrap_or_default();
            let why = match below {
                true => {
                    "the make below it got no jobserver ($(MAKE) in the recipe, or + in front of \
                         it, hands it on), or its jobs depend on each other"
                }
                false if jobs.pools => {
                    "each depends on the one before it, or a pool of the build allows one"
                }
                false => "each depends on the one before it, or .NOTPARALLEL is set",
            };
            format!("one job at a time although -j{asked}: {why}")
        }
        MoreJobs::Waits if alone(run).is_some() => {
            format!("more jobs would gain little: {}", alone(run).unwrap_or_default())
        }
        MoreJobs::Waits => format!(
            "more jobs would gain little: there were {at_once} for only {share} of the time; the others \
             waited for a job to end"
        ),
    })
}

/// `94 % of the time packs what a later command unpacks again: t.gz, u.gz`.
fn repacking(run: &Run) -> Option<String> {
    /// Less of the run is not worth a word.
    const MUCH: f64 = 0.15;
    let found = repacked(run);
    let share = run.share(found.iter().map(|file| file.saved_ns).sum()).min(1.0);
    let files = repacked_names(&found);
    (share >= MUCH).then(|| {
        format!("{} of the time goes into packing and unpacking {files} again", percent(share))
    })
}

/// `big.txt is read 4 times, 487 MB together (1, 2, 4 and 6), in 93 % of the time`.
fn reading_again(run: &Run) -> Option<String> {
    const MOST: usize = 6;
    let found = read_again(run)?;
    let file = printable(found.path.rsplit('/').next().unwrap_or(&found.path));
    let mut rows: Vec<String> = found.rows.iter().map(|row| (row + 1).to_string()).collect();
    if rows.len() > MOST {
        rows.splice(MOST - 1.., [String::from("...")]);
    }
    let share = percent(run.share(found.time_ns).min(1.0));
    Some(format!(
        "{file} is read {} times, {} together (by {}), in {share} of the time",
        count(found.times),
        bytes(found.bytes),
        rows.join(", ")
    ))
}

/// `t.gz, u.gz`.
pub(super) fn repacked_names(found: &[Repacked]) -> String {
    const MOST: usize = 3;
    let name = |file: &Repacked| printable(file.path.rsplit('/').next().unwrap_or(&file.path));
    let more = (found.len() > MOST).then(|| String::from("..."));
    found.iter().take(MOST).map(name).chain(more).collect::<Vec<_>>().join(", ")
}

/// `ld -o weir ran alone for 2.1s, 71 % of the time`: of the jobs that ran several at once, the longest.
fn alone(run: &Run) -> Option<String> {
    /// Less of the run is not worth a word.
    const MUCH: f64 = 0.20;
    let shape = run.shape.as_ref().filter(|shape| run.share(shape.alone_ns) >= MUCH)?;
    let (name, share) = (cut(&shape.longest, LONGEST), percent(run.share(shape.alone_ns)));
    Some(format!("{name} ran alone for {}, {share} of the time", seconds(shape.alone_ns)))
}

/// `one of the 4 copies of python3 had 72 % of their work`.
pub(super) fn uneven(run: &Run) -> Option<String> {
    let Straggler { row, share } = straggler(run)?;
    let (copies, program) = (row.copies.processes, printable(&row.program));
    Some(format!("one of the {copies} copies of {program} had {} of their work", percent(share)))
}

/// Returns what held a group up; nothing where it was too short for that.
pub fn why(group: &FoundGroup, found: &GroupFinding) -> Option<String> {
    match found.starts {
        _ if found.is_starting => Some(starting(group)),
        Some(starts) if starts.is_much() => Some(each(starts)),
        _ => held(group, &found.verdict),
    }
}

/// `waiting 83 % of its time until command 1 takes its results, or for the lock of the one that writes`.
fn pool(run: &Run, position: usize) -> Option<String> {
    let found = waits_for_starter(run, position)?;
    let (share, starter) = (percent(found.share.min(1.0)), found.starter + 1);
    let what = match found.writes {
        true => "takes its results, or for the lock of the one that writes them",
        false => "gives it work, or for the lock of the one that asks for it",
    };
    Some(format!("waiting {share} of its time until command {starter} {what}"))
}

fn held(group: &FoundGroup, verdict: &Verdict) -> Option<String> {
    match verdict.finding {
        Finding::TooShort => None,
        Finding::Idle if group.is_single() => {
            let (side, share) = verdict.stages.first()?.waited?;
            let what = if side == PipeSide::Writer { "its input" } else { "its reader" };
            Some(format!("waiting for {what} {} of its time", percent(share)))
        }
        _ => Some(held_up(&group.run, verdict, group.first_stage)),
    }
}

/// Returns a group by its number: `pipeline 2 (line 14 of report.sh)`, `command 3 ld -o weir`.
pub(super) fn group(run: &Run, position: usize) -> String {
    let (group, number) = (&run.groups[position], position + 1);
    match (group.is_single(), &group.line) {
        (true, _) => format!("command {number} {}", described(group)),
        // The table has its commands.
        (false, Some(_)) => format!("pipeline {number} ({})", about(group).join(", ")),
        (false, None) => format!("pipeline {number} {}", described(group)),
    }
}

/// Returns what was found inside of the stage that held a pipeline up.
pub(super) fn inside(run: &Run, found: &Diagnosis) -> Option<String> {
    let Inside { stage: position, group: at, share, own } = found.inside?;
    let group = &run.groups[at];
    let (name, part) = (stage(position, &run.stages[position].label), percent(share.min(1.0)));
    let what = described(group);
    if let Some(own) = own {
        let own = percent(own.min(1.0));
        return Some(format!("inside {name}: {own} of its time its own work; {part}: {what}"));
    }
    let held = why(group, &found.groups[at]).map(|held| format!(": {held}"));
    let held = held.unwrap_or_default();
    let mut line = format!("inside {name}: {part} of its time: {what}{held}");
    line.extend(critical_path(run).map(|path| format!("\n{path}")));
    line.extend(alone(run).or_else(|| uneven(run)).map(|alone| format!("\n{alone}")));
    Some(line)
}

/// Returns the time of a group that ran often and briefly.
fn starting(group: &FoundGroup) -> String {
    let each = mean_time(group.spread.sum_ns / group.instances.max(1));
    let of = match group.run.stages.len() {
        1 => String::from("starting its process is most of that"),
        n => format!("starting its {n} processes is most of that"),
    };
    match group.instances_evidence {
        // Some instances may be missing from the count, and the quotient would then be too large.
        Evidence::LowerBound => of,
        _ => format!("it took {each} each time; {of}"),
    }
}

/// `about 0.18s each, of which loading took perhaps 0.16s`.
fn each(starts: Starts) -> String {
    let each = mean_time(starts.each_ns);
    match starts.is_seen {
        true => {
            format!("{each} each, of which loading took perhaps {}", short_time(starts.loading_ns))
        }
        false => format!("{each} each"),
    }
}

/// Returns what held a group up. The stages inside of a stage have no numbers.
fn held_up(run: &Run, verdict: &Verdict, first: Option<usize>) -> String {
    let text = numbered(run, verdict, first);
    // Shares are those of the group's own time.
    let line = text.lines().next().unwrap_or_default().replace(" of the time", " of its time");
    let line = line.as_str();
    let Some(held) = line.strip_prefix("held up by ") else { return line.to_owned() };
    let position = verdict.culprit.as_ref().map_or(0, |culprit| culprit.stage);
    let name = named(run, position, first);
    let why = held.strip_prefix(&name).and_then(|rest| rest.strip_prefix(": "));
    // The single command has just been named.
    why.filter(|_| run.stages.len() == 1).unwrap_or(line).to_owned()
}

/// `line 14 of report.sh`, `300 times`.
fn about(group: &FoundGroup) -> Vec<String> {
    let more = mark_word(group.instances_evidence);
    let times = (group.instances > 1).then(|| format!("{more}{} times", count(group.instances)));
    place(group).into_iter().chain(times).collect()
}

/// `sort a | uniq -c (line 14 of report.sh, 300 times)`.
fn described(group: &FoundGroup) -> String {
    let about = about(group);
    match about.is_empty() {
        true => short(&group.name),
        false => format!("{} ({})", short(&group.name), about.join(", ")),
    }
}

fn short(name: &str) -> String {
    cut(name, LONGEST)
}

/// Returns the name of a group in the table: its line before its commands.
pub fn name(group: &FoundGroup) -> String {
    match place(group) {
        Some(place) => format!("{place}: {}", group.name),
        None => group.name.clone(),
    }
}

/// `critical path: cc -c b.c 0.60s, then ld 0.20s: 80 % of the time`.
fn critical_path(run: &Run) -> Option<String> {
    let path = run.critical_path.as_ref()?;
    let said = path.links.iter().take(MOST_LINKS).map(|link: &Link| {
        let times = match link.processes.len() {
            1 => String::new(),
            n => format!(" (x{n})"),
        };
        format!("{}{times} {}", target(link), seconds(link.waited_ns))
    });
    let mut said = said.collect::<Vec<_>>().join(", then ");
    if path.links.len() > MOST_LINKS {
        said.push_str(", ...");
    }
    Some(format!("critical path: {said}: {} of the time", percent(path.share)))
}

/// Returns the command of a link, with the file that it makes: `gzip -c a.csv > a.csv.gz`.
fn target(link: &Link) -> String {
    /// The least that is left of a command beside its target.
    const LEAST: usize = 16;
    let words = || link.command.split(' ');
    let target = match &link.output {
        Some(output) => format!(" > {}", printable(output)),
        // Where it would be cut off.
        None if link.command.len() > LONGEST => {
            let named = words().skip_while(|word| *word != "-o").nth(1);
            named.map_or_else(String::new, |named| format!(" -o {}", printable(named)))
        }
        None => String::new(),
    };
    let left = LONGEST.saturating_sub(target.chars().count()).max(LEAST);
    format!("{}{target}", cut(&link.command, left))
}

/// Returns the sentence on processes that ended before weir could see them.
pub fn unseen(run: &Run) -> Option<String> {
    /// A smaller share of the run's CPU time is not mentioned.
    const LITTLE: f64 = 0.05;
    let Unseen { processes, evidence, cpu_ns } = run.unseen?;
    let about = mark_word(evidence);
    let share = cpu_ns as f64 / (run.cpu_sum_ns() + cpu_ns).max(1) as f64;
    if share < LITTLE || processes == Some(0) || seconds(cpu_ns) == "-" {
        return None;
    }
    let who = match processes {
        Some(1) => format!("{about}1 process"),
        Some(n) => format!("{about}{} processes", count(n)),
        None => String::from("processes"),
    };
    let (took, part) = (seconds(cpu_ns), percent(share));
    Some(format!(
        "{who} lived too briefly to be seen: with the last moments of the others they took {took} \
         of CPU time, {part} of the run's"
    ))
}
