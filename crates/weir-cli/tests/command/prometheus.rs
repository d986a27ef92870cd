//! Metrics for Prometheus: `weir top --prometheus` and `weir watch --prometheus`.

use crate::common::{WEIR, bound};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A writer that fills a pipe whose reader sleeps.
fn pair(writer: &str) -> Child {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{writer} | sleep 60")])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let child = command.stderr(Stdio::null()).spawn().expect("it starts");
    bound(&child);
    child
}

fn end(mut child: Child) {
    let _ = Command::new("pkill").args(["-P", &child.id().to_string()]).status();
    child.kill().expect("killed");
    child.wait().expect("ended");
}

/// The samples by name and labels, after a check that each has its type, and names end as they should.
fn samples(path: &Path) -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(path).expect("metrics");
    let mut types = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').expect("a type");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line} twice");
        } else if !line.starts_with("# HELP ") {
            let (key, value) = line.rsplit_once(' ').expect("a sample");
            let name = key.split('{').next().unwrap_or(key);
            assert!(name.starts_with("weir_") && types.contains_key(name), "{line}");
            let value = value.parse().expect("a number");
            assert!(samples.insert(key.to_owned(), value).is_none(), "{key} twice");
        }
    }
    samples
}

fn find(samples: &BTreeMap<String, f64>, parts: &[&str]) -> f64 {
    let is = |key: &String| parts.iter().all(|part| key.contains(part));
    let found: Vec<f64> = samples.iter().filter(|(key, _)| is(key)).map(|(_, of)| *of).collect();
    assert_eq!(found.len(), 1, "{parts:?} in {samples:?}");
    found[0]
}

#[test]
fn the_pipes_of_this_host_are_metrics() {
    let pair = pair("yes");
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("weir.prom");
    let mut command = Command::new(WEIR);
    command.args(["top", "-n", "2", "--interval", "200ms", "--filter", "yes", "--prometheus"]);
    let output = command.arg(&file).output().expect("it runs");
    end(pair);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let samples = samples(&file);
    let of = ["writer=\"yes\"", "reader=\"sleep\""];
    let find = |name: &str| self::find(&samples, &[name, of[0], of[1]]);
    assert!(find("weir_channel_fill_bytes{") > 0.0 && find("weir_channel_full{") == 1.0);
    let waits = ["weir_channel_waiting_seconds_total{", of[0], of[1], "end=\"writer\""];
    assert!(self::find(&samples, &waits) >= 0.4, "two looks: {samples:?}");
}

#[test]
fn the_counters_of_a_watch_continue_from_report_to_report() {
    let pair = pair("cat /dev/zero");
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("weir.prom");
    let mut command = Command::new(WEIR);
    command.args(["watch", &pair.id().to_string(), "--interval", "300ms", "--for", "900ms"]);
    let output = command.arg("--prometheus").arg(&file).output().expect("it runs");
    end(pair);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let samples = samples(&file);
    assert!(find(&samples, &["weir_watched_seconds_total"]) >= 0.6, "{samples:?}");
    let out = ["weir_program_seconds_total{", "program=\"cat\"", "state=\"out\""];
    assert!(find(&samples, &out) > 0.5, "{samples:?}");
}
