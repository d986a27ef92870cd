//! Kashtan's paging benchmarks: pages in clusters, with delayed page-outs, as ratios between systems.

use crate::machine::{Machine, MachineError};
use crate::outcome::{Cell, Outcome};
use crate::published::{JOY_PAGING, Published};
use std::collections::VecDeque;
use std::fmt::Write;
use weir_policy::random::Random;

/// A system's way to page.
#[derive(Clone, Copy, Debug)]
pub struct Paging {
    /// Pages of 512 bytes that the program has.
    space: u64,
    /// Pages of 512 bytes in a page of the system.
    unit: u64,
    /// Pages of the system that are in memory.
    frames: u64,
    /// Pages of the system that one transfer brings in at most.
    cluster_in: u64,
    /// Neighbours that one transfer writes at most.
    cluster_out: u64,
}

struct Memory {
    of: Paging,
    resident: Vec<bool>,
    dirty: Vec<bool>,
    /// Whether the page has a copy on the disk; a page that never had one is filled with zeros.
    stored: Vec<bool>,
    order: VecDeque<u64>,
    transfers: u64,
    pages: u64,
    faults: u64,
}

impl Memory {
    fn new(of: Paging) -> Memory {
        let count = (of.space / of.unit + 1) as usize;
        Memory {
            of,
            resident: vec![false; count],
            dirty: vec![false; count],
            stored: vec![false; count],
            order: VecDeque::new(),
            transfers: 0,
            pages: 0,
            faults: 0,
        }
    }

    /// Touches a page of 512 bytes, which modifies it.
    fn touch(&mut self, small: u64) {
        let page = small / self.of.unit;
        if !self.resident[page as usize] {
            self.faults += 1;
            self.bring(page);
        }
        self.dirty[page as usize] = true;
    }

    /// Brings a page in, and neighbours after it in the same transfer.
    fn bring(&mut self, page: u64) {
        self.transfers += u64::from(self.stored[page as usize]);
        for near in page..(page + self.of.cluster_in).min(self.resident.len() as u64) {
            let absent = !self.resident[near as usize] && self.stored[near as usize];
            if near > page && !absent {
                break;
            }
            if self.order.len() as u64 >= self.of.frames {
                self.evict();
            }
            self.resident[near as usize] = true;
            self.dirty[near as usize] = false;
            self.pages += u64::from(self.stored[near as usize]);
            self.order.push_back(near);
        }
    }

    /// Gives up the page that came in first, and writes it with its dirty neighbours.
    fn evict(&mut self) {
        let Some(page) = self.order.pop_front() else { return };
        self.resident[page as usize] = false;
        if !self.dirty[page as usize] {
            return;
        }
        self.transfers += 1;
        self.pages += 1;
        self.stored[page as usize] = true;
        let most = (page + self.of.cluster_out).min(self.resident.len() as u64);
        for near in page + 1..most {
            if !self.resident[near as usize] || !self.dirty[near as usize] {
                break;
            }
            self.dirty[near as usize] = false;
            self.stored[near as usize] = true;
            self.pages += 1;
        }
    }
}

/// What the hardware costs.
#[derive(Clone, Copy)]
struct Costs {
    access_ns: f64,
    byte_ns: f64,
    fault_ns: f64,
    base_ns: f64,
    references: u64,
}

/// Walks of which the mean is taken: one walk hangs on its luck.
const WALKS: u64 = 16;

/// Runs an experiment on a system, and returns its mean seconds.
fn seconds(paging: Paging, costs: Costs, experiment: &str, events: &mut u64) -> f64 {
    let walk = |seed| walk(paging, costs, experiment, seed, events);
    (0..WALKS).map(walk).sum::<f64>() / WALKS as f64
}

fn walk(paging: Paging, costs: Costs, experiment: &str, seed: u64, events: &mut u64) -> f64 {
    let mut random = Random::new(1980 + seed);
    let mut memory = Memory::new(paging);
    let mut place = paging.space / 2;
    for reference in 0..costs.references {
        place = match experiment.strip_prefix("walk ") {
            None if experiment == "sequential" => reference % paging.space,
            None => random.below(paging.space),
            Some(deviation) => {
                let deviation: f64 = deviation.parse().unwrap_or(1.0);
                let far = place as f64 + (random.normal() * deviation).round();
                far.rem_euclid(paging.space as f64) as u64 % paging.space
            }
        };
        memory.touch(place);
    }
    *events += costs.references + memory.transfers;
    let page_ns = costs.byte_ns * 512.0 * paging.unit as f64;
    let spent_ns = memory.transfers as f64 * costs.access_ns
        + memory.pages as f64 * page_ns
        + memory.faults as f64 * costs.fault_ns;
    (spent_ns + costs.base_ns) / 1e9
}

fn costs(machine: &Machine) -> Result<Costs, MachineError> {
    Ok(Costs {
        access_ns: machine.get("access")?,
        byte_ns: machine.get("transfer")?,
        fault_ns: machine.get("fault")?,
        base_ns: machine.get("paging_base")?,
        references: machine.ns("references")?,
    })
}

/// The systems: VMS, SRI's UNIX, Berkeley's before and after.
fn systems(machine: &Machine) -> Result<[Paging; 4], MachineError> {
    let whole = |name: &str| machine.ns(name);
    let sri = Paging {
        space: 8192,
        unit: 2,
        frames: whole("sri_frames")?,
        cluster_in: 1,
        cluster_out: 1,
    };
    let old = Paging { space: 7500, frames: whole("old_frames")?, ..sri };
    let vms = Paging {
        space: 8192,
        unit: 1,
        frames: whole("vms_frames")?,
        cluster_in: whole("vms_cluster_in")?,
        cluster_out: whole("vms_cluster_out")?,
    };
    let new = Paging {
        cluster_in: whole("new_cluster_in")?,
        cluster_out: whole("new_cluster_out")?,
        ..old
    };
    Ok([vms, sri, old, new])
}

/// Runs the experiment.
pub fn run(machine: &Machine) -> Result<Outcome, MachineError> {
    let mut outcome = Outcome::new("kashtan-paging", &machine.name, "ratio of times");
    let published = Published::read(JOY_PAGING);
    let (costs, [vms, sri, old, _]) = (costs(machine)?, systems(machine)?);
    for row in &published.rows {
        let mut time = |paging| seconds(paging, costs, row[0], &mut outcome.events);
        let (vms_s, sri_s, old_s) = (time(vms), time(sri), time(old));
        outcome
            .notes
            .push(format!("{}: vms {vms_s:.0} s, sri {sri_s:.0} s, old {old_s:.0} s", row[0]));
        let told = |column| published.named(row[0], column);
        for (column, above, below, ratio) in [
            ("vms/sri", "vms_s", "sri_s", vms_s / sri_s),
            ("old/sri", "old_s", "sri_s", old_s / sri_s),
        ] {
            if let (Some(above), Some(below)) = (told(above), told(below)) {
                outcome.cells.push(Cell::new(row[0], column, Some(above / below), ratio));
            }
        }
    }
    outcome.notes.push(format!(
        "references a run are not published: {} were chosen on the old walks; only ratios can be compared",
        costs.references
    ));
    Ok(outcome)
}

/// Predicts what Berkeley's new paging gains.
pub fn predict(machine: &Machine) -> Result<String, MachineError> {
    let (costs, [.., old, new]) = (costs(machine)?, systems(machine)?);
    let mut text = String::from("experiment,new_over_old\n");
    for row in Published::read(JOY_PAGING).rows {
        let before = seconds(old, costs, row[0], &mut 0);
        let after = seconds(new, costs, row[0], &mut 0);
        let _ = writeln!(text, "{},{:.2}", row[0], after / before);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The note had the number of an earlier fit.
    #[test]
    fn the_note_has_the_references_of_the_machine() {
        let machine = Machine::named("vax780").expect("it is there");
        let references = machine.ns("references").expect("a constant");
        let notes = run(&machine).expect("whole").notes;
        let chosen = format!(": {references} were chosen");
        assert!(notes.iter().any(|note| note.contains(&chosen)), "{notes:?}");
    }
}
