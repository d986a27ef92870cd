//! Formats numbers for sentences.

use crate::widths::cut;

/// Formats a share as a percentage: `93 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A larger factor is not told: nobody could act on more, and few of these would come true.
pub const LARGE: f64 = 10.0;

/// Formats an upper bound, rounded up so that it stays true: `at most 1.9x`, `over 10x`.
pub fn factor_at_most(value: f64) -> String {
    // A value that exceeds a step only by floating-point rounding is not rounded up.
    const NOISE: f64 = 1e-6;
    match value {
        ..=LARGE => format!("at most {:.1}x", (value * 10.0 - NOISE).ceil() / 10.0),
        _ => format!("over {LARGE:.0}x"),
    }
}

/// Formats an estimate, rounded to the nearest: `perhaps 1.9x`, `perhaps over 10x`.
pub fn factor_about(value: f64) -> String {
    match value {
        ..=LARGE => format!("perhaps {value:.1}x"),
        _ => format!("perhaps over {LARGE:.0}x"),
    }
}

/// Formats a number of CPUs: `2`, `1.8`, `0.25`.
pub fn cpus(value: f64) -> String {
    let digits = if value < 0.95 { 100.0 } else { 10.0 };
    format!("{}", (value * digits).round() / digits)
}

/// Formats a number of CPUs with its noun: `1 CPU`, `2 CPUs`, `0.2 CPUs`.
pub fn of_cpus(value: f64) -> String {
    let number = cpus(value);
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} CPU{plural}")
}

/// Formats a count as the tables do: `950`, `35 k`, `1.2 M`, `34 M`.
pub fn count(value: u64) -> String {
    match value {
        0..=9_999 => format!("{value}"),
        10_000..=999_499 => format!("{} k", (value + 500) / 1000),
        999_500..=9_949_999 => format!("{:.1} M", value as f64 / 1e6),
        _ => format!("{} M", value.saturating_add(500_000) / 1_000_000),
    }
}

/// Formats a count that is only roughly known, with one digit: `2000`, `30 k`.
pub fn rough_count(value: u64) -> String {
    let step = 10_u64.pow(value.checked_ilog10().unwrap_or(0));
    count((value + step / 2) / step * step)
}

/// Formats a count with its noun: `1 byte`, `24 bytes`, `2 processes`.
pub fn things(value: u64, noun: &str) -> String {
    let plural = match value {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", count(value))
}

/// Formats a short time: `under 1 ms`, `12 ms`.
pub fn short_time(ns: u64) -> String {
    match ns {
        0..750_000 => String::from("under 1 ms"),
        _ => format!("{:.0} ms", ns as f64 / 1e6),
    }
}

/// Formats a mean of short times: `under 1 ms`, `about 12 ms`.
pub fn mean_time(ns: u64) -> String {
    let about = if ns < 750_000 { "" } else { "about " };
    format!("{about}{}", short_time(ns))
}

/// The name of a stage in sentences: `2 grep host7`, cut to a readable length, or `stage 2` if it has
/// no name.
pub fn stage(position: usize, label: &str) -> String {
    const LONGEST: usize = 43;
    match cut(label, LONGEST).as_str() {
        "" | "()" => format!("stage {}", position + 1),
        name => format!("{} {name}", position + 1),
    }
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
        assert_eq!((count(950).as_str(), count(12_345).as_str()), ("950", "12 k"));
        assert_eq!((count(1_200_000).as_str(), count(34_300_000).as_str()), ("1.2 M", "34 M"));
        // `started 20 k processes` stood beside `19 k times`.
        assert_eq!([19_999, 9_999_600, u64::MAX].map(count)[..2], ["20 k", "10 M"]);
        assert_eq!(
            (things(1, "byte").as_str(), things(24, "byte").as_str()),
            ("1 byte", "24 bytes")
        );
        assert_eq!(
            (things(1, "process").as_str(), things(57, "process").as_str()),
            ("1 process", "57 processes")
        );
        assert_eq!([0, 7, 1480, 34_900].map(rough_count), ["0", "7", "1000", "30 k"]);
        assert_eq!(
            (cpus(1.84).as_str(), cpus(0.25).as_str(), cpus(2.0).as_str()),
            ("1.8", "0.25", "2")
        );
        assert_eq!([1.0, 1.04, 0.2].map(of_cpus), ["1 CPU", "1 CPU", "0.2 CPUs"]);
        assert_eq!(
            (short_time(300_000).as_str(), short_time(1_200_000).as_str()),
            ("under 1 ms", "1 ms")
        );
        assert_eq!([300_000, 1_200_000].map(mean_time), ["under 1 ms", "about 1 ms"]);
    }

    #[test]
    fn a_bound_is_rounded_up_and_never_down() {
        let rounded = [3.095, 2.0, 2.000_000_000_1, 9.91, 9.9, 1.01].map(factor_at_most);
        let most = ["3.1x", "2.0x", "2.0x", "10.0x", "9.9x", "1.1x"];
        assert_eq!(rounded, most.map(|factor| format!("at most {factor}")));
        assert_eq!([3.04, 9.97].map(factor_about), ["perhaps 3.0x", "perhaps 10.0x"]);
    }

    /// "At most 2485x" was true, and nobody ever saw more than a fraction of it.
    #[test]
    fn large_factors_are_not_told() {
        assert_eq!([10.1, 2485.0].map(factor_at_most), ["over 10x", "over 10x"]);
        assert_eq!([10.1, 2485.0].map(factor_about), ["perhaps over 10x", "perhaps over 10x"]);
    }

    #[test]
    fn a_stage_has_a_name_or_a_place() {
        assert_eq!(stage(1, "grep   host7"), "2 grep host7");
        assert!(stage(0, &"x".repeat(90)).ends_with("..."));
        assert_eq!((stage(0, "").as_str(), stage(2, " ()").as_str()), ("stage 1", "stage 3"));
    }
}
