//! Allen's rate of TFTP beside today's, and the bounds for TFTP and TCP.

use super::{allen, find, first};
use crate::figure::figure;
use comfy_table::Table;
use weir_bench::engine::params::{Placement, Unit};
use weir_bench::engine::record::{CaseRecord, ComparisonRecord};
use weir_bench::net_tftp::{ECHO_CASE, SWITCH_CASE};
use weir_bench::{net_tcp, net_tftp};
use weir_command::output::{aligned, trimmed};
use weir_model::published::{ALLEN, lines};

/// Bytes of a packet of TFTP in Allen's measurement.
const PACKET_BYTES: f64 = 512.0;
const RATE: &str = "TFTP transfer rate at 512-byte packets";
/// A bare responder that writes each echo through to the disk.
const LOGGED: &str = "icmp, bare, log synchronous";
const ROUND_TRIP: &str = "round trip to self with logging off";

/// The text below the table of `net-tftp`.
pub fn tftp(cases: &[&CaseRecord], comparisons: &[ComparisonRecord]) -> Option<String> {
    let bounds = allen::bounds(comparisons, &net_tftp::goals::goals());
    let (rates, said) = rates(cases, comparisons).unzip();
    joined([rates.map(|table| trimmed(&table)), bounds.map(|table| trimmed(&table)), said])
}

/// The text below the table of `net-tcp`.
pub fn tcp(comparisons: &[ComparisonRecord]) -> Option<String> {
    let bounds = allen::bounds(comparisons, &net_tcp::goals()).map(|table| trimmed(&table));
    joined([bounds, cost_of_tcp(comparisons)])
}

/// The answer to Allen's question. He measured none, so there is no conclusion to test.
fn cost_of_tcp(comparisons: &[ComparisonRecord]) -> Option<String> {
    let of = |[kernel, weir]: [String; 2]| {
        let row = comparisons.iter().find(|row| row.a == kernel && row.b == weir)?;
        Some(format!("{weir}: {:.2} times ({:.2} to {:.2})", row.ratio, row.low, row.high))
    };
    let said: Vec<String> = net_tcp::on_a_net().into_iter().filter_map(of).collect();
    (!said.is_empty()).then(|| {
        format!(
            "  Allen asked what TCP at user level costs on a net, and gives no figure. Beside the kernel's on \
             a pair of veth devices:\n  {}.",
            said.join("; ")
        )
    })
}

fn joined<const COUNT: usize>(texts: [Option<String>; COUNT]) -> Option<String> {
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// How many times as long an echo takes with a synchronous log of it, if `allen-echo` measured that.
fn logged(comparisons: &[ComparisonRecord]) -> Option<&ComparisonRecord> {
    let is = |row: &&ComparisonRecord| row.b == LOGGED && row.placement == Placement::SameCpu;
    comparisons.iter().find(is)
}

/// The rate of TFTP beside the rate that one packet in each echo's turnaround would be, and what became
/// of the conclusion: Allen's TFTP moved more than his logged echo allowed, so that the time was the log's.
fn rates(cases: &[&CaseRecord], comparisons: &[ComparisonRecord]) -> Option<(Table, String)> {
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
    // A packet and its log took this much of the CPU.
    let logged_then = PACKET_BYTES / allen::cpu_ms(&then)[0] * 1e3 / 1e6;
    let logged = logged(comparisons);
    let by = |times: f64, echo_ns: f64| PACKET_BYTES / (echo_ns * times) * 1e9 / 1e6;
    let now = logged.map_or_else(|| "-".into(), |row| bits(by(row.ratio, echo.estimate)));
    table.add_row(["  a packet in each logged echo would be".into(), bits(logged_then), now]);
    table.add_row(["  TFTP".into(), bits(rate_then), bits(rate.estimate)]);
    let holds = logged.map(|row| match () {
        () if rate.low > by(row.low, echo.low) => "holds here",
        () if rate.high < by(row.high, echo.high) => "does not hold here",
        () => "is not decided here",
    });
    let said = format!(
        "  Allen: TFTP moves more ({}) than an echo with its log allows ({}), so that time is the log's and not the packet's.\n  \
         It {}.",
        bits(rate_then),
        bits(logged_then),
        holds.unwrap_or(
            "cannot be told here: allen-echo, whose echoes are logged, was not measured in this run"
        )
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

    /// What was tested was that TFTP moves less than an echo allows, which Allen never concluded. A packet in
    /// each logged echo of 2 ms is 0.256 MB/s.
    #[test]
    fn what_the_intervals_do_not_tell_is_not_decided() {
        use crate::bench::page::tests::case;
        let said = |megabytes_per_s: f64| {
            let at = |name: &str, figure| CaseRecord {
                placement: Placement::SameCpu,
                ..case(name, figure, None)
            };
            let both = [at(SWITCH_CASE, megabytes_per_s), at(ECHO_CASE, 1e6)];
            let logged = allen::tests::row(LOGGED, Unit::Ns, 1.9, 2.1);
            let (_, alone) = rates(&both.each_ref(), &[]).expect("both figures");
            assert!(alone.contains("cannot be told here"), "{alone}");
            rates(&both.each_ref(), &[logged]).expect("both figures").1
        };
        for (rate, holds) in [(0.4, "It holds here"), (0.2, "It does not hold here")] {
            assert!(said(rate).contains(holds), "{}", said(rate));
        }
        assert!(said(0.256).contains("It is not decided here"), "{}", said(0.256));
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
        for [kernel, weir] in net_tcp::on_a_net() {
            assert!(has(&kernel) && has(&weir), "{weir}");
        }
    }
}
