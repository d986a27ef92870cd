//! How many jobs a build ran at once.

use super::{SeenProcess, above};
use crate::programs::{Fact, is};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The jobs of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs {
    /// The most that ran at once.
    pub most: u64,
    /// The most that may run at once, where the command says so (`-j4`).
    pub asked: Option<u64>,
    /// The time in which at least one ran.
    pub any_ns: u64,
    /// The time in which as many ran as may, or else as many as ever did.
    pub most_ns: u64,
    /// Whether they were those of a build below it.
    pub below: bool,
    /// Whether the tool has pools that hold jobs back (ninja), and not `.NOTPARALLEL`.
    pub pools: bool,
}

/// Returns the jobs of the build tool that was started first; `None` where there is none that ran two.
pub fn jobs(seen: &[SeenProcess]) -> Option<Jobs> {
    let is_tool = |at: usize| is(&seen[at].program, Fact::RunsJobs(false));
    let first = (0..seen.len()).find(|at| is_tool(*at))?;
    // A job that is a build itself is none: its jobs are.
    let mut inner = BTreeSet::new();
    for at in (0..seen.len()).filter(|at| is_tool(*at)) {
        inner.insert(at);
        inner.extend(above(seen, at));
    }
    let of_tool = |at: &usize| above(seen, *at).next().is_some_and(is_tool) && !inner.contains(at);
    let jobs: Vec<usize> = (0..seen.len()).filter(of_tool).collect();
    let mut changes: Vec<(u64, i64)> =
        jobs.iter().flat_map(|at| [(seen[*at].start_ns, 1), (seen[*at].end_ns, -1)]).collect();
    // At the same time, ends come first.
    changes.sort_by_key(|change| *change);
    let most = most(&changes);
    // Where more ran, the environment says otherwise (`MAKEFLAGS`).
    let asked = asked(&seen[first]).filter(|asked| most <= *asked);
    let limit = asked.map_or(most, |asked| asked.min(most).max(1));
    let below = !jobs.iter().any(|at| above(seen, *at).next() == Some(first));
    let (mut running, mut since_ns, mut any_ns, mut most_ns) = (0, 0, 0, 0);
    for (at_ns, change) in changes {
        let length_ns = at_ns.saturating_sub(since_ns);
        any_ns += if running > 0 { length_ns } else { 0 };
        most_ns += if running >= limit as i64 { length_ns } else { 0 };
        running += change;
        since_ns = at_ns;
    }
    let pools = is(&seen[first].program, Fact::Pools);
    (jobs.len() > 1).then_some(Jobs { most, asked, any_ns, most_ns, below, pools })
}

fn most(changes: &[(u64, i64)]) -> u64 {
    let mut running = 0;
    let counts = changes.iter().map(|(_, change)| {
        running += change;
        running
    });
    counts.max().unwrap_or(0).max(0) as u64
}

/// Returns how many jobs a command asks for; `None` where that is not known, or without limit.
fn asked(tool: &SeenProcess) -> Option<u64> {
    let mut words = tool.executed.split(' ').skip(1);
    let mut asked = is(&tool.program, Fact::OneJob).then_some(1);
    while let Some(word) = words.next() {
        let number = word.strip_prefix("--jobs").or_else(|| word.strip_prefix("-j"));
        asked = match number {
            None => asked,
            Some("") => words.clone().next().and_then(|next| next.parse().ok()),
            Some(number) => number.trim_start_matches('=').parse().ok(),
        };
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::super::tests::process;
    use super::*;
    use alloc::string::String;

    const MS: u64 = 1_000_000;

    /// `make -j2` of three compilers and a linker, below a shell.
    #[test]
    fn the_jobs_of_a_build_are_what_its_tool_started_itself() {
        let seen = [
            process(None, "bash b.sh", (0, 1000)),
            process(Some(0), "make -j2 all", (0, 1000)),
            process(Some(1), "cc a.c", (0, 400)),
            process(Some(1), "cc b.c", (0, 300)),
            process(Some(1), "cc c.c", (300, 600)),
            process(Some(2), "cc1 a.c", (10, 390)),
            process(Some(1), "ld", (700, 900)),
        ];
        let found = jobs(&seen).expect("a build");
        assert_eq!((found.most, found.asked), (2, Some(2)));
        assert_eq!((found.any_ns / MS, found.most_ns / MS), (800, 400));
    }

    #[test]
    fn a_make_below_a_make_is_no_job() {
        let seen = [
            process(None, "make -j 3", (0, 1000)),
            process(Some(0), "bash -c make", (0, 1000)),
            process(Some(1), "make -C sub", (0, 1000)),
            process(Some(2), "cc a.c", (0, 500)),
            process(Some(2), "cc b.c", (0, 500)),
            process(Some(0), "cc c.c", (0, 500)),
        ];
        let found = jobs(&seen).expect("a build");
        assert_eq!((found.most, found.asked, found.most_ns / MS), (3, Some(3), 500));
        assert!(!found.below && !found.pools, "cc c.c is a job of the first");
        let mut seen = seen;
        seen[0].executed = String::from("make -j2");
        assert_eq!(jobs(&seen).map(|found| found.asked), Some(None), "the environment said more");
    }

    /// "or .NOTPARALLEL is set" was said of a ninja whose pool had a depth of 1.
    #[test]
    fn a_ninja_has_pools() {
        let seen = [
            process(None, "ninja -j2", (0, 1000)),
            process(Some(0), "cc a.c", (0, 500)),
            process(Some(0), "cc b.c", (500, 1000)),
        ];
        let found = jobs(&seen).expect("a build");
        assert!(found.pools);
        assert_eq!((found.most, found.asked), (1, Some(2)));
    }

    #[test]
    fn a_command_says_how_many_jobs_it_wants() {
        let of = |command: &str| asked(&process(None, command, (0, 1)));
        assert_eq!(
            (of("make -j2"), of("make --jobs=3 all"), of("make -j 4")),
            (Some(2), Some(3), Some(4))
        );
        assert_eq!((of("make all"), of("make -j"), of("ninja")), (Some(1), None, None));
        assert_eq!(jobs(&[process(None, "bash x", (0, 1)), process(Some(0), "cc", (0, 1))]), None);
    }
}
