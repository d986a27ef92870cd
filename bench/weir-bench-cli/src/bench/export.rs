//! A report in the formats of other tools. Samples of another stratum than the figure's are left
//! out.

use serde_json::{Value, json};
use std::fmt::Write;
use weir_bench::engine::params::Unit;
use weir_bench::engine::record::{CaseRecord, Report};

/// The name "suite/case/placement", with "/far" for the far stratum.
fn name(case: &CaseRecord) -> String {
    let far = case.stratum.as_deref() == Some("far");
    let stratum = if far { "/far" } else { "" };
    format!("{}/{}/{}{stratum}", case.suite, case.case, case.placement)
}

/// hyperfine's JSON, with the cases that measure a time, in seconds.
pub fn hyperfine(report: &Report) -> String {
    let seconds = |ns: f64| ns / 1e9;
    let results: Vec<Value> = report
        .cases
        .iter()
        .filter(|case| case.unit == Unit::Ns)
        .map(|case| {
            let times: Vec<f64> = case.counted().map(|(_, ns)| seconds(ns)).collect();
            let count = times.len().max(1) as f64;
            let mean = times.iter().sum::<f64>() / count;
            let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
            json!({
                "command": name(case),
                "mean": mean,
                "stddev": (squares / (count - 1.0).max(1.0)).sqrt(),
                "median": weir_bench::engine::estimate::median(&times),
                "min": times.iter().copied().fold(f64::INFINITY, f64::min),
                "max": times.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                "times": times,
            })
        })
        .collect();
    pretty(&json!({ "results": results }))
}

/// Bencher's metric format.
pub fn bencher(report: &Report) -> String {
    let mut document = serde_json::Map::new();
    for case in &report.cases {
        let measure = match case.unit {
            Unit::Ns => "latency",
            Unit::MegabytesPerSecond | Unit::PerSecond => "throughput",
            Unit::Percent => "cpu",
            Unit::Megabytes => "memory",
        };
        let figure = json!({
            "value": case.estimate, "lower_value": case.low, "upper_value": case.high,
        });
        document.insert(name(case), json!({ measure: figure }));
    }
    pretty(&Value::Object(document))
}

/// Go's benchmark text, one line per sample, for benchstat.
pub fn go(report: &Report) -> String {
    let mut text = String::new();
    for case in &report.cases {
        let words = |c: char| if c.is_ascii_alphanumeric() || "/-.".contains(c) { c } else { '_' };
        let name: String = name(case).chars().map(words).collect();
        let unit = match case.unit {
            Unit::Ns => "ns/op",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::PerSecond => "op/s",
            Unit::Percent => "%cpu",
            Unit::Megabytes => "MB",
        };
        for (_, sample) in case.counted() {
            let _ = writeln!(text, "Benchmark{name} 1 {sample} {unit}");
        }
    }
    text
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
