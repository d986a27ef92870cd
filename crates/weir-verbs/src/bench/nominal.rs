//! Figures that later runs use, in small files beside the history.
//!
//! - `reference.json`: the step of the reference loop in the first run on a CPU. Later runs are
//!   normalised to it.
//! - `cells.json`: the least time that cells of each group took. It predicts the time of a run.
//!
//! If the directory cannot be written, each run is normalised to its own median and says so, and
//! predicts its time by guesses.

use super::history;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use weir_measure::bench::record::{Host, Report};

const REFERENCE: &str = "reference.json";
const CELLS: &str = "cells.json";
/// The weight of a new figure; all earlier figures together have the rest.
const NEW: f64 = 0.5;

/// Numbers by their names.
type Figures = BTreeMap<String, f64>;

fn file(name: &str) -> Option<PathBuf> {
    Some(history::place().ok()?.with_file_name(name))
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
        let _ = crate::places::keep(&path, &text);
    }
}

/// The step of the first run on this host.
pub fn known(host: &Host) -> Option<f64> {
    read(REFERENCE).get(&host.cpu).copied()
}

/// Keeps the nominal step of a run, if it is the first on this host.
pub fn keep(report: &Report) {
    let reference = &report.reference;
    if reference.from_first_run || reference.nominal_ns <= 0.0 {
        return;
    }
    let mut known = read(REFERENCE);
    known.insert(report.host.cpu.clone(), reference.nominal_ns);
    write(REFERENCE, &known);
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
