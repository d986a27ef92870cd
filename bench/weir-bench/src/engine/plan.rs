//! The plan of a run: which cases, in how many cells, for how long each.

use super::case::{Sides, Suite};
use super::params::{Load, Placement};
use super::pick::Picks;
use super::place::Topology;
use super::record::Note;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Fewest processes that allow a signed-rank interval.
pub const PASSES_MIN: u64 = 6;
/// Time to set up a cell: starting the process, making its works, its load.
const START: Duration = Duration::from_millis(12);
/// Least time of a case in a cell.
const CASE: Duration = Duration::from_millis(2);
/// Guess of the least time of a case in a cell that no earlier run has measured: 4 to 50 ms.
const CASE_GUESS: Duration = Duration::from_millis(8);
/// Preferred time of a case in a cell, if no budget is given.
const CASE_COMFORT: Duration = Duration::from_millis(25);

/// Most batches of a run: a report of more takes gigabytes of memory.
const BATCHES_MAX: u64 = 1 << 20;
/// A budget too small for this part of the processes is refused.
const HARDLY: u32 = 5;

/// The request for a run.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The selected cases.
    pub picks: Picks,
    /// Placements; none for those of each group.
    pub placements: Vec<Placement>,
    /// The competing load.
    pub load: Load,
    /// The time budget.
    pub budget: Option<Duration>,
    /// The budget of the default set, if none is given.
    pub standard_budget: Duration,
    /// Directory for files.
    pub directory: PathBuf,
    /// Seed of all orders.
    pub seed: u64,
    /// The least times of cells in earlier runs on this host, in seconds, by [`Block::cost_name`].
    pub floors_s: BTreeMap<String, f64>,
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
    /// The placement.
    pub placement: Placement,
    /// The CPUs of the sides.
    pub cpus: Vec<u64>,
    /// Fresh processes.
    pub processes: u64,
    /// Time of each.
    pub cell: Duration,
    /// The least time of each, however little it is given: measured by earlier runs on this host,
    /// else a guess.
    pub floor: Duration,
    /// Whether that is a guess.
    pub is_guess: bool,
    /// A time that suffices for each: a cell that takes much longer hangs.
    pub ample: Duration,
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// What had to be left out.
    pub notes: Vec<Note>,
    /// The time budget.
    pub budget: Duration,
    /// Most rounds of a cell.
    pub rounds: u64,
    /// The request it came from.
    pub wish: PlanRequest,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// A placement that was asked for does not exist here.
    Placement(Placement, String),
    /// No case is left.
    Nothing(String),
    /// None of the placements of the cases exists here.
    Unplaced(String),
    /// The budget is below the least time of the cases.
    Budget {
        /// The least time that they need.
        least: Duration,
        /// How many cases there are.
        cases: usize,
    },
}

impl Block {
    /// Returns the name under which its cells' least time is remembered: for whole groups by their
    /// number of cases, and for parts by their cases. Beside a load, which has to start, cells take
    /// longer.
    pub fn cost_name(&self, suites: &[Suite], load: Load) -> String {
        let suite = &suites[self.suite];
        let group = &suite.groups[self.group];
        let cases = match self.cases.len() {
            all if all == group.cases.len() => all.to_string(),
            _ => {
                let names = self.cases.iter().map(|case| group.cases[*case].name.as_str());
                names.collect::<Vec<_>>().join("; ")
            }
        };
        let name = format!("{}/{}/{}/{cases}", suite.name, group.name, self.placement);
        if load == Load::None { name } else { format!("{name}/{}", load.name()) }
    }
}

impl Plan {
    /// Plans a run of `suites`, all of which the request names.
    pub fn new(
        suites: &[Suite],
        mut wish: PlanRequest,
        topology: &Topology,
    ) -> Result<Plan, PlanError> {
        // One that was named twice would give two figures of one name.
        wish.placements =
            std::collections::BTreeSet::from_iter(wish.placements).into_iter().collect();
        let mut notes = Vec::new();
        let mut blocks = Vec::new();
        for (suite_index, suite) in suites.iter().enumerate() {
            for index in 0..suite.groups.len() {
                let found = blocks_of(suite, index, &wish, topology, &mut notes)?;
                blocks.extend(found.into_iter().map(|block| Block { suite: suite_index, ..block }));
            }
        }
        match notes.as_slice() {
            _ if !blocks.is_empty() => {}
            [] => return Err(PlanError::Nothing(why_nothing(suites, &wish))),
            [note, ..] => return Err(PlanError::Unplaced(note.text.clone())),
        }
        let budget = share_out(&mut blocks, suites, &wish)?;
        // One more case: the first may run twice.
        let batches = |block: &Block| block.processes * (block.cases.len() as u64 + 1);
        let rounds = BATCHES_MAX / blocks.iter().map(batches).sum::<u64>();
        Ok(Plan { blocks, notes, budget, rounds: rounds.max(1), wish })
    }

    /// Returns its length: its budget, or the time of the fewest processes if that is longer.
    pub fn expected(&self) -> Duration {
        self.budget.max(least(&self.blocks))
    }

    /// Returns the number of its cells, if the budget allows all of them.
    pub fn cells(&self) -> u64 {
        self.blocks.iter().map(|block| block.processes).sum()
    }

    /// Returns the number of its cases, counting each placement.
    pub fn cases(&self) -> usize {
        self.blocks.iter().map(|block| block.cases.len()).sum()
    }
}

fn blocks_of(
    suite: &Suite,
    index: usize,
    wish: &PlanRequest,
    topology: &Topology,
    notes: &mut Vec<Note>,
) -> Result<Vec<Block>, PlanError> {
    let group = &suite.groups[index];
    let cases = wish.picks.of_group(suite, group);
    if cases.is_empty() {
        return Ok(Vec::new());
    }
    let asked = !wish.placements.is_empty();
    let placements = if asked { &wish.placements } else { &group.standard };
    let to_self = |case: &usize| group.cases[*case].params.direction.as_deref() == Some("self");
    let mut blocks: Vec<Block> = Vec::new();
    for placement in placements.iter().filter(|placement| group.sides.allow(**placement)) {
        match topology.find(*placement) {
            Ok(cpus) => blocks.push(Block {
                suite: 0,
                group: index,
                // A process that sends to itself does not depend on where another is.
                cases: if placement.is_across() && group.sides == Sides::Two {
                    cases.iter().copied().filter(|case| !to_self(case)).collect()
                } else {
                    cases.clone()
                },
                placement: *placement,
                cpus,
                processes: group.processes,
                cell: Duration::ZERO,
                floor: Duration::ZERO,
                is_guess: true,
                ample: Duration::ZERO,
            }),
            Err(why) if asked => return Err(PlanError::Placement(*placement, why)),
            Err(why) => notes.push(Note {
                suite: suite.name.into(),
                text: format!("nothing was measured at {placement}: {why}"),
            }),
        }
    }
    blocks.retain(|block| !block.cases.is_empty());
    Ok(blocks)
}

fn why_nothing(suites: &[Suite], wish: &PlanRequest) -> String {
    let picked = |suite: &&Suite| {
        suite.groups.iter().any(|group| !wish.picks.of_group(suite, group).is_empty())
    };
    let picked: Vec<&Suite> = suites.iter().filter(picked).collect();
    let what = match picked.as_slice() {
        [] => return format!("no case matches {}", wish.picks.words()),
        _ if wish.picks.is_standard() => String::from("no case of the default set"),
        [one] => format!("no case of {}", one.name),
        all => format!("no case of the {} suites", all.len()),
    };
    let names = wish.placements.iter().map(|p| p.name()).collect::<Vec<_>>().join(", ");
    let sides: Vec<_> =
        picked.iter().flat_map(|suite| &suite.groups).map(|group| group.sides).collect();
    let possible = Placement::ALL.iter().filter(|p| sides.iter().any(|sides| sides.allow(**p)));
    let possible = possible.map(|p| p.name()).collect::<Vec<_>>().join(", ");
    format!("{what} can be placed at {names}; possible: {possible}")
}

/// Assigns every cell its time. A budget too small for all processes reduces their number during
/// the run (see [`super::pace`]); one too small for the fewest is refused.
fn share_out(
    blocks: &mut [Block],
    suites: &[Suite],
    wish: &PlanRequest,
) -> Result<Duration, PlanError> {
    let weight = |block: &Block| -> f64 {
        let group = &suites[block.suite].groups[block.group];
        let twin = if group.twin { 1.0 } else { 0.0 };
        block.cases.iter().map(|case| group.cases[*case].weight).sum::<f64>() + twin
    };
    for block in blocks.iter_mut() {
        let known = wish.floors_s.get(&block.cost_name(suites, wish.load)).copied();
        let known = known.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        block.is_guess = known.is_none();
        block.floor = known.unwrap_or(START + CASE_GUESS.mul_f64(weight(block)));
    }
    let cells = |blocks: &[Block]| blocks.iter().map(|block| block.processes).sum::<u64>();
    let weighted: f64 = blocks.iter().map(|block| weight(block) * block.processes as f64).sum();
    let starts = START * u32::try_from(cells(blocks)).unwrap_or(u32::MAX);
    let least = least(blocks);
    let hardly = START * u32::try_from(cells(blocks)).unwrap_or(u32::MAX) / HARDLY;
    let budget = match wish.budget {
        Some(budget) if budget < hardly => {
            let cases = blocks.iter().map(|block| block.cases.len()).sum();
            return Err(PlanError::Budget { least: least.max(hardly), cases });
        }
        Some(budget) => budget,
        None if wish.picks.is_standard() => wish.standard_budget,
        None => (starts + CASE_COMFORT.mul_f64(weighted)).max(least),
    };
    let unit = budget.saturating_sub(starts).div_f64(weighted).max(CASE);
    for block in blocks.iter_mut() {
        block.cell = START + unit.mul_f64(weight(block));
        block.ample = block.cell.max(block.floor).max(START + CASE_COMFORT.mul_f64(weight(block)));
    }
    Ok(budget)
}

/// Returns the time of the fewest processes that allow an interval.
fn least(blocks: &[Block]) -> Duration {
    let of = |block: &Block| block.floor.mul_f64(block.processes.min(PASSES_MIN) as f64);
    blocks.iter().map(of).sum()
}
