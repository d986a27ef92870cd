//! Which process is swapped out: the oldest, or the oldest of the n largest. The choice is the one that weir makes
//! among its regions.

use weir_policy::paging::swapping::{LARGEST, SwapFacts, choose};

use crate::machine::{Machine, MachineError};
use crate::outcome::{Cell, Outcome};
use weir_policy::random::Random;

/// Processes of the load.
const PROCESSES: usize = 24;
/// Pages of memory for them.
const MEMORY: u64 = 1500;
/// Turns that are simulated.
const TURNS: u64 = 20_000;

/// Bytes of a page.
const PAGE: f64 = 1024.0;

/// Runs a load: at each turn a process that is drawn at random has to be in memory. Returns how many
/// processes were brought in, how many went out, and how many pages were moved.
fn load(largest: usize, seed: u64) -> [u64; 3] {
    let mut random = Random::new(seed);
    // Most are small, some are large.
    let pages = |random: &mut Random| {
        if random.once_in(4) { 150 + random.below(250) } else { 20 + random.below(60) }
    };
    // A process stays out while it is out: `stays` is true of those that are not in memory.
    let mut jobs: Vec<SwapFacts> = (0..PROCESSES)
        .map(|_| SwapFacts { frames: pages(&mut random) as u32, since_ns: 0, stays: true })
        .collect();
    let [mut swaps, mut outs, mut moved] = [0; 3];
    for turn in 1..=TURNS {
        let chosen = random.below(PROCESSES as u64) as usize;
        if !jobs[chosen].stays {
            continue;
        }
        let used = |jobs: &[SwapFacts]| -> u64 {
            jobs.iter().filter(|job| !job.stays).map(|job| u64::from(job.frames)).sum()
        };
        while used(&jobs) + u64::from(jobs[chosen].frames) > MEMORY {
            let Some(out) = choose(&jobs, largest) else { break };
            jobs[out].stays = true;
            outs += 1;
            moved += u64::from(jobs[out].frames);
        }
        (jobs[chosen].stays, jobs[chosen].since_ns) = (false, turn);
        swaps += 1;
        moved += u64::from(jobs[chosen].frames);
    }
    [swaps, outs, moved]
}

/// Runs the experiment.
pub fn run(machine: &Machine) -> Result<Outcome, MachineError> {
    let mut outcome = Outcome::new("joy-swap", &machine.name, "20000 turns");
    let (access_ns, byte_ns) = (machine.get("access")?, machine.get("transfer")?);
    for (name, largest) in [("oldest", PROCESSES), ("oldest of the 4 largest", LARGEST)] {
        let [swaps, outs, pages] = load(largest, 1980);
        // A process is swapped in one transfer: the arm moves once for it.
        let disk_s = ((swaps + outs) as f64 * access_ns + pages as f64 * PAGE * byte_ns) / 1e9;
        let figures = [
            ("processes brought in", swaps as f64),
            ("processes put out", outs as f64),
            ("pages moved", pages as f64),
            ("disk, s", disk_s),
        ];
        for (column, figure) in figures {
            outcome.cells.push(Cell::new(name, column, None, figure));
        }
        outcome.events += TURNS;
    }
    outcome.notes.push(String::from(
        "the report gives no figures for swapping; the load is the model's own",
    ));
    Ok(outcome)
}
