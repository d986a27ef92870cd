//! The processes that a group started: how many, which programs, and how long they lived.
//!
//! A process that lives for a millisecond is seen at one tick in ten, if at all. But the kernel
//! numbers all processes and threads, so it is known how many ids were assigned, and how many of
//! these were seen alive. The others belong to whoever starts processes too short-lived to be seen
//! twice: they are divided among the groups by how many such processes each had. Other programs on
//! the host may have started short-lived processes too. If these were more than a few, it is
//! unknown which unseen processes were the run's: then only the seen ones are counted, as "at
//! least".

use std::collections::BTreeMap;
use weir_doctor::facts::{Evidence, Program, Started};

/// The ids that the kernel assigned since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Ids assigned; `None` where the newest id is hidden.
    pub given: Option<u64>,
    /// Ids that were seen alive, or are known to be the run's.
    pub seen: u64,
    /// Ids among these that were seen at one tick only and are not processes of the run (but
    /// processes of others, or threads).
    pub others_once: u64,
}

/// The seen processes that a group started.
#[derive(Clone, Debug, Default)]
pub struct Births {
    programs: BTreeMap<String, ProgramLives>,
    /// Time in which at least one of them was alive.
    pub any_ns: u64,
    /// Whether these are all: the kernel told of each.
    complete: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct ProgramLives {
    processes: u64,
    /// Those seen at one tick only.
    once: u64,
    life_ns: u64,
    longest_ns: u64,
}

/// Of so many processes the longest of each program says nothing about the others.
const MANY: u64 = 10;

/// If at least one in this many of those seen once belonged to others, the number of unseen ones is
/// unknown: the others may live shorter or longer than the run's own.
const OTHERS_ONE_IN: u64 = 12;

impl Births {
    /// Creates an account that the kernel's events fill: it lacks none.
    pub fn complete() -> Births {
        Births { complete: true, ..Births::default() }
    }

    /// Records that a process of this program has ended, seen at this many ticks and for this long.
    pub fn note(&mut self, program: &str, looks: u64, life_ns: u64) {
        let seen = self.programs.entry(program.to_owned()).or_default();
        seen.processes += 1;
        seen.once += u64::from(looks <= 1);
        seen.life_ns += life_ns;
        seen.longest_ns = seen.longest_ns.max(life_ns);
    }

    /// Adds the processes of another group.
    pub fn merge(&mut self, other: &Births) {
        for (program, theirs) in &other.programs {
            let mine = self.programs.entry(program.clone()).or_default();
            mine.processes += theirs.processes;
            mine.once += theirs.once;
            mine.life_ns += theirs.life_ns;
            mine.longest_ns = mine.longest_ns.max(theirs.longest_ns);
        }
        self.any_ns += other.any_ns;
        self.complete |= other.complete;
    }

    fn total(&self, of: fn(&ProgramLives) -> u64) -> u64 {
        self.programs.values().map(of).sum()
    }

    /// Returns how many were seen.
    pub fn processes(&self) -> u64 {
        self.total(|seen| seen.processes)
    }

    /// Returns how many were seen at one tick only.
    pub fn once(&self) -> u64 {
        self.total(|seen| seen.once)
    }

    /// Summarises them. `parent` is the program that started them, `once` the number of processes
    /// in all groups together that were seen at one tick only.
    pub fn started(
        &self,
        parent: &str,
        wall_ns: u64,
        census: &Census,
        once: u64,
    ) -> Option<Started> {
        let seen = self.processes();
        if seen == 0 {
            return None;
        }
        let (unseen, evidence) = self.unseen(census, once);
        let counted = if evidence == Evidence::Estimated { unseen } else { 0 };
        let processes = seen + counted;
        Some(Started {
            processes,
            likely_processes: seen + unseen,
            evidence,
            mean_life_ns: self.mean_life_ns(processes),
            wall_share: (self.any_ns as f64 / wall_ns.max(1) as f64).min(1.0),
            programs: self.programs(parent, counted),
        })
    }

    /// Returns how long one of so many lived. The longest of each program is left out of many: a subshell
    /// that starts the others lives as long as all of them together.
    fn mean_life_ns(&self, processes: u64) -> u64 {
        let others = processes.saturating_sub(self.programs.len() as u64);
        match self.complete && others >= MANY {
            true => self.total(|seen| seen.life_ns - seen.longest_ns) / others,
            false => self.total(|seen| seen.life_ns) / processes.max(1),
        }
    }

    /// Estimates how many unseen ones there were, and the quality of their number.
    pub fn unseen(&self, census: &Census, once: u64) -> (u64, Evidence) {
        if self.complete {
            return (0, Evidence::Exact);
        }
        let Some(given) = census.given else { return (0, Evidence::LowerBound) };
        let unseen = given.saturating_sub(census.seen);
        let (mine, all) = (self.once(), (once + census.others_once).max(1));
        let share = (u128::from(unseen) * u128::from(mine) / u128::from(all.max(mine))) as u64;
        if unseen == 0 {
            (0, Evidence::Exact)
        } else if mine > 0 && census.others_once * OTHERS_ONE_IN <= all {
            (share, Evidence::Estimated)
        } else {
            (share, Evidence::LowerBound)
        }
    }

    /// Returns the programs, each with its part of the unseen processes.
    fn programs(&self, parent: &str, unseen: u64) -> Vec<Program> {
        // A process just after fork still has its parent's name.
        let is_program = |name: &str| !name.is_empty() && (name != parent || self.complete);
        let told = self.programs.keys().any(|name| is_program(name));
        let (kept, forked): (Vec<_>, Vec<_>) =
            self.programs.iter().partition(|(name, _)| is_program(name) || !told);
        let once: u64 = kept.iter().map(|(_, seen)| seen.once).sum();
        let life_ns: u64 = kept.iter().map(|(_, seen)| seen.life_ns).sum();
        let rest = unseen + forked.iter().map(|(_, seen)| seen.once).sum::<u64>();
        let mut programs: Vec<Program> = kept
            .into_iter()
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, of)| Program {
                name: name.clone(),
                processes: of.processes + rest * of.once / once.max(1),
                share: of.life_ns as f64 / life_ns.max(1) as f64,
            })
            .collect();
        programs.sort_by_key(|program| std::cmp::Reverse(program.processes));
        programs.truncate(Started::MOST_PROGRAMS);
        programs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A loop that starts `basename`, of which one in ten was seen, mostly as it was forked.
    fn births() -> Births {
        let mut births = Births { any_ns: 2730 * MS, ..Births::default() };
        (0..200).for_each(|_| births.note("basename", 1, 10 * MS));
        (0..100).for_each(|_| births.note("bash", 1, 10 * MS));
        births
    }

    #[test]
    fn what_was_not_seen_is_told_by_the_ids_given_out() {
        let census = Census { given: Some(3010), seen: 310, others_once: 0 };
        let started = births().started("bash", 3000 * MS, &census, 300).expect("some");
        assert_eq!((started.processes, started.evidence), (3000, Evidence::Estimated));
        assert_eq!(started.mean_life_ns, MS);
        assert!((started.wall_share - 0.91).abs() < 1e-9);
        // Those named like their parent had not become what they were to be.
        let expected = Program { name: String::from("basename"), processes: 3000, share: 1.0 };
        assert_eq!(started.programs, [expected]);
    }

    #[test]
    fn a_program_that_was_seen_for_long_is_not_multiplied() {
        let mut births = births();
        births.note("perl", 40, 400 * MS);
        let census = Census { given: Some(3011), seen: 311, others_once: 0 };
        let started = births.started("bash", 3000 * MS, &census, 300).expect("some");
        let counts: Vec<(&str, u64)> =
            started.programs.iter().map(|of| (of.name.as_str(), of.processes)).collect();
        assert_eq!(counts, [("basename", 3000), ("perl", 1)]);
    }

    /// `2> >(while read -r l; do read -t 0.03 <> <(:); done)`: 300 of 1 ms each were "about 55 ms each".
    #[test]
    fn the_shell_that_starts_the_others_is_not_one_of_them() {
        let mut births = Births::complete();
        births.note("perl", 2, 7300 * MS);
        births.note("bash", 2, 9300 * MS);
        (0..300).for_each(|_| births.note("bash", 2, MS));
        let mean = |births: &Births| {
            births.started("bash", 9300 * MS, &Census::default(), 0).expect("some").mean_life_ns
        };
        assert_eq!(mean(&births), MS);
        let mut two = Births::complete();
        [10, 20].into_iter().for_each(|ms| two.note("sort", 2, ms * MS));
        assert_eq!(mean(&two), 15 * MS);
    }

    #[test]
    fn beside_others_that_start_as_many_only_those_seen_are_counted() {
        // A compiler ran beside: half of what was seen once was its.
        let census = Census { given: Some(3010), seen: 610, others_once: 300 };
        let started = births().started("bash", 3000 * MS, &census, 300).expect("some");
        assert_eq!((started.processes, started.evidence), (300, Evidence::LowerBound));
        assert_eq!(started.likely_processes, 300 + 2400 / 2);
        // A life of 10 ms is then the longest that they can have had.
        assert_eq!(started.mean_life_ns, 10 * MS);
        // A few of others make the number a little smaller, and no worse.
        let census = Census { given: Some(3010), seen: 330, others_once: 20 };
        let started = births().started("bash", 3000 * MS, &census, 300).expect("some");
        assert_eq!((started.processes, started.evidence), (2812, Evidence::Estimated));
    }

    #[test]
    fn long_lived_processes_are_counted_and_not_guessed() {
        let mut births = Births::default();
        births.note("gzip", 50, 500 * MS);
        let census = Census { given: Some(100), seen: 3, others_once: 1 };
        let started = births.started("xargs", 1000 * MS, &census, 7).expect("one");
        assert_eq!((started.processes, started.evidence), (1, Evidence::LowerBound));
        let all = Census { given: Some(3), seen: 3, others_once: 0 };
        let started = births.started("xargs", 1000 * MS, &all, 0).expect("one");
        assert_eq!(started.evidence, Evidence::Exact);
        let hidden = Census::default();
        let started = births.started("xargs", 1000 * MS, &hidden, 0).expect("one");
        assert_eq!(started.evidence, Evidence::LowerBound);
        assert_eq!(Births::default().started("sh", MS, &all, 0), None);
    }
}
