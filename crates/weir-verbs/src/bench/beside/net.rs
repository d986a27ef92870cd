//! Allen's rate of TFTP beside today's, and the bounds for TFTP and TCP.

use super::{allen, find, first};
use crate::output::{aligned, trimmed};
use crate::units::{figure, words::percent};
use comfy_table::Table;
use weir_bench::net_tftp::{ECHO_CASE, SWITCH_CASE};
use weir_bench::{net_tcp, net_tftp};
use weir_measure::bench::params::{Placement, Unit};
use weir_measure::bench::record::{CaseRecord, ComparisonRecord};
use weir_model::published::{ALLEN, lines};

/// Bytes of a packet of TFTP in Allen's measurement.
const PACKET_BYTES: f64 = 512.0;
const RATE: &str = "TFTP transfer rate at 512-byte packets";
const ROUND_TRIP: &str = "round trip to self with logging off";

/// The text below the table of `net-tftp`.
pub fn tftp(cases: &[&CaseRecord], comparisons: &[ComparisonRecord]) -> Option<String> {
    let bounds = allen::bounds(comparisons, &net_tftp::goals::goals());
    let (rates, said) = rates(cases).unzip();
    joined([rates.map(|table| trimmed(&table)), bounds.map(|table| trimmed(&table)), said])
}

/// The text below the table of `net-tcp`.
pub fn tcp(comparisons: &[ComparisonRecord]) -> Option<String> {
    joined([allen::bounds(comparisons, &net_tcp::goals()).map(|table| trimmed(&table))])
}

fn joined<const COUNT: usize>(texts: [Option<String>; COUNT]) -> Option<String> {
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// The rate of TFTP beside the rate that one packet in each echo's turnaround would be, and what became
/// of the conclusion.
fn rates(cases: &[&CaseRecord]) -> Option<(Table, String)> {
    let of = |name: &str, quantity: &str| {
        find(cases, &format!("{name}, {quantity}"), Placement::SameCpu)
            .or_else(|| find(cases, name, Placement::SameCpu))
    };
    let rate = of(SWITCH_CASE, "throughput")?;
    let echo = of(ECHO_CASE, "turnaround")?;
    let then = lines(ALLEN);
    let was = |name: &str| then.iter().find(|line| line.name == name).map_or(0.0, first);
    // The report has bits and milliseconds.
    let rate_then = was(RATE) / 8e6;
    let allowed_then = PACKET_BYTES / was(ROUND_TRIP) * 1e3 / 1e6;
    let allowed = PACKET_BYTES / echo.estimate * 1e9 / 1e6;
    let header = ["  512-byte packets", "PDP-11/45 (L. Allen, MIT)", "this host, same-cpu"];
    let mut table = aligned(header, [1, 2]);
    table.add_row([
        "  an echo's round trip".into(),
        figure(was(ROUND_TRIP) * 1e6, Unit::Ns),
        figure(echo.estimate, Unit::Ns),
    ]);
    table.add_row(["  a packet in each would be".into(), bits(allowed_then), bits(allowed)]);
    table.add_row(["  TFTP".into(), bits(rate_then), bits(rate.estimate)]);
    table.add_row([
        "  share of that".into(),
        percent(rate_then / allowed_then),
        percent(rate.estimate / allowed),
    ]);
    let share = |rate: f64, echo_ns: f64| rate / (PACKET_BYTES / echo_ns * 1e9 / 1e6);
    let holds = match () {
        () if share(rate.high, echo.high) < 1.0 => "holds",
        () if share(rate.low, echo.low) > 1.0 => "does not hold",
        () => "is not decided",
    };
    let said = format!(
        "  Allen: TFTP moves less than one packet in each turnaround of an echo. It {holds} here: {} of that, where it was {}.",
        percent(rate.estimate / allowed),
        percent(rate_then / allowed_then)
    );
    Some((table, said))
}

/// Formats a rate in bits a second, as the report has it.
fn bits(megabytes_per_s: f64) -> String {
    let kilobits_per_s = megabytes_per_s * 8e3;
    match kilobits_per_s {
        ..1e4 => format!("{kilobits_per_s:.0} kbit/s"),
        _ => format!("{:.1} Mbit/s", kilobits_per_s / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_are_there() {
        let then = lines(ALLEN);
        for name in [RATE, ROUND_TRIP] {
            assert!(then.iter().any(|line| line.name == name && first(line) > 0.0), "{name}");
        }
    }

    /// A packet in each echo of 1 ms is 0.512 MB/s. An interval that held that was "does not hold".
    #[test]
    fn what_the_intervals_do_not_tell_is_not_decided() {
        use crate::bench::page::tests::case;
        let said = |megabytes_per_s: f64| {
            let at = |name: &str, figure| CaseRecord {
                placement: Placement::SameCpu,
                ..case(name, figure, None)
            };
            let both = [at(SWITCH_CASE, megabytes_per_s), at(ECHO_CASE, 1e6)];
            rates(&both.each_ref()).expect("both figures").1
        };
        for (rate, holds) in [(0.4, "It holds here"), (0.6, "It does not hold here")] {
            assert!(said(rate).contains(holds), "{}", said(rate));
        }
        assert!(said(0.5).contains("It is not decided here"), "{}", said(0.5));
    }

    #[test]
    fn the_rows_and_bounds_name_cases_that_are_compared() {
        let groups = [net_tftp::suite(), net_tcp::suite()].map(|suite| suite.groups);
        let groups: Vec<_> = groups.into_iter().flatten().collect();
        let has =
            |name: &str| groups.iter().flat_map(|group| &group.cases).any(|case| case.name == name);
        assert!(has(SWITCH_CASE) && has(ECHO_CASE));
        for goal in net_tftp::goals::goals().into_iter().chain(net_tcp::goals()) {
            let is_compared = groups.iter().any(|group| {
                group.baseline.as_ref() == Some(&goal.a)
                    && group.cases.iter().any(|case| case.name == goal.b)
            });
            assert!(is_compared, "{goal:?}");
        }
        assert_eq!([bits(0.005), bits(7.65)], ["40 kbit/s", "61.2 Mbit/s"]);
        assert!(tftp(&[], &[]).is_none() && tcp(&[]).is_none());
    }
}
