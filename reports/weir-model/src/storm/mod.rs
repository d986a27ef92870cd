//! Storms: random loads and faults over weir's own decisions, in virtual time.
//!
//! - `pool`: the blocks of a pool that spills to a file.
//! - `paging`: the pages of a region, and a process that dies and comes back.
//! - `ready`: which of many channels is served next.
//! - `swap`: which whole region goes, and when.
//! - `fragments`: datagrams from fragments, within budgets.
//! - `sharing`: which region gives frames to another.
//! - `pipe`: sizes, wake-ups and wishes of a pipe, and how long its ends look before they sleep.
//! - `arena`: who has which blocks of an arena.
//!
//! A seed gives one storm of each. A broken promise is a [`BrokenRun`], which tells the seed and the last
//! things that happened.

mod arena;
mod fragments;
mod paging;
mod pipe;
mod pool;
mod ready;
mod sharing;
mod swap;

use std::fmt::Debug;

/// What a storm found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenRun {
    /// Its seed.
    pub seed: u64,
    /// The decisions that were at fault.
    pub of: &'static str,
    /// What was wrong.
    pub why: String,
    /// The last things that happened.
    pub trace: Vec<String>,
}

/// What happened in a storm, kept as it is, and put into words only for a wreck.
struct Trace<T> {
    last: std::collections::VecDeque<T>,
    events: u64,
}

/// Things that a wreck tells.
const MOST_SHOWN: usize = 20;

impl<T: Debug> Trace<T> {
    fn new() -> Trace<T> {
        Trace { last: std::collections::VecDeque::with_capacity(MOST_SHOWN), events: 0 }
    }

    fn push(&mut self, what: T) {
        self.events += 1;
        if self.last.len() == MOST_SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(what);
    }

    fn words(&self) -> Vec<String> {
        self.last.iter().map(|what| format!("{what:?}")).collect()
    }

    fn ended(&self, ran: Result<(), String>) -> Ended {
        ran.map(|()| self.events).map_err(|why| (why, self.words()))
    }
}

/// The events of a storm, or why it failed and what happened last.
type Ended = Result<u64, (String, Vec<String>)>;

/// A storm over one kind of decisions, with its name.
type NamedStorm = (&'static str, fn(u64) -> Ended);

/// The storms of a seed, by their names.
const STORMS: [NamedStorm; 8] = [
    ("pool", pool::storm),
    ("paging", paging::storm),
    ("ready", ready::storm),
    ("swap", swap::storm),
    ("fragments", fragments::storm),
    ("sharing", sharing::storm),
    ("pipe", pipe::storm),
    ("arena", arena::storm),
];

/// Runs the storms of a seed. Returns how many events they had.
pub fn storm(seed: u64) -> Result<u64, BrokenRun> {
    let mut events = 0;
    for (of, run) in STORMS {
        events += run(seed).map_err(|(why, trace)| BrokenRun { seed, of, why, trace })?;
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CI runs ten thousand seeds of each.
    fn ten_thousand(of: &str) {
        let (of, run) = STORMS.iter().find(|(known, _)| *known == of).expect("a storm");
        for seed in 0..10_000 {
            if let Err((why, trace)) = run(seed) {
                panic!("weir model storm --seed {seed}: {of}: {why}\n{}", trace.join("\n"));
            }
        }
    }

    #[test]
    fn ten_thousand_storms_over_a_pool_break_no_promise() {
        ten_thousand("pool");
    }

    #[test]
    fn ten_thousand_storms_over_paging_break_no_promise() {
        ten_thousand("paging");
    }

    #[test]
    fn ten_thousand_storms_over_the_ready_choice_break_no_promise() {
        ten_thousand("ready");
    }

    #[test]
    fn ten_thousand_storms_over_swapping_break_no_promise() {
        ten_thousand("swap");
    }

    #[test]
    fn ten_thousand_storms_over_fragments_break_no_promise() {
        ten_thousand("fragments");
    }

    #[test]
    fn ten_thousand_storms_over_shared_frames_break_no_promise() {
        ten_thousand("sharing");
    }

    #[test]
    fn ten_thousand_storms_over_a_pipe_break_no_promise() {
        ten_thousand("pipe");
    }

    #[test]
    fn ten_thousand_storms_over_an_arena_break_no_promise() {
        ten_thousand("arena");
    }

    #[test]
    fn a_seed_gives_the_same_storm() {
        assert_eq!(storm(42), storm(42));
    }
}
