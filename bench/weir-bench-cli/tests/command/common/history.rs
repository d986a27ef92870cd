//! Histories of runs of `weir bench`, and reports that were never measured.

use super::WEIR_BENCH;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use weir_bench::engine::params::{Load, Params, Placement, Unit};
use weir_bench::engine::record::{Beside, CaseRecord, Host, HostState, Reference, Report, SCHEMA};

/// A history of its own.
pub struct Place {
    /// Holds the history, and reports.
    pub directory: tempfile::TempDir,
}

impl Place {
    /// Makes an empty one.
    pub fn new() -> Place {
        Place { directory: tempfile::tempdir().expect("a directory") }
    }

    /// Returns its path.
    pub fn history(&self) -> PathBuf {
        self.directory.path().join("state/history")
    }

    /// Runs weir with it.
    pub fn weir(&self, args: &[&str]) -> Output {
        let mut command = Command::new(WEIR_BENCH);
        command.args(args).env("WEIR_HISTORY", self.history()).stdin(Stdio::null());
        command.output().expect("weir starts")
    }

    /// Puts a report into the history.
    pub fn keep(&self, name: &str, report: &Value) {
        std::fs::create_dir_all(self.history()).expect("made");
        let path = self.history().join(format!("{name}.json"));
        std::fs::write(path, report.to_string()).expect("kept");
    }

    /// A report file in which the cases took these times.
    pub fn report(&self, name: &str, times: &[(&str, f64)], change: impl Fn(&mut Value)) -> String {
        let path = self.directory.path().join(name);
        let mut report = report(times);
        change(&mut report);
        std::fs::write(&path, report.to_string()).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }
}

/// Returns what was printed.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A report of ten processes a case, each within one percent of the given time.
pub fn report(times: &[(&str, f64)]) -> Value {
    let case = |(name, time): &(&str, f64)| CaseRecord {
        suite: "joy-switch".into(),
        case: (*name).into(),
        params: Params::default(),
        placement: Placement::SameCpu,
        quantity: "time".into(),
        unit: Unit::Ns,
        estimate: *time,
        low: time * 0.99,
        high: time * 1.01,
        normalised: true,
        as_timed: *time,
        batches: 40,
        processes: 10,
        between_processes_share: Some(0.01),
        line_rtt_ns: None,
        stratum: None,
        below_resolution: false,
        is_difference: false,
        load: Load::None,
        perspective: None,
        labels: Vec::new(),
        samples: (0..40).map(|at| time * (1.0 + f64::from(at * 7 % 10) / 1e3)).collect(),
        beside: Beside {
            process: (0..40).map(|at| at / 4).collect(),
            at_s: vec![0.0; 40],
            reference_ns: vec![1.25; 40],
            cpu: vec![0; 40],
            involuntary: vec![0; 40],
            label: vec![String::new(); 40],
        },
    };
    let report = Report {
        schema: SCHEMA.into(),
        weir_version: "0.1.0".into(),
        started_unix_s: 1_700_000_000,
        host: Host {
            kernel: "Linux 6.18".into(),
            state: HostState::new(None, None),
            ..Host::default()
        },
        reference: Reference { nominal_ns: 1.25, ..Reference::default() },
        cases: times.iter().map(case).collect(),
        ..Report::default()
    };
    // By its text, in which numbers are as a reader has them.
    serde_json::from_str(&serde_json::to_string(&report).expect("JSON")).expect("JSON")
}
