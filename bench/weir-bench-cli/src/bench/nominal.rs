//! Figures that later runs use, in small files beside the history.
//!
//! - `reference.json`: the step of the reference loop in the first run on a CPU that was not busy,
//!   or until there is one, in the first run. Later runs are normalised to it.
//! - `cells.json`: the least time that cells of each group took. It predicts the time of a run.
//!
//! If the directory cannot be written, each run is normalised to its own median and says so, and
//! predicts its time by guesses.

use super::history;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use weir_bench::engine::params::Load;
use weir_bench::engine::record::{Host, Report};

const REFERENCE: &str = "reference.json";
const CELLS: &str = "cells.json";
/// The weight of a new figure; all earlier figures together have the rest.
const NEW: f64 = 0.5;

/// Numbers by their names.
type Figures = BTreeMap<String, f64>;

fn file(name: &str) -> Option<PathBuf> {
    Some(history::directory().ok()?.with_file_name(name))
}

fn read(name: &str) -> Figures {
    let text = file(name).and_then(|path| std::fs::read_to_string(path).ok());
    let mut known: Figures =
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    known.retain(|_, number| number.is_finite() && *number > 0.0);
    known
}

fn write(name: &str, known: &Figures) {
    if let (Some(path), Ok(text)) = (file(name), serde_json::to_vec_pretty(known)) {
        let _ = weir_command::places::keep(&path, &text);
    }
}

/// The step of the first run on this host.
pub fn known(host: &Host) -> Option<f64> {
    step_ns(&read(REFERENCE), &host.cpu)
}

/// Keeps the step of a run, if it is the first on this host.
pub fn keep(report: &Report) {
    let mut known = read(REFERENCE);
    if take(&mut known, report) {
        write(REFERENCE, &known);
    }
}

/// The name of the step of a busy host, which counts until there is one of a quiet host.
fn busy(cpu: &str) -> String {
    format!("{cpu}, busy")
}

fn step_ns(known: &Figures, cpu: &str) -> Option<f64> {
    known.get(cpu).or_else(|| known.get(&busy(cpu))).copied()
}

/// Takes the step of a run, unless a run before it gave one that is as good.
fn take(known: &mut Figures, report: &Report) -> bool {
    let (reference, cpu) = (&report.reference, &report.host.cpu);
    let is_quiet = report.host.state.busy == Some(false) && report.load == Load::None;
    let is_known = reference.from_first_run && (!is_quiet || known.contains_key(cpu));
    if is_known || reference.batches == 0 {
        return false;
    }
    let name = if is_quiet { cpu.clone() } else { busy(cpu) };
    known.insert(name, reference.median_ns);
    true
}

/// The least times of cells in earlier runs, in seconds.
pub fn floors_s() -> BTreeMap<String, f64> {
    read(CELLS)
}

/// Keeps the least times of cells in this run.
pub fn keep_floors(floors: impl Iterator<Item = (String, Duration)>) {
    let mut known = read(CELLS);
    for (name, floor) in floors {
        let floor_s = floor.as_secs_f64();
        let before_s = known.get(&name).copied().unwrap_or(floor_s);
        known.insert(name, before_s + NEW * (floor_s - before_s));
    }
    write(CELLS, &known);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::page::tests::report;

    /// A first run beside others, whose loop took half as long again, made all later figures that
    /// much too long.
    #[test]
    fn the_step_of_a_busy_host_counts_until_there_is_one_of_a_quiet_host() {
        let mut known = Figures::new();
        let mut run = |busy: bool, median_ns: f64| {
            let mut run = report();
            run.host.state.busy = Some(busy);
            run.reference.median_ns = median_ns;
            run.reference.batches = 7;
            run.reference.from_first_run = step_ns(&known, &run.host.cpu).is_some();
            take(&mut known, &run);
            step_ns(&known, &run.host.cpu)
        };
        let steps = [(true, 3.6), (true, 3.5), (false, 2.5), (true, 3.6), (false, 2.6)];
        let found = steps.map(|(busy, median_ns)| run(busy, median_ns));
        assert_eq!(found, [3.6, 3.6, 2.5, 2.5, 2.5].map(Some));
    }
}
