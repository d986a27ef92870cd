//! The shape of parallel work: which of the jobs that one process started ran alone, and whether another
//! order would have been shorter.

use super::{SeenProcess, above};
use crate::programs::{is_posix_shell, runs_jobs, takes_a_list};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Fewer jobs than this have no order.
const FEW: usize = 3;
/// Jobs that ran at once for a smaller part of the time (a twentieth) are one more by chance.
const BY_CHANCE: u64 = 20;
/// The replay of the order as it was must be as long as the jobs were, to this part of that (a twentieth).
const NEAR: u64 = 20;
/// An order that is shorter by less than this part (a tenth) is none.
const SHORTER: u64 = 10;
/// What a build starts while another job runs for this long, it did not start because that one had ended.
const SLACK_NS: u64 = 50_000_000;

/// The jobs of one process that runs several at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The program that started them.
    pub program: String,
    /// Their number.
    pub jobs: u64,
    /// How many ran at once.
    pub at_once: u64,
    /// From the first start to the last end.
    pub span_ns: u64,
    /// The longest of them.
    pub longest: String,
    /// How long that ran.
    pub longest_ns: u64,
    /// How long after the first of all it was started.
    pub after_ns: u64,
    /// The time in which it ran and no other did.
    pub alone_ns: u64,
    /// How long all would have taken in about, the longest first; `None` where that is no shorter, or not
    /// known: the order as it was, replayed, is not what was seen, or one may need what another made.
    pub longest_first_ns: Option<u64>,
}

/// A job: from when to when it ran.
#[derive(Clone, Copy)]
struct Job {
    process: usize,
    start_ns: u64,
    end_ns: u64,
}

impl Job {
    fn life_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Finds the jobs that took longest, of those that a tool ran several of at once (`xargs -P`, `parallel`,
/// make, ninja).
pub fn shape(seen: &[SeenProcess]) -> Option<Shape> {
    let starters = (0..seen.len()).filter(|at| runs_jobs(&seen[*at].program) || is_pool(seen, *at));
    let shapes = starters.filter_map(|at| shape_of(seen, at));
    shapes.max_by_key(|shape| shape.span_ns)
}

/// Whether a shell does nothing but run one program again and again (`job & ... wait -n`).
fn is_pool(seen: &[SeenProcess], shell: usize) -> bool {
    let mut started = (0..seen.len()).filter(|at| above(seen, *at).next() == Some(shell));
    let Some(first) = started.next().filter(|_| is_posix_shell(&seen[shell].program)) else {
        return false;
    };
    !is_posix_shell(&seen[first].program)
        && started.all(|at| seen[at].program == seen[first].program)
}

fn shape_of(seen: &[SeenProcess], starter: usize) -> Option<Shape> {
    let of = |at: &usize| above(seen, *at).next() == Some(starter);
    let mut jobs: Vec<Job> = (0..seen.len())
        .filter(of)
        .map(|process| {
            let SeenProcess { start_ns, end_ns, .. } = seen[process];
            Job { process, start_ns, end_ns }
        })
        .collect();
    // The jobs of a build below it are others.
    let inner = |at: usize| above(seen, at).any(|above| jobs.iter().any(|it| it.process == above));
    // A copy that became nothing else has the name that its parent had before, and no words.
    let is_other = |at: usize| {
        let executed = &seen[at].executed;
        let is_copy = executed.is_empty() || *executed == seen[starter].executed;
        runs_jobs(&seen[at].program) && !is_copy
    };
    if jobs.len() < FEW || (0..seen.len()).any(|at| is_other(at) && inner(at)) {
        return None;
    }
    jobs.sort_by_key(|job| job.start_ns);
    let begun_ns = jobs[0].start_ns;
    let span_ns = jobs.iter().map(|job| job.end_ns).max()?.saturating_sub(begun_ns);
    let at_once = at_once(&jobs, span_ns);
    // One after the other is the order of a script.
    if at_once < 2 && is_posix_shell(&seen[starter].program) {
        return None;
    }
    let longest = *jobs.iter().max_by_key(|job| job.life_ns())?;
    let lives = || jobs.iter().map(Job::life_ns);
    let as_it_was_ns = replay(lives(), at_once);
    let near = as_it_was_ns.abs_diff(span_ns) <= span_ns / NEAR;
    let mut sorted: Vec<u64> = lives().collect();
    sorted.sort_by(|one, other| other.cmp(one));
    let longest_first_ns = replay(sorted.into_iter(), at_once);
    let shorter = longest_first_ns + as_it_was_ns / SHORTER <= as_it_was_ns;
    let free = near && shorter && is_free(seen, starter, &jobs, longest);
    Some(Shape {
        program: seen[starter].program.clone(),
        jobs: jobs.len() as u64,
        at_once: at_once as u64,
        span_ns,
        longest: name(seen, &jobs, longest.process),
        longest_ns: longest.life_ns(),
        after_ns: longest.start_ns.saturating_sub(begun_ns),
        alone_ns: alone_ns(&jobs, longest),
        longest_first_ns: free.then_some(longest_first_ns),
    })
}

/// Whether a job needs nothing that another one made, as far as can be seen: a list has no such order, and
/// a build started it when another one was still at work, and not when that had ended.
fn is_free(seen: &[SeenProcess], starter: usize, jobs: &[Job], job: Job) -> bool {
    let beside = |other: &&Job| {
        other.process != job.process
            && other.start_ns <= job.start_ns
            && other.end_ns >= job.start_ns + SLACK_NS
    };
    takes_a_list(&seen[starter].program) || jobs.iter().any(|other| beside(&other))
}

/// Returns the name of a job; of a shell that only waits, that of the longest that it started, if that has a
/// word that tells the job from the others. Else it is what tells the command of the shell from theirs.
fn name(seen: &[SeenProcess], jobs: &[Job], job: usize) -> String {
    let worker = &seen[worker(seen, job)].command;
    let others = jobs.iter().map(|other| other.process).filter(|other| *other != job);
    let own: Vec<&str> = seen[job].executed.split(' ').collect();
    let same = |other: usize| {
        own.iter().zip(seen[other].executed.split(' ')).take_while(|(one, two)| *one == two).count()
    };
    let common = others.clone().map(same).min().unwrap_or(0);
    let rest = &own[common..];
    let all_have = |word: &str| {
        others.clone().all(|other| seen[other].executed.split(' ').any(|of| of == word))
    };
    let tells = worker.split(' ').any(|word| rest.contains(&word) && !all_have(word));
    match own.first() {
        Some(first) if seen[job].waits && !tells && !rest.is_empty() && common > 0 => {
            let program = first.rsplit('/').next().unwrap_or(first);
            let between = if common > 1 { " ... " } else { " " };
            format!("{program}{between}{}", rest.join(" "))
        }
        _ => worker.clone(),
    }
}

/// Returns the process that worked for a job: the longest below shells that only wait.
fn worker(seen: &[SeenProcess], job: usize) -> usize {
    let life_ns = |at: &usize| seen[*at].end_ns.saturating_sub(seen[*at].start_ns);
    let mut at = job;
    while seen[at].waits {
        let below = (at + 1..seen.len()).filter(|of| seen[*of].parent == Some(at));
        let Some(longest) = below.max_by_key(life_ns) else { break };
        at = longest;
    }
    at
}

/// Returns how many jobs ran at once, for more than a moment.
fn at_once(jobs: &[Job], span_ns: u64) -> usize {
    let mut changes: Vec<(u64, bool)> =
        jobs.iter().flat_map(|job| [(job.start_ns, true), (job.end_ns, false)]).collect();
    // At the same time, ends come first.
    changes.sort();
    let (mut running, mut since_ns) = (0, 0);
    let mut times_ns = alloc::vec![0; jobs.len() + 1];
    for (at_ns, starts) in changes {
        times_ns[running] += at_ns.saturating_sub(since_ns);
        since_ns = at_ns;
        running = if starts { running + 1 } else { running.saturating_sub(1) };
    }
    let mut longer_ns = 0;
    let level = (1..times_ns.len()).rev().find(|level| {
        longer_ns += times_ns[*level];
        longer_ns * BY_CHANCE >= span_ns
    });
    level.unwrap_or(1)
}

/// Returns how long jobs of these lengths take, each started in turn as soon as there is room.
fn replay(lives_ns: impl Iterator<Item = u64>, at_once: usize) -> u64 {
    let mut free_at_ns = alloc::vec![0; at_once.max(1)];
    for life_ns in lives_ns {
        if let Some(first) = free_at_ns.iter_mut().min() {
            *first += life_ns;
        }
    }
    free_at_ns.into_iter().max().unwrap_or(0)
}

/// Returns the time in which a job ran and no other did.
fn alone_ns(jobs: &[Job], job: Job) -> u64 {
    let (mut alone_ns, mut until_ns) = (0, job.start_ns);
    // They are in the order of their starts.
    for other in jobs.iter().filter(|other| other.process != job.process) {
        let start_ns = other.start_ns.clamp(job.start_ns, job.end_ns);
        alone_ns += start_ns.saturating_sub(until_ns);
        until_ns = until_ns.max(other.end_ns.min(job.end_ns));
    }
    alone_ns + job.end_ns.saturating_sub(until_ns)
}

#[cfg(test)]
mod tests {
    use super::super::tests::process;
    use super::*;
    use alloc::vec;

    const MS: u64 = 1_000_000;

    /// Five of a second and the one of five last: 7 s for two at once, and 5 s the other way round.
    fn straggler(starter: &str) -> Vec<SeenProcess> {
        let mut seen = vec![process(None, starter, (0, 7000))];
        for start in [0, 1000] {
            seen.push(process(Some(0), "burn 1", (start, start + 1000)));
            seen.push(process(Some(0), "burn 1", (start, start + 1010)));
        }
        seen.push(process(Some(0), "burn 1", (2000, 3100)));
        seen.push(process(Some(0), "burn 5", (2010, 7010)));
        seen
    }

    #[test]
    fn the_longest_job_should_not_be_the_last() {
        let found = shape(&straggler("xargs -P2 -n1 burn")).expect("jobs");
        assert_eq!((found.jobs, found.at_once, found.longest.as_str()), (6, 2, "burn 5"));
        assert_eq!((found.after_ns / MS, found.alone_ns / MS), (2010, 3910));
        assert_eq!(found.longest_first_ns.map(|ns| ns / MS), Some(5120));
        // With another job at work, a build did not wait for what this one needs.
        assert!(shape(&straggler("make -j2")).expect("jobs").longest_first_ns.is_some());
        assert!(shape(&straggler("bash pool.sh")).expect("jobs").longest_first_ns.is_some());
        let mut script = straggler("bash pool.sh");
        script.push(process(Some(0), "rm a", (7010, 7020)));
        assert_eq!(shape(&script), None, "it does other things too, which may need a job's end");
        let mut by_turns = straggler("bash pool.sh");
        for (at, job) in by_turns.iter_mut().enumerate().skip(1) {
            (job.start_ns, job.end_ns) = (at as u64 * 1000 * MS, (at as u64 + 1) * 1000 * MS);
        }
        assert_eq!(shape(&by_turns), None);
        assert_eq!(shape(&straggler("mytool")), None);
        let mut shim = straggler("xargs -P2 -n1 burn");
        shim.push(process(Some(6), "xargs -P2 -n1 burn", (2020, 2030)));
        assert!(shape(&shim).expect("jobs").longest_first_ns.is_some(), "a copy of the shim");
        shim.push(process(Some(6), "make -j4", (2020, 2030)));
        assert_eq!(shape(&shim), None, "whose jobs are others");
    }

    /// A linker needs what the compilers made, and equal jobs have no better order.
    #[test]
    fn no_order_is_advised_where_there_is_none() {
        let build = [
            process(None, "make -j2", (0, 3000)),
            process(Some(0), "cc a", (0, 500)),
            process(Some(0), "cc b", (0, 1000)),
            process(Some(0), "cc c", (500, 1000)),
            process(Some(0), "ld", (1001, 3000)),
        ];
        let found = shape(&build).expect("jobs");
        assert_eq!((found.longest.as_str(), found.alone_ns / MS), ("ld", 1999));
        assert_eq!(found.longest_first_ns, None);
        let mut equal = straggler("xargs -P2");
        equal.truncate(5);
        assert_eq!(shape(&equal).expect("jobs").longest_first_ns, None);
        // The list came slowly: the order as it was explains nothing.
        let mut slow = straggler("xargs -P2");
        (slow[6].start_ns, slow[6].end_ns) = (9000 * MS, 14_000 * MS);
        assert_eq!(shape(&slow).expect("jobs").longest_first_ns, None);
    }

    #[test]
    fn a_job_of_a_build_has_the_name_of_what_its_shell_ran() {
        let mut seen = straggler("make -j2");
        (seen[6].waits, seen[6].executed) = (true, String::from("/bin/sh -c rustc x"));
        seen.push(process(Some(6), "rustc x", (2020, 7000)));
        assert_eq!(shape(&seen).expect("jobs").longest, "rustc x");
    }

    /// "start sha512sum first": all jobs of the list ran it.
    #[test]
    fn a_job_of_a_list_has_the_name_of_what_it_took_from_there() {
        let mut seen = straggler("xargs -P2 -n1 sh -c x");
        for (at, job) in seen.iter_mut().enumerate().skip(1) {
            let size = if at == 6 { 9 } else { 1 };
            (job.waits, job.executed) = (true, format!("/bin/sh -c seq $0 | sha512sum {size}"));
        }
        for at in 1..7 {
            let (start_ns, end_ns) = (seen[at].start_ns / MS, seen[at].end_ns / MS);
            seen.push(process(Some(at), "sha512sum", (start_ns, end_ns)));
        }
        assert_eq!(shape(&seen).expect("jobs").longest, "sh ... 9");
        for job in seen.iter_mut().filter(|job| job.waits) {
            job.executed.push_str(" | sha512sum");
        }
        assert_eq!(shape(&seen).expect("jobs").longest, "sh ... 9 | sha512sum");
        seen[12].command = String::from("sha512sum 9");
        assert_eq!(shape(&seen).expect("jobs").longest, "sha512sum 9");
    }
}
