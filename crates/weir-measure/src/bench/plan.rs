//! What a run will do: which cases, in how many cells, for how long each.

use super::case::{Sides, Suite};
use super::params::{Load, Placement};
use super::place::Topology;
use super::record::Note;
use std::path::PathBuf;
use std::time::Duration;

/// Setting up a cell: starting the process, making its works, its load.
const START: Duration = Duration::from_millis(12);
/// The least that a case needs in a cell.
const CASE: Duration = Duration::from_millis(2);
/// What a case likes to have in a cell, where nothing is said of the budget.
const CASE_COMFORT: Duration = Duration::from_millis(25);

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Suites by name; none for the default set.
    pub suites: Vec<String>,
    /// Placements; none for those of each group.
    pub placements: Vec<Placement>,
    /// The competing load.
    pub load: Load,
    /// Time for all of it.
    pub budget: Option<Duration>,
    /// Time for the default set, where nothing is said.
    pub standard_budget: Duration,
    /// Where files are made.
    pub directory: PathBuf,
    /// Seed of all orders.
    pub seed: u64,
}

/// A group at a placement.
#[derive(Clone, Debug)]
pub struct Block {
    /// Index of the suite.
    pub suite: usize,
    /// Index of the group.
    pub group: usize,
    /// Indices of its cases.
    pub cases: Vec<usize>,
    /// Where.
    pub placement: Placement,
    /// The CPUs of the sides.
    pub cpus: Vec<u64>,
    /// Fresh processes.
    pub processes: u64,
    /// Time of each.
    pub cell: Duration,
}

/// What will be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// What had to be left out.
    pub notes: Vec<Note>,
    /// Time for all of it.
    pub budget: Duration,
    /// The wish it came from.
    pub wish: Wish,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// A placement that was asked for does not exist here.
    Placement(Placement, String),
    /// No case is left.
    Nothing(String),
    /// The budget is below what the cases need at the least.
    Budget {
        /// What they need.
        least: Duration,
        /// How many cases there are.
        cases: usize,
    },
}

impl Plan {
    /// Plans a run of `suites`, all of which are in the wish.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn new(suites: &[Suite], wish: Wish, topology: &Topology) -> Result<Plan, PlanError> {
        let mut notes = Vec::new();
        let mut blocks = Vec::new();
        for (suite_index, suite) in suites.iter().enumerate() {
            let asked = wish.suites.iter().any(|name| name == suite.name);
            if !asked && !wish.suites.is_empty() {
                continue;
            }
            for index in 0..suite.groups.len() {
                let found = blocks_of(suite, index, &wish, topology, &mut notes)?;
                blocks.extend(found.into_iter().map(|block| Block { suite: suite_index, ..block }));
            }
        }
        if blocks.is_empty() {
            return Err(PlanError::Nothing(why_nothing(suites, &wish)));
        }
        let budget = share_out(&mut blocks, suites, &wish)?;
        Ok(Plan { blocks, notes, budget, wish })
    }

    /// How many cells it has.
    pub fn cells(&self) -> u64 {
        self.blocks.iter().map(|block| block.processes).sum()
    }

    /// How many cases it has, each placement counted.
    pub fn cases(&self) -> usize {
        self.blocks.iter().map(|block| block.cases.len()).sum()
    }
}

/// The blocks of one group.
fn blocks_of(
    suite: &Suite,
    index: usize,
    wish: &Wish,
    topology: &Topology,
    notes: &mut Vec<Note>,
) -> Result<Vec<Block>, PlanError> {
    let group = &suite.groups[index];
    let standard = wish.suites.is_empty();
    let wanted = |case: &usize| !standard || group.cases[*case].standard;
    let cases: Vec<usize> = (0..group.cases.len()).filter(wanted).collect();
    if cases.is_empty() {
        return Ok(Vec::new());
    }
    let asked = !wish.placements.is_empty();
    let placements = if asked { &wish.placements } else { &group.standard };
    let to_self = |case: &usize| group.cases[*case].params.direction.as_deref() == Some("self");
    let mut blocks = Vec::new();
    for placement in placements.iter().filter(|placement| group.sides.allow(**placement)) {
        match topology.find(*placement) {
            Ok(cpus) => blocks.push(Block {
                suite: 0,
                group: index,
                // What a process sends to itself does not depend on where another is.
                cases: if placement.is_across() && group.sides == Sides::Two {
                    cases.iter().copied().filter(|case| !to_self(case)).collect()
                } else {
                    cases.clone()
                },
                placement: *placement,
                cpus,
                processes: group.processes,
                cell: Duration::ZERO,
            }),
            Err(why) if asked => return Err(PlanError::Placement(*placement, why)),
            Err(why) => notes.push(Note {
                suite: suite.name.into(),
                text: format!("nothing at {placement}: {why}"),
            }),
        }
    }
    Ok(blocks)
}

fn why_nothing(suites: &[Suite], wish: &Wish) -> String {
    let names = wish.placements.iter().map(|p| p.name()).collect::<Vec<_>>().join(", ");
    let what = if wish.suites.is_empty() {
        String::from("no case of the default set")
    } else if wish.suites.len() == 1 {
        format!("no case of {}", wish.suites[0])
    } else {
        format!("no case of the {} suites", wish.suites.len())
    };
    let known = suites.iter().filter(|suite| wish.suites.iter().any(|name| name == suite.name));
    let sides: Vec<_> = known.flat_map(|suite| &suite.groups).map(|group| group.sides).collect();
    let possible = Placement::ALL.iter().filter(|p| sides.iter().any(|sides| sides.allow(**p)));
    let possible = possible.map(|p| p.name()).collect::<Vec<_>>().join(", ");
    if possible.is_empty() {
        format!("{what} can be placed at {names}")
    } else {
        format!("{what} can be placed at {names}; possible: {possible}")
    }
}

/// Gives every cell its time.
fn share_out(blocks: &mut [Block], suites: &[Suite], wish: &Wish) -> Result<Duration, PlanError> {
    let weight = |block: &Block| -> f64 {
        let group = &suites[block.suite].groups[block.group];
        let twin = if group.twin { 1.0 } else { 0.0 };
        block.cases.iter().map(|case| group.cases[*case].weight).sum::<f64>() + twin
    };
    let cells = |blocks: &[Block]| blocks.iter().map(|block| block.processes).sum::<u64>();
    let weighted: f64 = blocks.iter().map(|block| weight(block) * block.processes as f64).sum();
    let starts = START * u32::try_from(cells(blocks)).unwrap_or(u32::MAX);
    let least = starts + CASE.mul_f64(weighted);
    let budget = match wish.budget {
        Some(budget) if budget < least => {
            let cases = blocks.iter().map(|block| block.cases.len()).sum();
            return Err(PlanError::Budget { least, cases });
        }
        Some(budget) => budget,
        None if wish.suites.is_empty() => wish.standard_budget.max(least),
        None => starts + CASE_COMFORT.mul_f64(weighted),
    };
    let unit = (budget - starts).div_f64(weighted);
    for block in blocks.iter_mut() {
        block.cell = START + unit.mul_f64(weight(block));
    }
    Ok(budget)
}
