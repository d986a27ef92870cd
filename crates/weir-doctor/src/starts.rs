//! Programs that are started again and again: how often, how long each of them takes, and how much of
//! that is known to be the start.

use crate::facts::{FoundGroup, Stage};
use crate::programs;

/// Fewer processes than this are not a loop.
const OFTEN: u64 = 8;
/// What takes longer for each of its processes works, whatever it loads.
const LONG_NS: u64 = 1_000_000_000;
/// A smaller part of the time is not worth a word.
const MUCH: f64 = 0.25;

/// A command that was started again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Starts {
    /// How long each of its processes took.
    pub each_ns: u64,
    /// The time on a CPU, and waiting for one, that each took to start, about: to load its program and what
    /// that imports.
    pub loading_ns: u64,
    /// Whether that follows from what its processes read, and is not what its program takes elsewhere.
    pub is_seen: bool,
}

impl Starts {
    /// Finds out about a group; `None` where it did not run often, or it is not known what a start of
    /// its program takes.
    pub(crate) fn of(group: &FoundGroup) -> Option<Starts> {
        if group.is_single() { Starts::of_row(group, 0) } else { None }
    }

    /// Finds out about a row of a group: of a pipeline that ran once, one may be a loop.
    pub(crate) fn of_row(group: &FoundGroup, row: usize) -> Option<Starts> {
        let stage = group.run.stages.get(row)?;
        let times = group.times_of(row);
        let whole_ns = if group.is_single() { group.spread.sum_ns } else { stage.wall_ns };
        let each_ns = whole_ns / times.max(1);
        let idles = stage.times.idle_ns() * 2 > stage.wall_ns;
        if times < OFTEN || each_ns > LONG_NS || idles || group.serves {
            return None;
        }
        let cpu_ns = loading_ns(group, stage)?;
        // What waits for a CPU while it starts waits for the start.
        let queued = stage.times.queue_ns as f64 / stage.times.cpu_ns.max(1) as f64;
        let loading_ns = (cpu_ns as f64 * (1.0 + queued)).min(each_ns as f64) as u64;
        let is_seen = programs::is_loaded_by_reading(&stage.program);
        Some(Starts { each_ns, loading_ns, is_seen })
    }

    /// Whether the start takes much of its time.
    pub fn is_much(self) -> bool {
        self.share() >= MUCH
    }

    /// Returns the part of its time that the start takes.
    pub fn share(self) -> f64 {
        self.loading_ns as f64 / self.each_ns.max(1) as f64
    }
}

/// Returns the CPU time that each process of a row took to start, about.
fn loading_ns(group: &FoundGroup, stage: &Stage) -> Option<u64> {
    /// Where more processes than one in ten have a file of data open, or they wait for input for more
    /// than a tenth of their time, what they read is not what they were loaded from.
    const SOME: u64 = 10;
    let of_one = |sum: u64| sum / stage.processes.max(1);
    let cpu_ns = of_one(stage.cpu_sum_ns());
    // A shim waits for what it asks others.
    let waits = !group.starts_others && stage.times.input_ns * SOME > stage.wall_ns;
    let reads_data = stage.data_readers * SOME > stage.processes || waits;
    let read_bytes = stage.io.map(|io| of_one(io.read_bytes)).filter(|_| !reads_data);
    programs::loading_ns(&stage.program, read_bytes, cpu_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Io, Run, Spread};
    use crate::made::{self, MS};
    use alloc::vec;

    /// 25 starts, of 180 ms each, which read 3.7 MB of modules each.
    fn group(label: &str, read_bytes: u64) -> FoundGroup {
        let stage = made::stage(label, [4000, 100]);
        let io = Some(Io { read_bytes: 25 * read_bytes, read_calls: 8000, ..Io::default() });
        let stage = Stage { processes: 25, wall_ns: 4500 * MS, io, ..stage };
        let run = Run { wall_ns: 4500 * MS, script: true, stages: vec![stage], ..Run::default() };
        let spread = Spread { sum_ns: 4500 * MS, ..Spread::default() };
        FoundGroup { run, instances: 25, spread, ..FoundGroup::default() }
    }

    #[test]
    fn what_a_start_takes_is_known_from_the_modules_that_were_read() {
        let of = |label, bytes| Starts::of(&group(label, bytes));
        let imports = of("python3 -c import", 3_700_000).expect("starts");
        assert_eq!((imports.each_ns / MS, imports.loading_ns / MS), (180, 164));
        let works = of("python3.11 -c work", 1_350_000).expect("starts");
        assert!(works.share() < 0.4, "{}", works.share());
        assert_eq!(of("mytool", 3_700_000), None, "nothing is known of its start");
    }

    /// What a program reads of its data is not what it was loaded from, and what waits or works for long
    /// does not only start.
    #[test]
    fn nothing_is_reported_where_it_is_not_known() {
        let changed = |change: &dyn Fn(&mut FoundGroup)| {
            let mut group = group("python3 a.py", 3_700_000);
            change(&mut group);
            Starts::of(&group)
        };
        assert!(changed(&|_| ()).is_some());
        assert_eq!(changed(&|group| group.run.stages[0].data_readers = 20), None);
        assert_eq!(changed(&|group| group.run.stages[0].times.input_ns = 900 * MS), None);
        assert_eq!(changed(&|group| group.run.stages[0].times.sleep_ns = 3000 * MS), None);
        assert_eq!(changed(&|group| group.instances = 6), None);
        assert_eq!(changed(&|group| group.spread.sum_ns *= 10), None);
    }
}
