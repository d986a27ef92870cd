//! The speed to which this host's figures are normalised: the reference loop's step in the first
//! run, kept in a small file beside the history, so that later runs are brought to the same.
//!
//! A directory that cannot be written costs nothing but that: each run is then normalised to its
//! own middle, and says so.

use super::history;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use weir_measure::bench::record::{Host, Report};

/// CPU to nanoseconds a step.
type Known = BTreeMap<String, f64>;

fn file() -> Option<PathBuf> {
    Some(history::place().ok()?.with_file_name("reference.json"))
}

fn read() -> Known {
    let text = file().and_then(|path| std::fs::read_to_string(path).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The step of this host's first run.
pub fn known(host: &Host) -> Option<f64> {
    read().get(&host.cpu).copied().filter(|step| step.is_finite() && *step > 0.0)
}

/// Keeps the nominal step of a run that had to find its own.
pub fn keep(report: &Report) {
    let reference = &report.reference;
    if reference.from_first_run || reference.nominal_ns <= 0.0 {
        return;
    }
    let mut known = read();
    known.insert(report.host.cpu.clone(), reference.nominal_ns);
    let Some(path) = file() else { return };
    let Ok(text) = serde_json::to_string_pretty(&known) else { return };
    let Some(directory) = path.parent() else { return };
    let fresh = directory.join(format!(".reference-{}.json", std::process::id()));
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::File::create(&fresh))
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&fresh, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&fresh);
    }
}
