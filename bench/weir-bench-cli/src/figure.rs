//! Formats the figures of the bench.

use weir_bench::engine::params::Unit;
use weir_command::units::three_digits;

/// Formats a figure with three significant digits and a unit that suits its size.
pub fn figure(value: f64, unit: Unit) -> String {
    let (scaled, name) = match unit {
        Unit::Ns => scale(value, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")]),
        Unit::MegabytesPerSecond => scale(value, &[(1e3, "GB/s"), (1.0, "MB/s")]),
        Unit::PerSecond => scale(value, &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")]),
        Unit::Percent => (value, "%"),
        Unit::Megabytes => scale(value, &[(1e3, "GB"), (1.0, "MB")]),
    };
    format!("{} {name}", three_digits(scaled))
}

fn scale<'n>(value: f64, steps: &[(f64, &'n str)]) -> (f64, &'n str) {
    let fits = steps.iter().find(|(factor, _)| value.abs() >= *factor);
    let (factor, name) = fits.or(steps.last()).copied().unwrap_or((1.0, ""));
    (value / factor, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit_that_suits() {
        assert_eq!(figure(82.41, Unit::Ns), "82.4 ns");
        assert_eq!(figure(4_512.0, Unit::Ns), "4.51 us");
        assert_eq!(figure(0.4, Unit::Ns), "0.40 ns");
        assert_eq!(figure(1_250_000_000.0, Unit::Ns), "1.25 s");
        assert_eq!(figure(12_345.0, Unit::MegabytesPerSecond), "12.3 GB/s");
        assert_eq!(figure(45.6, Unit::MegabytesPerSecond), "45.6 MB/s");
        assert_eq!(figure(268.4, Unit::Megabytes), "268 MB");
        assert_eq!(figure(281.0, Unit::PerSecond), "281 /s");
        assert_eq!(figure(-3.0, Unit::Ns), "-3.00 ns");
    }
}
