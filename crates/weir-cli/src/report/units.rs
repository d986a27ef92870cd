//! How figures are written in the report.

use weir_measure::record::{Ending, Stage};
use weir_policy::text::printable;

/// A time in a table cell: seconds, `-` for nothing worth a digit.
pub fn seconds(ns: u64) -> String {
    let s = ns as f64 / 1e9;
    match s {
        s if s < 0.0005 => String::from("-"),
        s if s < 0.0995 => format!("{:.0}ms", s * 1e3),
        s if s < 99.5 => format!("{s:.2}s"),
        s => format!("{s:.0}s"),
    }
}

/// A size in decimal units.
pub fn bytes(count: u64) -> String {
    scaled(count, 1000.0, &["B", "kB", "MB", "GB", "TB"])
}

/// A size in binary units, in which sizes are given (64K is 64 KiB).
pub fn binary(count: u64) -> String {
    scaled(count, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

fn scaled(count: u64, step: f64, units: &[&str; 5]) -> String {
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    if unit == 0 || value >= 9.95 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// A size in binary units, as pipes have them.
pub fn capacity(count: u64) -> String {
    match count {
        0 => String::from("?"),
        c if c.is_multiple_of(1 << 20) => format!("{} MiB", c >> 20),
        c if c.is_multiple_of(1 << 10) => format!("{} KiB", c >> 10),
        c => format!("{c} B"),
    }
}

/// A count.
pub fn count(value: u64) -> String {
    match value {
        v if v < 10_000 => v.to_string(),
        v if v < 10_000_000 => format!("{} k", v / 1000),
        v => format!("{} M", v / 1_000_000),
    }
}

/// A share as a percentage; `?` where it is not known.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| String::from("?"), |share| format!("{:.0}%", share * 100.0))
}

/// How a stage ended.
pub fn ending(stage: &Stage) -> String {
    match (stage.ending, &stage.failure) {
        (Some(Ending::Code(code)), Some(reason)) => format!("{code} {reason}"),
        _ if stage.closed_by_downstream() => String::from("closed by downstream (normal)"),
        (Some(Ending::Code(code)), None) => code.to_string(),
        (Some(Ending::Signal(signal)), _) => signal_name(signal),
        (None, _) => String::from("?"),
    }
}

/// The name of a signal.
pub fn signal_name(signal: i32) -> String {
    let name = signal_hook::low_level::signal_name(signal);
    name.map_or_else(|| format!("signal {signal}"), String::from)
}

/// A label on one line, cut to `width` characters.
pub fn cut(label: &str, width: usize) -> String {
    let line: String = label.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = printable(&line);
    if line.chars().count() <= width {
        return line;
    }
    line.chars().take(width.saturating_sub(3)).chain("...".chars()).collect()
}
