//! Advice on programs that are started again and again, where one process could do what all of them do.

use super::{Advice, AdviceKind, Gain, estimate};
use crate::facts::{FoundGroup, Run};
use crate::limits;
use crate::programs;
use crate::starts::Starts;

/// Starts that take a smaller share of the run are not worth a change.
const WORTH: f64 = 0.15;
/// One process for all takes as long as this many of the old ones: `git log --name-only` walks through
/// all commits once.
const ONCE: f64 = 3.0;
/// What stays of a loop in any case.
const REST: f64 = 0.05;

/// A command that is started again and again, and what starting it once could gain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Restarts {
    /// Position of the group in [`Run::groups`].
    pub group: usize,
    /// Position of the command in its stages.
    pub row: usize,
    /// What is known of its starts.
    pub starts: Starts,
    /// The factor that the run could gain by one process, about.
    pub gain: f64,
}

/// Returns the command with most to gain by one process, of those that are started again and again.
pub fn restarts(run: &Run) -> Option<Restarts> {
    let groups = run.groups.iter().enumerate();
    let rows = groups.flat_map(|(at, group)| (0..group.run.stages.len()).map(move |row| (at, row)));
    let all = rows.filter_map(|(group, row)| restarts_of(run, group, row));
    all.max_by(|one, other| one.gain.total_cmp(&other.gain))
}

/// Returns what is known of the starts of one row of a group.
fn restarts_of(run: &Run, at: usize, row: usize) -> Option<Restarts> {
    let group = &run.groups[at];
    let stage = &group.run.stages[row];
    let (name, wall_ns, forks_ns) = match group.is_single() {
        true => (&group.name, group.run.wall_ns, forks_ns(run, group)),
        false => (&stage.label, stage.wall_ns, 0),
    };
    let saves_work = programs::in_one_process(name)?.saves_work;
    let starts = Starts::of_row(group, row).filter(|starts| saves_work || starts.is_much())?;
    let times = group.times_of(row) as f64;
    let part = match saves_work {
        true => 1.0 - ONCE / times,
        false => starts.share() * (1.0 - 1.0 / times),
    };
    let share = run.share(wall_ns) * part + run.share(forks_ns) * (1.0 - 1.0 / times);
    // What is behind it in a pipeline may need as long.
    let bound = limits::without_stage(&group.run, row).filter(|_| !group.is_single());
    let gain = estimate(share.min(1.0 - REST)).min(bound.unwrap_or(f64::INFINITY));
    (share >= WORTH).then_some(Restarts { group: at, row, starts, gain })
}

/// Returns the time that the shell of a loop took to start the processes of a group, and nearly no others:
/// one process for all saves that too.
fn forks_ns(run: &Run, group: &FoundGroup) -> u64 {
    let of_loop = group.inside.and_then(|at| run.stages.get(at));
    let started = of_loop
        .filter(|stage| programs::is_loop(&stage.label))
        .and_then(|stage| stage.started.as_ref())
        .map_or(u64::MAX, |started| started.processes.max(started.likely_processes));
    if started.saturating_mul(9) > group.instances.saturating_mul(10) {
        return 0;
    }
    let beside = run.groups.iter().filter(|it| it.inside == group.inside && it.starts_others);
    let stages = beside.flat_map(|it| &it.run.stages);
    let shells = stages.filter(|stage| programs::is_shell(&stage.program));
    shells.map(|stage| stage.times.cpu_ns + stage.times.queue_ns).sum()
}

/// Advises one process in place of many that each load the same.
pub(crate) fn one_process(run: &Run) -> Option<Advice> {
    let found = restarts(run)?;
    let group = &run.groups[found.group];
    let stage = group.first_stage.map(|first| first + found.row).or(group.inside);
    let (kind, gain) = (AdviceKind::OneProcess, Gain::About(found.gain));
    Some(Advice { kind, stage: Some(stage?), pipe: None, gain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Spread;
    use crate::made::{self, MS};
    use alloc::string::String;
    use alloc::vec;

    /// A run of two seconds, of which a command that was started again and again took 1.8.
    fn run(label: &str, instances: u64) -> Run {
        let mut stage = made::stage(label, [1700]);
        (stage.processes, stage.wall_ns) = (instances, 1800 * MS);
        made::reads(&mut stage, 8000, 30_000_000);
        let group = FoundGroup {
            run: Run { wall_ns: 1800 * MS, stages: vec![stage.clone()], ..Run::default() },
            name: String::from(label),
            first_stage: Some(0),
            instances,
            spread: Spread { sum_ns: 1800 * MS, ..Spread::default() },
            ..FoundGroup::default()
        };
        let run = made::run(vec![stage]);
        Run { wall_ns: 2000 * MS, script: true, groups: vec![group], ..run }
    }

    /// 300 times `git log -1` took 2 s, and one `git log --name-only` 5 ms; 400 times
    /// `git hash-object` of 1 MB each 1.9 s, and one with a list 1.3 s.
    #[test]
    fn one_process_saves_starts_and_only_of_some_commands_their_work() {
        let gain = |label, instances| restarts(&run(label, instances)).map(|found| found.gain);
        assert!(gain("git log -1 -- ...", 300) > Some(8.0));
        // 1.8 ms of 30 ms, and all the rest is the same walk again.
        assert!(gain("git log -1 -- ...", 60) > Some(5.0));
        let hashes = gain("git hash-object ...", 300).expect("much of each is the start");
        assert!((1.3..1.5).contains(&hashes), "{hashes}");
        // 1.8 ms of 60 ms.
        assert_eq!(gain("git hash-object ...", 30), None);
        assert_eq!(gain("git push ...", 30), None, "there is no list to give it");
        assert!(gain("python3 -c ...", 20) > Some(2.0));
        assert_eq!(gain("mytool ...", 300), None);
    }

    /// Twenty node -e took 1.6 s, and piped into `paste -sd+ | bc` they got no advice: the pipeline ran
    /// once.
    #[test]
    fn a_loop_that_is_piped_into_others_is_one_too() {
        let mut run = run("node -e ...", 20);
        run.stages.push(made::stage("paste -sd+", [2, 0, 990]));
        run.groups[0].run.stages = run.stages.clone();
        run.groups[0].instances = 1;
        (run.groups[0].first_stage, run.groups[0].spread.sum_ns) = (Some(3), 1800 * MS);
        let found = restarts(&run).expect("starts");
        assert_eq!((found.group, found.row, found.starts.each_ns / MS), (0, 0, 90));
        assert!(found.gain > 1.5, "{}", found.gain);
        assert_eq!(one_process(&run).and_then(|advice| advice.stage), Some(3));
        run.groups[0].run.stages[0].processes = 6;
        assert_eq!(restarts(&run), None);
    }

    /// 500 files, each hashed by a git of its own, took 1.35 s, and all by one 32 ms.
    #[test]
    fn one_process_saves_what_the_shell_of_a_loop_takes_to_start_many() {
        let mut run = run("git hash-object ...", 500);
        run.stages = vec![made::stage("while read -r file; do git hash-object; done", [2000])];
        (run.groups[0].first_stage, run.groups[0].inside) = (None, Some(0));
        run.groups[0].run.wall_ns = 1200 * MS;
        let gain = |run: &Run| restarts(run).expect("starts").gain;
        let alone = gain(&run);
        let shell = Run { stages: vec![made::stage("bash", [400, 300])], ..Run::default() };
        run.groups.push(FoundGroup {
            run: shell,
            name: String::from("bash (the script itself)"),
            starts_others: true,
            inside: Some(0),
            ..FoundGroup::default()
        });
        assert_eq!(gain(&run), alone, "how many it started is not known");
        let started = |processes| Some(crate::facts::Started { processes, ..Default::default() });
        run.stages[0].started = started(500);
        assert!(gain(&run) > alone * 1.5, "{alone} {}", gain(&run));
        run.stages[0].started = started(900);
        assert_eq!(gain(&run), alone, "it started others too");
    }
}
