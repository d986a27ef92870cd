//! The time of the next cells and the number of passes, so that a run ends with its budget. Facts
//! in, decisions out: it reads no clock.
//!
//! A cell has a least time, its floor: starting it, setting its cases up and one round take as long
//! as they take. A cell that is given less takes its floor all the same. So to fit a budget, first
//! the time of the cells is cut, down to a third; then passes are left out, down to [`PASSES_MIN`];
//! then the time of the cells is cut to their floors. Only if the floors alone are longer does a
//! run exceed its budget.

use super::plan::{PASSES_MIN, Plan};
use std::time::Duration;

/// Cells are cut to this part of their time before any pass is left out: the intervals depend on
/// the number of processes rather than on the rounds in each.
const SHRINK: f64 = 1.0 / 3.0;
/// Weight of a new floor: as much as all earlier ones together.
const NEW: f64 = 0.5;

/// The first cell of a block also calibrates the batches; later cells take about this part of its
/// time (0.5 to 1 over all suites).
const LATER: f64 = 0.6;
/// A run that exceeds the time that was announced by this part is reported.
const OVER: f64 = 0.1;

/// The measured times of a block.
#[derive(Clone, Debug)]
struct BlockTimes {
    processes: u64,
    planned_s: f64,
    floor_s: f64,
    ample_s: f64,
    /// Whether the floor was measured in a cell that had nothing to calibrate.
    measured: bool,
    done: u64,
}

impl BlockTimes {
    fn cost_s(&self, part: f64) -> f64 {
        (self.planned_s * part).max(self.floor_s)
    }

    /// Returns the time of its cells in the passes from `pass` up to `end`.
    fn left_s(&self, pass: u64, end: u64, part: f64) -> f64 {
        let cells = self.processes.min(end).saturating_sub(pass.max(self.done));
        self.cost_s(part) * cells as f64
    }
}

/// Divides the rest of a budget among the cells.
#[derive(Clone, Debug)]
pub struct Pace {
    budget_s: f64,
    announced_s: f64,
    blocks: Vec<BlockTimes>,
    /// The part of its planned time that a cell gets.
    part: f64,
    /// The pass before which the run ends.
    end: u64,
}

impl Pace {
    /// Creates the pace of a plan that has not begun.
    pub fn new(plan: &Plan) -> Pace {
        let known = |block: &super::plan::Block| BlockTimes {
            processes: block.processes,
            planned_s: block.cell.as_secs_f64(),
            floor_s: block.floor.as_secs_f64(),
            ample_s: block.ample.as_secs_f64(),
            measured: false,
            done: 0,
        };
        let blocks: Vec<BlockTimes> = plan.blocks.iter().map(known).collect();
        let end = blocks.iter().map(|block| block.processes).max().unwrap_or(0);
        let [budget_s, announced_s] = [plan.budget, plan.expected()].map(|time| time.as_secs_f64());
        Pace { budget_s, announced_s, blocks, part: 1.0, end }
    }

    /// Decides before a pass, `spent` after the run began, whether the pass is made at all.
    pub fn continues(&mut self, pass: u64, spent: Duration) -> bool {
        let most = self.blocks.iter().map(|block| block.processes).max().unwrap_or(0);
        let left_s = self.budget_s - spent.as_secs_f64();
        let fits = |pace: &Pace, end: u64, part: f64| pace.needs_s(pass, end, part) <= left_s;
        let least = PASSES_MIN.min(most);
        (self.end, self.part) = if fits(self, most, 1.0) {
            (most, 1.0)
        } else if fits(self, most, SHRINK) {
            (most, self.largest_part(pass, most, left_s, SHRINK, 1.0))
        } else {
            let ends = (least..most).rev();
            match ends.into_iter().find(|end| fits(self, *end, SHRINK)) {
                Some(end) => (end, self.largest_part(pass, end, left_s, SHRINK, 1.0)),
                None => (least, self.largest_part(pass, least, left_s, 0.0, SHRINK)),
            }
        };
        pass < self.end
    }

    /// Returns the time of all cells from a pass on.
    fn needs_s(&self, pass: u64, end: u64, part: f64) -> f64 {
        self.blocks.iter().map(|block| block.left_s(pass, end, part)).sum()
    }

    /// Returns the largest part between two that fits into the remaining budget; the smaller of the
    /// two, if none does.
    fn largest_part(&self, pass: u64, end: u64, left_s: f64, low: f64, high: f64) -> f64 {
        let (mut low, mut high) = (low, high);
        for _ in 0..24 {
            let middle = f64::midpoint(low, high);
            if self.needs_s(pass, end, middle) <= left_s {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the time of a block's next cell.
    pub fn time(&self, block: usize) -> Duration {
        Duration::from_secs_f64(self.blocks[block].planned_s * self.part)
    }

    /// Returns the longest expected time of a block's cell.
    pub fn patience(&self, block: usize) -> Duration {
        let known = &self.blocks[block];
        Duration::from_secs_f64(known.ample_s.max(known.floor_s))
    }

    /// Returns the least time of a block's cells, if measured.
    pub fn floor(&self, block: usize) -> Option<Duration> {
        let known = &self.blocks[block];
        known.measured.then(|| Duration::from_secs_f64(known.floor_s))
    }

    /// Returns the time of the whole run, if that exceeds what was announced, its budget or more: the
    /// fewest passes of cells that are as short as possible. Known after the first pass.
    pub fn overrun(&self, spent: Duration) -> Option<Duration> {
        let all_s = spent.as_secs_f64() + self.left().as_secs_f64();
        (all_s > self.announced_s * (1.0 + OVER)).then(|| Duration::from_secs_f64(all_s))
    }

    /// Records that a cell takes `least` with one round.
    pub fn learn(&mut self, block: usize, least: Duration) {
        let known = &mut self.blocks[block];
        let least_s = least.as_secs_f64();
        known.floor_s = match known.measured {
            true => known.floor_s + NEW * (least_s - known.floor_s),
            false if known.done == 0 => least_s * LATER,
            false => least_s,
        };
        // The first cell calibrates the batches, which later ones need not.
        known.measured = known.done > 0;
        known.done += 1;
    }

    /// Records that a cell was killed because it took too long: that says nothing about the next.
    pub fn gave_up(&mut self, block: usize) {
        self.blocks[block].done += 1;
    }

    /// Returns how long the rest of the run is expected to take.
    pub fn left(&self) -> Duration {
        let left = self.blocks.iter().map(|block| block.left_s(0, self.end, self.part));
        Duration::from_secs_f64(left.sum::<f64>().max(0.0))
    }
}
