//! The choice of the next process: how it depends on how many are runnable.
//!
//! UNIX searched the table of all processes for the runnable one with the best priority. Joy (1980)
//! chose among queues by one find-first-set instead. Here the library's queues, which choose
//! among the channels of an mpx, are beside a search of a table, and beside the kernel's own
//! choice: processes on one CPU that all give way to each other without end.

use crate::sys::shared::{LINE_BYTES, SharedPages};
use crate::tools::background::{Background, endless};
use crate::tools::prelude::*;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_policy::ready::{PRIORITIES, ReadyQueue};

/// How many are runnable.
const RUNNABLE: [u32; 4] = [1, 10, 100, 1_000];
/// The priority of a process moves by this with each choice, so that all are used.
const STEP: u8 = 13;
/// Processes that all give way must come round within this time.
const PATIENCE: Duration = Duration::from_secs(20);

/// The library's choice and a search: one process, no call of the kernel.
pub fn choices() -> Group {
    let mut cases = Vec::new();
    for count in RUNNABLE {
        let params = |mechanism: &str| Params {
            mechanism: Some(mechanism.into()),
            parties: Some(u64::from(count)),
            ..operation("choice")
        };
        let name = format!("choice by find-first-set, {count} runnable");
        cases.push(case(name, params("find-first-set"), Measure::TIME, move |_| {
            let mut queue = ReadyQueue::default();
            fill(&mut queue, count);
            repeat(move || {
                black_box(next_of_queue(&mut queue));
            })
        }));
        let name = format!("choice by search, {count} runnable");
        cases.push(case(name, params("search"), Measure::TIME, move |_| {
            let mut table = SearchedTable::new(count);
            repeat(move || {
                black_box(table.next());
            })
        }));
    }
    let cases = cases.into_iter().map(|case| Case { standard: false, ..case }).collect();
    Group { twin: false, ..group("choice", Sides::One, cases) }
}

/// The kernel's choice: a switch among processes of one CPU that are all runnable.
pub fn kernels() -> Group {
    let of = |count: u32| {
        let params = Params { parties: Some(u64::from(count)), ..moving("yield", "two-way") };
        let name = format!("switch by yield, {count} runnable");
        let made = case(name, params, Measure::TIME, move |site| yielding(site, count));
        Case { standard: false, weight: 2.0, ..made }
    };
    let cases = [2, 10, 100, 1_000].map(of).into();
    Group { twin: false, processes: 6, ..group("runnable processes", Sides::One, cases) }
}

fn priority_at_first(index: u32) -> u8 {
    (index % PRIORITIES as u32) as u8
}

fn fill(queue: &mut ReadyQueue, count: u32) {
    for index in 0..count {
        queue.push(index, priority_at_first(index));
    }
}

fn priority_after(priority: u8) -> u8 {
    (priority + STEP) % PRIORITIES as u8
}

/// Takes the next one out and puts it back with its next priority. Returns the priority it had.
fn next_of_queue(queue: &mut ReadyQueue) -> u8 {
    let Some((index, priority)) = queue.pop() else { return 0 };
    queue.push(index, priority_after(priority));
    priority
}

/// A table of processes, all runnable, that is searched from its beginning.
struct SearchedTable {
    /// The priority of each, and its turn: of two alike, the one that waits longer is next.
    entries: Vec<(u8, u64)>,
    turn: u64,
}

impl SearchedTable {
    fn new(count: u32) -> SearchedTable {
        let entry = |index: u32| (priority_at_first(index), u64::from(index));
        SearchedTable { entries: (0..count).map(entry).collect(), turn: u64::from(count) }
    }

    /// Finds the next one and gives it its next priority. Returns the priority it had.
    fn next(&mut self) -> u8 {
        let Some(best) = self.entries.iter_mut().min() else { return 0 };
        let priority = best.0;
        *best = (priority_after(priority), self.turn);
        self.turn += 1;
        priority
    }
}

/// Who ran last, and how many switches there were. All its users share one CPU.
struct SwitchCount(SharedPages);

impl SwitchCount {
    const LAST: usize = 0;
    const SWITCHES: usize = 1;

    /// Gives way, and counts a switch if another process has run since this one noted itself.
    fn give_way(&self, own: u64) {
        std::thread::yield_now();
        // Relaxed: one CPU runs all of them, and the count is all that is read.
        if self.0.word(Self::LAST).load(Ordering::Relaxed) != own {
            self.0.word(Self::LAST).store(own, Ordering::Relaxed);
            self.0.word(Self::SWITCHES).fetch_add(1, Ordering::Relaxed);
        }
    }

    fn switches(&self) -> u64 {
        self.0.word(Self::SWITCHES).load(Ordering::Relaxed)
    }
}

/// This process is one of `count` that do nothing but give way.
fn yielding(site: &Site, count: u32) -> MadeWork {
    if site.placement != Placement::SameCpu {
        return Err(CaseError::left_out("all processes have to be on one CPU"));
    }
    let shared = Rc::new(SwitchCount(SharedPages::new(2 * LINE_BYTES)?));
    let child = |own: u32| {
        endless(
            || site.go_here(),
            || {
                shared.give_way(u64::from(own));
                Ok(())
            },
        )
        // A user may have fewer processes than that.
        .map_err(|error| CaseError::left_out(error.text))
    };
    let children = (1..count).map(child).collect::<Result<Vec<_>, _>>()?;
    let others = Background::new(children)?;
    site.go_here()?;
    work(move |wanted| {
        let _running = others.run()?;
        let limit = Instant::now() + PATIENCE;
        let pass = |switches: u64| {
            let goal = shared.switches() + switches;
            while shared.switches() < goal {
                shared.give_way(0);
                if Instant::now() > limit {
                    return Err(CaseError::failed("the processes do not come round"));
                }
            }
            Ok(())
        };
        // All of them run again.
        pass(u64::from(count))?;
        let (before, begun) = (shared.switches(), Instant::now());
        pass(wanted)?;
        Ok(Batch::time(elapsed_ns(begun), shared.switches() - before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_and_find_first_set_choose_alike() {
        for count in RUNNABLE {
            let (mut queue, mut table) = (ReadyQueue::default(), SearchedTable::new(count));
            fill(&mut queue, count);
            for _ in 0..3_000 {
                assert_eq!(next_of_queue(&mut queue), table.next(), "{count} runnable");
            }
        }
    }
}
