//! Histories of runs of `weir bench`, and reports that were never measured.

use super::WEIR_BENCH;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

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
        self.directory.path().join("state/history.db")
    }

    /// Runs weir with it.
    pub fn weir(&self, args: &[&str]) -> Output {
        let mut command = Command::new(WEIR_BENCH);
        command.args(args).env("WEIR_HISTORY", self.history()).stdin(Stdio::null());
        command.output().expect("weir starts")
    }

    /// Puts a report into the history, as an earlier weir did.
    pub fn keep(&self, name: &str, report: &Value) {
        std::fs::create_dir_all(self.history().parent().expect("it has one")).expect("made");
        let history = rusqlite::Connection::open(self.history()).expect("opened");
        let table = "CREATE TABLE IF NOT EXISTS runs (name TEXT PRIMARY KEY,
            started_unix_s INTEGER NOT NULL, kernel TEXT NOT NULL, cpu TEXT NOT NULL,
            cases INTEGER NOT NULL, resolves_percent REAL NOT NULL, report TEXT NOT NULL);
            PRAGMA user_version = 1;";
        history.execute_batch(table).expect("made");
        let resolves = report["self_test"]["resolves_percent"].as_f64().unwrap_or(2.5);
        let row = (name, 5, "Linux", "CPU", 1, resolves, report.to_string());
        history.execute("INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", row).expect("kept");
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
    let case = |name: &str, time: f64| {
        let samples: Vec<f64> =
            (0..40).map(|at| time * (1.0 + f64::from(at * 7 % 10) / 1e3)).collect();
        json!({
            "suite": "joy-switch", "case": name, "params": {}, "placement": "same-cpu",
            "quantity": "time", "unit": "ns", "estimate": time, "low": time * 0.99,
            "high": time * 1.01, "normalised": true, "as_timed": time, "n": 40, "processes": 10,
            "between_processes_percent": 1.0, "line_rtt_ns": null, "stratum": null,
            "perspective": null, "samples": samples,
            "beside": {
                "process": (0..40).map(|at| at / 4).collect::<Vec<i32>>(),
                "at_ms": vec![0; 40], "reference_ns": vec![1.25; 40], "cpu": vec![0; 40],
                "involuntary": vec![0; 40], "label": vec![""; 40],
            },
        })
    };
    json!({
        "schema": "weir.bench/1", "weir": "0.1.0", "started_unix_s": 1_700_000_000,
        "duration_s": 1.0, "seed": 1, "load": "none", "host": { "kernel": "Linux 6.18" },
        "rates": {}, "reference": { "nominal_ns": 1.25 }, "self_test": {},
        "cases": times.iter().map(|(name, time)| case(name, *time)).collect::<Vec<_>>(),
        "comparisons": [], "notes": [], "remarks": [],
    })
}
