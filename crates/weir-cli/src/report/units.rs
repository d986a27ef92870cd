//! How figures are written in the report.

use std::time::Duration;
use weir_doctor::words;
pub use weir_doctor::words::count;
use weir_measure::record::{Ending, Stage};

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

/// Hours, minutes and seconds.
pub fn clock(time: Duration) -> String {
    let s = time.as_secs();
    format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
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

/// A rate in MB/s, for a column that says so.
pub fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s / 1e6 {
        0.0 => String::from("-"),
        mb if mb < 0.095 => format!("{mb:.2}"),
        mb if mb < 9.95 => format!("{mb:.1}"),
        mb => format!("{mb:.0}"),
    }
}

/// A share as a percentage; `?` where it is not known.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| String::from("?"), words::percent)
}

/// How a stage ended.
pub fn ending(stage: &Stage) -> String {
    match stage.ending {
        _ if stage.closed_by_downstream() => String::from("reader left"),
        Some(Ending::Code(code)) => code.to_string(),
        Some(Ending::Signal(signal)) => signal_name(signal),
        None => String::from("?"),
    }
}

/// The name of a signal.
pub fn signal_name(signal: i32) -> String {
    let name = signal_hook::low_level::signal_name(signal);
    name.map_or_else(|| format!("signal {signal}"), String::from)
}
