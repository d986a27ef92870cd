//! The planner keeps budgets, in simulated time: no clock runs here.

use super::super::pace::Pace;
use super::super::place::Topology;
use super::super::plan::PASSES_MIN;
use super::super::plan::{Block, Plan};
use super::{case, suite, wish};
use std::time::Duration;

/// A plan of groups, and the least time that their cells really take.
struct BudgetWorld {
    plan: Plan,
    floors_ms: Vec<u64>,
    first_ms: u64,
}

impl BudgetWorld {
    fn new(budget_ms: u64, blocks: &[(u64, u64)]) -> BudgetWorld {
        let suites = [suite(vec![case("a", 1.0)])];
        let plan = Plan::new(&suites, wish(&["suite"]), &Topology::read()).expect("a plan");
        let budget = Duration::from_millis(budget_ms);
        let cells: u64 = blocks.iter().map(|(processes, _)| processes).sum();
        let cell = budget / u32::try_from(cells).expect("few");
        let one = &plan.blocks[0];
        let of = |processes: &u64| Block { processes: *processes, cell, ..one.clone() };
        let list = blocks.iter().map(|(processes, _)| of(processes)).collect();
        let floors_ms = blocks.iter().map(|(_, floor)| *floor).collect();
        BudgetWorld { plan: Plan { blocks: list, budget, ..plan }, floors_ms, first_ms: 0 }
    }

    /// Runs the plan. Returns the time it took and how many processes each block had.
    fn run(&self) -> (Duration, Vec<u64>) {
        let mut pace = Pace::new(&self.plan);
        let mut spent = Duration::ZERO;
        let mut done = vec![0; self.floors_ms.len()];
        let mut pass = 0;
        while pace.continues(pass, spent) {
            for (block, done) in done.iter_mut().enumerate() {
                if pass >= self.plan.blocks[block].processes {
                    continue;
                }
                let given = pace.time(block);
                let first = if pass == 0 { self.first_ms } else { 0 };
                let floor = Duration::from_millis(self.floors_ms[block] + first);
                // Only whole rounds run: a cell ends up to a tenth before its time.
                let took = floor.max(given.mul_f64(0.9));
                pace.learn(block, floor);
                spent += took;
                *done += 1;
            }
            pass += 1;
        }
        assert!(pace.left() < Duration::from_millis(1), "{:?}", pace.left());
        (spent, done)
    }
}

#[test]
fn a_budget_that_is_enough_is_used_for_all_processes() {
    let (spent, done) = BudgetWorld::new(6_000, &[(30, 5), (30, 10), (12, 1)]).run();
    assert_eq!(done, [30, 30, 12]);
    assert!(spent <= Duration::from_secs(6) && spent >= Duration::from_secs(5), "{spent:?}");
}

/// The disk of a suite took 200 ms a cell where 50 ms were planned: a budget of 6 s became 16 s.
#[test]
fn cells_that_take_longer_than_planned_make_others_shorter_and_passes_fewer() {
    for budget_ms in [6_000, 10_000, 15_000] {
        let (spent, done) = BudgetWorld::new(budget_ms, &[(30, 20), (30, 30), (12, 200)]).run();
        assert!(spent <= Duration::from_millis(budget_ms + 300), "{budget_ms}: {spent:?}");
        assert!(spent >= Duration::from_millis(budget_ms * 3 / 5), "{budget_ms}: {spent:?}");
        assert!(done.iter().all(|done| *done >= PASSES_MIN), "{done:?}");
    }
}

/// Calibration is expensive and happens once: it does not make later cells look expensive.
#[test]
fn the_first_cells_cost_is_not_that_of_all() {
    let world = BudgetWorld { first_ms: 400, ..BudgetWorld::new(10_000, &[(30, 20), (30, 20)]) };
    let (spent, done) = world.run();
    assert_eq!(done, [30, 30]);
    assert!(spent <= Duration::from_millis(10_300), "{spent:?}");
}

/// A run was announced to take 54 s by guesses, and took 101 s without another word.
#[test]
fn a_run_that_takes_longer_than_was_guessed_is_told_when_that_is_known() {
    let mut plan = BudgetWorld::new(1_000, &[(30, 0)]).plan;
    plan.blocks[0].floor = Duration::from_millis(250);
    let told = |cell_ms: u64| {
        let (mut pace, mut spent) = (Pace::new(&plan), Duration::ZERO);
        for pass in 0..3 {
            assert!(pace.continues(pass, spent));
            if pass == 2 {
                break;
            }
            pace.learn(0, Duration::from_millis(cell_ms));
            spent += Duration::from_millis(cell_ms);
        }
        pace.overrun(spent)
    };
    assert_eq!(plan.expected(), Duration::from_millis(1_500));
    assert_eq!((told(100), told(260)), (None, None));
    assert_eq!(told(500), Some(Duration::from_secs(3)));
}

#[test]
fn the_fewest_processes_are_made_whatever_they_take() {
    let (spent, done) = BudgetWorld::new(1_000, &[(30, 100), (30, 300)]).run();
    assert_eq!(done, [PASSES_MIN, PASSES_MIN]);
    assert_eq!(spent, Duration::from_millis(6 * 400));
}
