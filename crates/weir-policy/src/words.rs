//! How numbers read in sentences.

use crate::text::printable;
use alloc::format;
use alloc::string::String;

/// A share as a percentage: `93 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A factor, rounded down so that "at most" stays true: `1.8x`, `12x`.
pub fn factor(value: f64) -> String {
    if value < 10.0 {
        format!("{:.1}x", libm::floor(value * 10.0) / 10.0)
    } else {
        format!("{:.0}x", libm::floor(value))
    }
}

/// A count: `950`, `12 thousand`, `1.2 million`.
pub fn count(value: u64) -> String {
    match value {
        0..=9_999 => format!("{value}"),
        10_000..=999_999 => format!("{} thousand", value / 1000),
        _ => format!("{:.1} million", value as f64 / 1e6),
    }
}

/// A size in binary units: `64 KiB`, `1 MiB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

/// A stage as it is named in sentences: `2 grep host7`, cut to a readable length.
pub fn stage(position: usize, label: &str) -> String {
    const LONGEST: usize = 40;
    let line: String = label.split_whitespace().collect::<alloc::vec::Vec<_>>().join(" ");
    let line = printable(&line);
    let mut short: String = line.chars().take(LONGEST).collect();
    if short.len() < line.len() {
        short.push_str("...");
    }
    format!("{} {short}", position + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_has_nothing_that_a_terminal_acts_on() {
        assert_eq!(stage(0, "x\u{1b}[2J\u{202e}"), "1 x?[2J?");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(percent(0.934), "93 %");
        assert_eq!(factor(1.89), "1.8x");
        assert_eq!(factor(25.9), "25x");
        assert_eq!(count(950), "950");
        assert_eq!(count(12_345), "12 thousand");
        assert_eq!(count(1_200_000), "1.2 million");
        assert_eq!(size(262_144), "256 KiB");
        assert_eq!(stage(1, "grep   host7"), "2 grep host7");
        assert!(stage(0, &"x".repeat(90)).ends_with("..."));
    }
}
