//! Which process is swapped out: the oldest, or the oldest of the n largest.

use crate::machine::{Machine, MachineError};
use crate::outcome::{Cell, Outcome};
use crate::random::Random;

/// Processes of the load.
const PROCESSES: usize = 24;
/// Pages of memory for them.
const MEMORY: u64 = 1500;
/// Turns that are simulated.
const TURNS: u64 = 20_000;
/// Of how many of the largest the oldest is taken.
const LARGEST: usize = 4;

#[derive(Clone, Copy)]
struct Job {
    pages: u64,
    since: u64,
    resident: bool,
}

/// Runs a load: at each turn a process that is drawn at random has to be in memory. Returns how many
/// processes were brought in, and how many pages were moved.
fn load(largest: usize, seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    // Most are small, some are large.
    let pages = |random: &mut Random| {
        if random.once_in(4) { 150 + random.below(250) } else { 20 + random.below(60) }
    };
    let mut jobs: Vec<Job> = (0..PROCESSES)
        .map(|_| Job { pages: pages(&mut random), since: 0, resident: false })
        .collect();
    let (mut swaps, mut moved) = (0, 0);
    for turn in 1..=TURNS {
        let chosen = random.below(PROCESSES as u64) as usize;
        if jobs[chosen].resident {
            continue;
        }
        let used = |jobs: &[Job]| -> u64 {
            jobs.iter().filter(|job| job.resident).map(|job| job.pages).sum()
        };
        while used(&jobs) + jobs[chosen].pages > MEMORY {
            let mut inside: Vec<usize> = (0..PROCESSES).filter(|&job| jobs[job].resident).collect();
            inside.sort_by_key(|&job| (std::cmp::Reverse(jobs[job].pages), job));
            inside.truncate(largest);
            let Some(&out) = inside.iter().min_by_key(|&&job| (jobs[job].since, job)) else {
                break;
            };
            jobs[out].resident = false;
            moved += jobs[out].pages;
        }
        (jobs[chosen].resident, jobs[chosen].since) = (true, turn);
        swaps += 1;
        moved += jobs[chosen].pages;
    }
    (swaps, moved)
}

/// Runs the experiment.
///
/// # Errors
/// None: the load has constants of its own.
pub fn run(machine: &Machine) -> Result<Outcome, MachineError> {
    let mut outcome = Outcome::new("joy-swap", &machine.name, "20000 turns");
    for (name, largest) in [("oldest", PROCESSES), ("oldest of the 4 largest", LARGEST)] {
        let (swaps, pages) = load(largest, 1980);
        outcome.cells.push(Cell::new(name, "processes brought in", None, swaps as f64));
        outcome.cells.push(Cell::new(name, "pages moved", None, pages as f64));
        outcome.events += TURNS;
    }
    outcome.notes.push(String::from(
        "the report gives no figures for swapping; the load is the model's own",
    ));
    Ok(outcome)
}
