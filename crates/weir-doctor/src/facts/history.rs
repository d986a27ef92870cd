//! What the stages of a run did over time, and how full its pipes were.
//!
//! A [`History`] divides the run into columns of equal length. When there are too many cells, two
//! neighbouring columns become one, so the memory of a long run is bounded.

use crate::state::TaskState;
use alloc::string::String;
use alloc::vec::Vec;

/// Length of the first columns.
const COLUMN_NS: u64 = 1_000_000;
const MOST_COLUMNS: u64 = 1200;
/// Most cells of all lanes together; a run that is a script has thousands of lanes.
const MOST_CELLS: usize = 1 << 17;
/// Most lanes that are kept of a script: those of its processes that were seen longest.
const MOST_LANES: usize = 40;
/// Number of states.
const STATES: usize = TaskState::ALL.len();

/// The time that a lane was seen in each state within one column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    ns: [u32; STATES],
}

/// The columns of one stage, from the one in which it was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// The command of the stage or the process.
    pub label: String,
    /// Position of the stage, or of the row of a script; `None` for a process without a row.
    pub stage: Option<usize>,
    /// Position of its first column.
    pub first: u64,
    /// Its columns; one in which it was not seen is empty.
    pub cells: Vec<Cell>,
}

/// The fill of one pipe in each column, from the first on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fills {
    /// The sum of fill times time, the time, and the largest fill.
    columns: Vec<(u128, u64, u64)>,
}

/// The course of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// When the run began.
    origin_ns: u64,
    column_ns: u64,
    /// A lane for each stage, or for each process of a script.
    pub lanes: Vec<Lane>,
    /// The pipes.
    pub fills: Vec<Fills>,
    cells: usize,
}

impl Cell {
    /// Returns the times by state, weakest state first, in the order of [`TaskState::ALL`].
    pub fn times_ns(&self) -> impl Iterator<Item = (TaskState, u64)> {
        TaskState::ALL.iter().copied().zip(self.ns.iter().map(|ns| u64::from(*ns)))
    }

    /// Returns the time in which it was seen.
    pub fn seen_ns(&self) -> u64 {
        self.ns.iter().map(|ns| u64::from(*ns)).sum()
    }

    /// Returns the state in which it was longest.
    pub fn main(&self) -> Option<TaskState> {
        let most = self.times_ns().filter(|(_, ns)| *ns > 0).max_by_key(|(_, ns)| *ns);
        most.map(|(state, _)| state)
    }

    fn add(&mut self, state: TaskState, ns: u64) {
        let sum = &mut self.ns[state.index()];
        *sum = sum.saturating_add(u32::try_from(ns).unwrap_or(u32::MAX));
    }

    fn join(&mut self, other: &Cell) {
        self.ns.iter_mut().zip(other.ns).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
    }
}

impl Lane {
    /// Returns the time in which it was seen.
    pub fn seen_ns(&self) -> u64 {
        self.cells.iter().map(Cell::seen_ns).sum()
    }
}

impl Fills {
    /// Returns the mean and the largest fill in bytes for each column, `None` where it was not seen.
    pub fn columns(&self) -> impl Iterator<Item = Option<(f64, u64)>> {
        let known = |(sum, ns, most): &(u128, u64, u64)| {
            (*ns > 0).then(|| (*sum as f64 / *ns as f64, *most))
        };
        self.columns.iter().map(known)
    }
}

impl History {
    /// Makes the history of a run that began at this time.
    pub fn from(origin_ns: u64) -> History {
        History { origin_ns, ..History::default() }
    }

    /// Returns the length of a column.
    pub fn column_ns(&self) -> u64 {
        self.column_ns.max(COLUMN_NS)
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> u64 {
        let of_lane = |lane: &Lane| lane.first + lane.cells.len() as u64;
        let lanes = self.lanes.iter().filter(|lane| !lane.cells.is_empty()).map(of_lane);
        let fills = self.fills.iter().map(|fills| fills.columns.len() as u64);
        lanes.chain(fills).max().unwrap_or(0)
    }

    /// Adds that a lane was in a state for the `weight_ns` before `now_ns`.
    pub fn add(&mut self, lane: usize, state: TaskState, now_ns: u64, weight_ns: u64) {
        if lane >= self.lanes.len() {
            self.lanes.resize(lane + 1, Lane::default());
        }
        let now_ns = now_ns.saturating_sub(self.origin_ns);
        self.make_room(now_ns);
        let (length, from_ns) = (self.column_ns(), now_ns.saturating_sub(weight_ns));
        for (column, ns) in parts(from_ns, now_ns, length) {
            let lane = &mut self.lanes[lane];
            if lane.cells.is_empty() {
                lane.first = column;
            }
            // A late look may reach back before the first one.
            let at = column.saturating_sub(lane.first) as usize;
            if at >= lane.cells.len() {
                self.cells += at + 1 - lane.cells.len();
                lane.cells.resize(at + 1, Cell::default());
            }
            lane.cells[at].add(state, ns);
        }
    }

    /// Adds the fill of a pipe for the `weight_ns` before `now_ns`.
    pub fn add_fill(&mut self, pipe: usize, bytes: u64, now_ns: u64, weight_ns: u64) {
        if pipe >= self.fills.len() {
            self.fills.resize(pipe + 1, Fills::default());
        }
        let now_ns = now_ns.saturating_sub(self.origin_ns);
        self.make_room(now_ns);
        let (length, from_ns) = (self.column_ns(), now_ns.saturating_sub(weight_ns));
        for (column, ns) in parts(from_ns, now_ns, length) {
            let columns = &mut self.fills[pipe].columns;
            let at = column as usize;
            if at >= columns.len() {
                self.cells += at + 1 - columns.len();
                columns.resize(at + 1, (0, 0, 0));
            }
            let (sum, seen_ns, most) = &mut columns[at];
            *sum += u128::from(bytes) * u128::from(ns);
            *seen_ns += ns;
            *most = (*most).max(bytes);
        }
    }

    /// Names the lanes: `name` gives each its stage and its label. Of a script, whose pipes are no
    /// stages', only the lanes seen longest are kept, in order of time.
    pub fn named(
        mut self,
        name: &dyn Fn(usize) -> (Option<usize>, String),
        script: bool,
    ) -> History {
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            (lane.stage, lane.label) = name(at);
        }
        self.lanes.retain(|lane| !lane.cells.is_empty());
        if script {
            self.fills.clear();
            self.lanes.sort_by_key(|lane| core::cmp::Reverse(lane.seen_ns()));
            self.lanes.truncate(MOST_LANES);
            self.lanes.sort_by_key(|lane| lane.first);
        }
        self
    }

    fn make_room(&mut self, now_ns: u64) {
        self.column_ns = self.column_ns();
        while now_ns / self.column_ns >= MOST_COLUMNS || self.cells >= MOST_CELLS && self.halve() {
            if now_ns / self.column_ns >= MOST_COLUMNS {
                self.halve();
            }
        }
    }

    /// Joins each two neighbouring columns. Returns whether that made room.
    fn halve(&mut self) -> bool {
        let before = self.cells;
        self.column_ns = self.column_ns().saturating_mul(2);
        for lane in &mut self.lanes {
            let first = lane.first / 2;
            let mut cells: Vec<Cell> = Vec::with_capacity(lane.cells.len() / 2 + 1);
            for (at, cell) in (lane.first..).zip(&lane.cells) {
                let at = (at / 2 - first) as usize;
                cells.resize(cells.len().max(at + 1), Cell::default());
                cells[at].join(cell);
            }
            (lane.first, lane.cells) = (first, cells);
        }
        for fills in &mut self.fills {
            let pairs = fills.columns.chunks(2).map(|pair| {
                let sums = |sums: (u128, u64, u64), one: &(u128, u64, u64)| {
                    (sums.0 + one.0, sums.1 + one.1, sums.2.max(one.2))
                };
                pair.iter().fold((0, 0, 0), sums)
            });
            fills.columns = pairs.collect();
        }
        self.cells = self.lanes.iter().map(|lane| lane.cells.len()).sum::<usize>()
            + self.fills.iter().map(|fills| fills.columns.len()).sum::<usize>();
        self.cells < before
    }
}

/// Divides a time among the columns in which it lies.
fn parts(from_ns: u64, to_ns: u64, length_ns: u64) -> impl Iterator<Item = (u64, u64)> {
    let last = to_ns.saturating_sub(1) / length_ns;
    (from_ns / length_ns..=last).map(move |column| {
        let start_ns = from_ns.max(column * length_ns);
        (column, to_ns.min((column + 1) * length_ns).saturating_sub(start_ns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_divided_among_the_columns_that_it_represents() {
        let mut history = History::default();
        history.add(1, TaskState::Running, 3_500_000, 2_000_000);
        history.add_fill(0, 4096, 2_000_000, 1_000_000);
        assert_eq!((history.lanes[0].cells.len(), history.lanes[1].first), (0, 1));
        let seen: Vec<u64> = history.lanes[1].cells.iter().map(Cell::seen_ns).collect();
        assert_eq!(seen, [500_000, 1_000_000, 500_000]);
        assert_eq!(history.lanes[1].cells[0].main(), Some(TaskState::Running));
        let fills: Vec<_> = history.fills[0].columns().collect();
        assert_eq!(fills, [None, Some((4096.0, 4096))]);
    }

    #[test]
    fn a_run_of_any_length_has_bounded_columns_and_loses_no_time() {
        let mut history = History::default();
        let tick_ns = 20_000_000;
        let ticks = 60_000;
        for tick in 1..=ticks {
            let state = if tick % 3 == 0 { TaskState::BlockedIn } else { TaskState::Running };
            history.add(0, state, tick * tick_ns, tick_ns);
            history.add_fill(0, tick % 2 * 100, tick * tick_ns, tick_ns);
        }
        assert!(history.columns() <= MOST_COLUMNS, "{}", history.columns());
        let of = |state| {
            let cells = history.lanes[0].cells.iter();
            let times = cells.flat_map(Cell::times_ns).filter(|(of, _)| *of == state);
            times.map(|(_, ns)| ns).sum::<u64>()
        };
        assert_eq!(of(TaskState::BlockedIn), ticks / 3 * tick_ns);
        assert_eq!(of(TaskState::Running), ticks / 3 * 2 * tick_ns);
        let (mean, most) = history.fills[0].columns().next().flatten().expect("seen");
        assert!((mean - 50.0).abs() < 1.0 && most == 100, "{mean} {most}");
    }

    #[test]
    fn thousands_of_lanes_share_one_bound() {
        let mut history = History::default();
        for tick in 1..=400_u64 {
            (0..4096).for_each(|lane| {
                history.add(lane, TaskState::Sleep, tick * 1_000_000, 1_000_000);
            });
        }
        assert!(history.cells <= MOST_CELLS + 4096, "{}", history.cells);
        let all: u64 = history.lanes.iter().flat_map(|lane| &lane.cells).map(Cell::seen_ns).sum();
        assert_eq!(all, 4096 * 400 * 1_000_000);
    }
}
