//! Converts reports of older schemas to the present one: the history keeps runs for years.

use serde_json::{Map, Value};

/// Fields of the first schema with their present names, and the factors for their numbers.
const RENAMED: [(&str, &str, f64); 7] = [
    ("weir", "weir_version", 1.0),
    ("n", "batches", 1.0),
    ("at_ms", "at_s", 1e-3),
    ("resolves_percent", "resolves_share", 1e-2),
    ("between_processes_percent", "between_processes_share", 1e-2),
    ("band", "band_share", 1.0),
    ("hold_one", "same_entries", 1.0),
];

/// Converts a report of schema weir.bench/1 to weir.bench/2.
pub fn from_first(report: &mut Value) {
    let Value::Object(report) = report else { return };
    rename(report);
    let of = |report: &mut Map<String, Value>, name: &str| match report.get_mut(name) {
        Some(Value::Array(entries)) => std::mem::take(entries),
        _ => Vec::new(),
    };
    for list in ["cases", "comparisons"] {
        let mut entries = of(report, list);
        for entry in &mut entries {
            let Value::Object(entry) = entry else { continue };
            rename(entry);
            if let Some(Value::Object(beside)) = entry.get_mut("beside") {
                rename(beside);
            }
            if let Some(Value::String(kind)) = entry.get("verdict") {
                let verdict = serde_json::json!({ "kind": kind, "text": kind });
                entry.insert("verdict".into(), verdict);
            }
        }
        report.insert(list.into(), Value::Array(entries));
    }
    if let Some(Value::Object(test)) = report.get_mut("self_test") {
        rename(test);
        let mut entries = of(test, "entries");
        entries.iter_mut().filter_map(Value::as_object_mut).for_each(rename);
        if entries.is_empty() {
            test.insert("resolves_share".into(), Value::Null);
        }
        test.insert("entries".into(), Value::Array(entries));
    }
    if let Some(Value::Object(host)) = report.get_mut("host") {
        for list in ["mitigations", "placements"] {
            if let Some(pairs) = host.get_mut(list) {
                *pairs = object(pairs.take());
            }
        }
    }
}

/// Converts pairs of a name and a value to an object; other values stay unchanged.
fn object(pairs: Value) -> Value {
    let Value::Array(pairs) = pairs else { return pairs };
    let named = pairs.into_iter().filter_map(|pair| {
        let [name, value] = <[Value; 2]>::try_from(pair.as_array()?.clone()).ok()?;
        Some((name.as_str()?.to_owned(), value))
    });
    Value::Object(named.collect())
}

fn rename(object: &mut Map<String, Value>) {
    for (old, new, factor) in RENAMED {
        if let Some(mut value) = object.remove(old) {
            scale(&mut value, factor);
            object.insert(new.into(), value);
        }
    }
}

fn scale(value: &mut Value, factor: f64) {
    match value {
        _ if (factor - 1.0).abs() < f64::EPSILON => {}
        Value::Array(values) => values.iter_mut().for_each(|value| scale(value, factor)),
        value => {
            if let Some(number) = value.as_f64() {
                *value = Value::from(number * factor);
            }
        }
    }
}
