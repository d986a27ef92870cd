//! Formats figures: times, sizes, rates, counts. [`parse`] parses them.

pub mod parse;
pub mod words;

use std::fmt::Write;
use std::time::{Duration, SystemTime};
use weir_doctor::ending::Ending;
use weir_doctor::facts::Stage;
pub use words::count;

/// Formats a time for a table cell; `-` if it would round to nothing.
pub fn seconds(ns: u64) -> String {
    let s = ns as f64 / 1e9;
    match s {
        s if s < 0.0005 => String::from("-"),
        s if s < 0.0995 => format!("{:.0}ms", s * 1e3),
        s if s < 99.5 => format!("{s:.2}s"),
        s => format!("{s:.0}s"),
    }
}

/// Formats a time as hours, minutes and seconds.
pub fn clock(time: Duration) -> String {
    let s = time.as_secs();
    format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

/// Formats a size in decimal units.
pub fn bytes(count: u64) -> String {
    scaled(count, 1000.0, &["B", "kB", "MB", "GB", "TB"])
}

/// Formats a size in binary units, as options take sizes (64K is 64 KiB).
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

/// Formats the capacity of a pipe in binary units; `?` for 0, which is unknown.
pub fn capacity(count: u64) -> String {
    match count {
        0 => String::from("?"),
        count => weir_measure::machine::size(count),
    }
}

/// Formats a rate in MB/s, without the unit.
pub fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s / 1e6 {
        0.0 => String::from("-"),
        mb if mb < 0.095 => format!("{mb:.2}"),
        mb if mb < 9.95 => format!("{mb:.1}"),
        mb => format!("{mb:.0}"),
    }
}

/// Formats a share as a percentage; `?` if it is unknown.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| String::from("?"), words::percent)
}

/// Formats how a stage ended.
pub fn ending(stage: &Stage) -> String {
    match stage.ending {
        _ if stage.closed_by_downstream() => String::from("reader left"),
        Some(Ending::Code(code)) => code.to_string(),
        Some(Ending::Signal(signal)) => signal_name(signal),
        None => String::from("?"),
    }
}

/// Formats the name of a signal.
pub fn signal_name(signal: i32) -> String {
    let name = signal_hook::low_level::signal_name(signal);
    name.map_or_else(|| format!("signal {signal}"), String::from)
}

/// Formats a number with three significant digits.
pub fn three_digits(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// Formats a date and time in UTC: "2026-11-21 08:15".
pub fn utc(unix_s: u64) -> String {
    // A writer of years beyond 9999 refuses.
    let mut text = String::new();
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(unix_s));
    let written = time.map(|time| write!(text, "{}", humantime::format_rfc3339_seconds(time)));
    match (written, text.get(..16)) {
        (Some(Ok(())), Some(minutes)) => minutes.replace('T', " "),
        _ => "?".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00");
        assert_eq!(utc(1_795_248_900), "2026-11-21 08:15");
        assert_eq!(utc(u64::MAX / 4), "?");
    }
}
