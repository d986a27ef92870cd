//! The pipelines and commands found in a run: each has facts of its own, like a run.

use super::{Evidence, Pipe, Run, Stage};
use crate::graph::WallSpan;
use crate::programs;
use alloc::string::String;
use alloc::vec::Vec;

/// The fewest processes whose starting is a reason.
const OFTEN: u64 = 50;
/// What takes longer for each of its processes, waits for a CPU left out, does some work, or waits for
/// something: `sqlite3` flushes a row for longer than it takes to start.
const BRIEF_NS: u64 = 6_000_000;
/// The account of a shell counts in clock ticks.
const TICK_NS: u64 = 10_000_000;
/// So does a process that uses more CPU time.
const START_NS: u64 = 4_000_000;
/// A small program computes for no longer than this, in user mode, until it works.
pub(crate) const START_USER_NS: u64 = 1_500_000;
/// Libraries, of which each process reads the beginnings, are less.
const SOME_DATA_BYTES: u64 = 32 << 10;
/// What waits for the disk for a larger part of its time (a quarter) does not only start.
const SOME_DISK: u64 = 4;

/// A pipeline, or a single command, that was found in a run.
#[derive(Clone, Debug, Default)]
pub struct FoundGroup {
    /// Its stages and pipes; its wall time is the time in which at least one instance ran.
    pub run: Run,
    /// Its name: the commands that a person typed, without what these started themselves.
    pub name: String,
    /// Whether it started other groups: it may have done no more than wait for them.
    pub starts_others: bool,
    /// Whether it only waited for what the script itself may have sent it.
    pub serves: bool,
    /// Whether another group reads what it writes.
    pub feeds: bool,
    /// Position in the stages of the run of its first stage. None where it was found inside of one
    /// stage of a pipeline: its stages are then its own.
    pub first_stage: Option<usize>,
    /// The stage of the run in which it was found, if it is not a stage itself.
    pub inside: Option<usize>,
    /// How often it ran.
    pub instances: u64,
    /// How that is known: exact, estimated where many were too brief to be seen, or a lower bound.
    pub instances_evidence: Evidence,
    /// When it first began, since the start of the run.
    pub start_ns: u64,
    /// When it last ended, since the start of the run.
    pub end_ns: u64,
    /// From when to when its instances ran, since the start of the run.
    pub spans: Vec<WallSpan>,
    /// The times of its instances.
    pub spread: Spread,
    /// Where it is in a script, if that is known.
    pub line: Option<Line>,
    /// The CPU time of all that its shell waited for, if that started nothing else that was seen.
    pub waited_cpu: Option<WaitedCpu>,
}

/// The CPU time of the processes that a shell waited for, by the kernel's account, to a clock tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitedCpu {
    /// The time.
    pub cpu_ns: u64,
    /// Exact where each process is known, else an upper bound: brief ones may be of another command.
    pub evidence: Evidence,
}

/// The spread of the times of the instances of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The shortest.
    pub min_ns: u64,
    /// The median.
    pub median_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// All added up.
    pub sum_ns: u64,
}

/// A line of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// The script, as it was named. Empty for the text of the run itself.
    pub script: String,
    /// Its file, if it is one: a whole path.
    pub path: Option<String>,
    /// The line, from 1.
    pub line: usize,
}

/// Processes that lived too briefly to be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unseen {
    /// Their likely number; `None` where it is not known.
    pub processes: Option<u64>,
    /// How the number is known: exact or estimated.
    pub evidence: Evidence,
    /// CPU time that the kernel counted for the run and that no process had used when it was last
    /// seen.
    pub cpu_ns: u64,
}

impl Spread {
    /// Returns the spread of these times.
    pub fn of(mut times_ns: Vec<u64>) -> Spread {
        times_ns.sort();
        let at = |position: usize| times_ns.get(position).copied().unwrap_or(0);
        let last = times_ns.len().saturating_sub(1);
        Spread {
            min_ns: at(0),
            median_ns: at(last / 2).midpoint(at(times_ns.len() / 2)),
            max_ns: at(last),
            sum_ns: times_ns.iter().sum(),
        }
    }
}

impl Run {
    /// Returns a part of the run, in the same surroundings: stages and pipes that were found in it.
    pub fn part(&self, wall_ns: u64, stages: Vec<Stage>, pipes: Vec<Pipe>) -> Run {
        Run {
            wall_ns,
            stages,
            pipes,
            script: true,
            cpus: self.cpus,
            host: self.host,
            quota: self.quota,
            memory_limit: self.memory_limit.clone(),
            ..Run::default()
        }
    }

    /// Returns the share that a group of this run has in the time of the stage inside of which it was
    /// found; of the run, where it is in none, or has outlived that stage.
    pub fn group_share(&self, group: &FoundGroup) -> f64 {
        let stage = group.inside.and_then(|stage| self.stages.get(stage));
        let within = stage.filter(|stage| group.end_ns <= stage.wall_ns + TICK_NS);
        let whole_ns = within.map_or(self.wall_ns, |stage| stage.wall_ns);
        (group.own_ns() as f64 / whole_ns.max(1) as f64).min(1.0)
    }

    /// Whether a group is a part of the time of the whole run: of a script, or of a pipeline of one
    /// stage.
    pub fn is_part(&self, group: &FoundGroup) -> bool {
        group.first_stage.is_some() || !self.script && self.stages.len() == 1
    }
}

impl FoundGroup {
    /// Whether it is one process that started others: its own work is apart from theirs.
    pub fn is_parent(&self) -> bool {
        self.starts_others && self.is_single()
    }

    /// Whether it ran often, and for so short a time that starting its processes is what it took. Samples
    /// hardly meet the brief waits for a disk: of what flushes it is known that it has them.
    pub fn is_starting(&self) -> bool {
        let each_ns = self.spread.sum_ns / self.instances.max(1);
        let processes = self.instances * self.run.stages.len() as u64;
        let seen: u64 = self.run.stages.iter().map(|stage| stage.processes).sum();
        // From what is known of those that were seen.
        let cpu_ns = self.run.cpu_sum_ns() / seen.max(1);
        let queue_ns: u64 = self.run.stages.iter().map(|stage| stage.times.queue_ns).sum();
        let own_ns = each_ns.saturating_sub(queue_ns / self.instances.max(1));
        let brief = own_ns <= BRIEF_NS * self.run.stages.len() as u64;
        let idles = self.run.stages.iter().any(|stage| stage.times.idle_ns() * 2 > stage.wall_ns);
        let flushes = |stage: &Stage| {
            let own_ns = stage.wall_ns.saturating_sub(stage.times.queue_ns);
            programs::flushes(&stage.label) || stage.times.disk_ns * SOME_DISK > own_ns
        };
        let flushes = self.run.stages.iter().any(flushes);
        // What it used after the last look at it was used as before.
        let computes = |stage: &Stage| {
            let share = stage.user_ns as f64 / stage.cpu_sum_ns().max(1) as f64;
            let user_ns = own_ns as f64 * share / self.run.stages.len() as f64;
            let io = stage.io.unwrap_or_default();
            let has_data = io.read_bytes + io.write_bytes > SOME_DATA_BYTES * stage.processes;
            user_ns > START_USER_NS as f64 && has_data && !programs::starts_slowly(&stage.program)
        };
        let computes = self.run.stages.iter().any(computes);
        processes >= OFTEN && brief && cpu_ns <= START_NS && !idles && !flushes && !computes
    }

    /// Whether the times of its instances are known one by one.
    pub fn has_spread(&self) -> bool {
        self.instances_evidence == Evidence::Exact && self.spans.len() as u64 == self.instances
    }

    /// Returns the CPU time of its processes, and how that is known. Where its shell waited for nothing
    /// else, processes that were too brief to be seen count too.
    pub fn cpu(&self) -> (u64, Evidence) {
        let seen_ns = self.run.cpu_sum_ns();
        let fits = |waited: &WaitedCpu| waited.cpu_ns + TICK_NS + seen_ns / 64 >= seen_ns;
        match self.waited_cpu.filter(fits) {
            // It is cut to ticks.
            Some(waited) => (waited.cpu_ns.max(seen_ns), waited.evidence),
            None => (seen_ns, Evidence::LowerBound),
        }
    }

    /// Returns how often the command of one of its rows ran.
    pub fn times_of(&self, row: usize) -> u64 {
        match self.is_single() {
            true => self.instances,
            false => self.run.stages.get(row).map_or(0, |stage| stage.processes),
        }
    }

    /// Whether it is a single command.
    pub fn is_single(&self) -> bool {
        self.run.stages.len() == 1
    }

    /// Whether it ran for as long as others did, and not because of its own work.
    pub fn follows_others(&self) -> bool {
        self.starts_others || self.serves
    }

    /// Returns the time that counts as its own: the time that it ran, but of one that starts other
    /// groups, or serves them, only the time in which it worked itself, and of one that feeds another
    /// without its waits for that.
    pub fn own_ns(&self) -> u64 {
        let work_ns = |stage: &Stage| match self.serves {
            // It waited for who asks.
            true => stage.times.busy_ns() - stage.times.network_ns,
            false => stage.times.busy_ns(),
        };
        let work_ns = self.run.stages.iter().map(work_ns).max().unwrap_or(0);
        let last = self.run.stages.last().filter(|_| self.feeds);
        let waited_ns = last.map_or(0, |last| last.times.output_ns);
        match self.follows_others() {
            true => work_ns,
            false => self.run.wall_ns.saturating_sub(waited_ns).max(work_ns),
        }
    }
}
