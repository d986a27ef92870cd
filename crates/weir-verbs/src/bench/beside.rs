//! Published figures beside those measured, for the experiments that the reports of 1980 and 2001 and
//! Allen's report describe.

mod allen;
mod net;

use crate::output::{aligned, trimmed};
use crate::units::{figure, words::percent};
use weir_bench::published::{FRANKE, JOY_IPC, JOY_SWITCH, JOY_SYSCALL, PublishedRow, lines};
use weir_measure::bench::params::{Placement, Unit};
use weir_measure::bench::record::{CaseRecord, ComparisonRecord};

/// The text below the table of a suite, if there is any. `comparisons` are those of all suites.
pub fn beside(
    suite: &str,
    cases: &[&CaseRecord],
    comparisons: &[ComparisonRecord],
) -> Option<String> {
    match suite {
        "joy-syscall" => Some(syscall(cases)),
        "joy-switch" => switch(cases),
        "joy-ipc" => ipc(cases),
        "franke-grep" => franke(cases),
        "allen-echo" => allen::echo(cases, comparisons),
        "net-tftp" => net::tftp(cases, comparisons),
        "net-tcp" => net::tcp(comparisons),
        _ => None,
    }
}

pub fn first(line: &PublishedRow) -> f64 {
    line.figures.first().copied().flatten().unwrap_or(0.0)
}

pub fn is_phase(case: &CaseRecord) -> bool {
    case.params.operation.as_deref() == Some("phase")
}

/// Whether a phase belongs to a read. The getppid path is another call.
pub fn in_read(case: &CaseRecord) -> bool {
    !case.case.contains("getppid")
}

pub fn phase_name(case: &CaseRecord) -> &str {
    case.case.trim_start_matches("phase: ")
}

/// A table of Joy's parts of a call and the phases measured here, each with its share.
fn syscall(cases: &[&CaseRecord]) -> String {
    let then = lines(JOY_SYSCALL);
    let all_then: f64 = then.iter().map(first).sum();
    let now: Vec<&&CaseRecord> = cases.iter().filter(|case| is_phase(case)).collect();
    let all_now: f64 =
        now.iter().filter(|case| in_read(case)).map(|case| case.estimate.max(0.0)).sum();
    let header = ["  VAX-11/780, 1980 (Joy)", "us", "share", "this host, a read", "ns", "share"];
    let mut table = aligned(header, [1, 2, 4, 5]);
    for row in 0..then.len().max(now.len()) {
        let left = then.get(row).map(|line| {
            let us = first(line);
            [format!("  {}", line.name), format!("{us:.0}"), percent(us / all_then)]
        });
        let right = now.get(row).map(|case| {
            let share = if in_read(case) {
                percent(case.estimate.max(0.0) / all_now)
            } else {
                String::from("-")
            };
            let below = if case.below_resolution { "< " } else { "" };
            let ns = if case.below_resolution { case.high } else { case.estimate };
            [phase_name(case).to_owned(), format!("{below}{ns:.1}"), share]
        });
        table.add_row(left.unwrap_or_default().into_iter().chain(right.unwrap_or_default()));
    }
    trimmed(&table)
}

fn find<'c>(cases: &[&'c CaseRecord], name: &str, placement: Placement) -> Option<&'c CaseRecord> {
    let mut cases = cases.iter();
    cases.find(|case| case.case == name && case.placement == placement).copied()
}

fn switch(cases: &[&CaseRecord]) -> Option<String> {
    let now = find(cases, "switch by pipe less the pipe", Placement::SameCpu)?;
    let then = lines(JOY_SWITCH);
    let states = then.iter().filter(|line| !line.name.starts_with("part"));
    let history: Vec<String> =
        states.map(|line| format!("{} {:.0} us", line.name, first(line))).collect();
    Some(format!(
        "  VAX-11/780, 1980 (Joy): {}; this host: {}",
        history.join(", "),
        figure(now.estimate, now.unit)
    ))
}

/// A table of packets of 4 bytes per second.
fn ipc(cases: &[&CaseRecord]) -> Option<String> {
    let header = ["  4-byte packets a second", "to self", "one-way", "two-way", "", ""];
    let mut table = aligned(header, [1, 2, 3]);
    for line in lines(JOY_IPC) {
        let figures = line.figures.iter().map(|figure| figure.unwrap_or(0.0));
        let row = figures.map(|figure| format!("{figure:.0} /s"));
        table.add_row(std::iter::once(format!("  {} (Joy, 1980)", line.name)).chain(row));
    }
    let mut row = vec![String::from("  kernel pipe, here, same-cpu")];
    for direction in ["self", "one-way", "two-way"] {
        let name = format!("{direction} kernel-pipe 4 B");
        let case = find(cases, &name, Placement::SameCpu)?;
        row.push(figure(case.estimate, case.unit));
    }
    table.add_row(row);
    Some(trimmed(&table))
}

/// A table of the improvement over a pipe of 4 KiB, in percent.
fn franke(cases: &[&CaseRecord]) -> Option<String> {
    let of = |kib: u64| {
        let fits = |case: &&&CaseRecord| {
            case.params.pipe_bytes == Some(kib << 10) && case.unit == Unit::MegabytesPerSecond
        };
        cases.iter().find(fits).map(|case| case.estimate)
    };
    let least = of(4)?;
    let published = lines(FRANKE).into_iter().find(|line| line.name == "grep")?;
    let header = ["  over a pipe of 4 KiB", "8 KiB", "16 KiB", "32 KiB", "", ""];
    let mut table = aligned(header, [1, 2, 3]);
    let sign = |percent: f64| format!("{percent:+.0} %");
    let then = published.figures.get(2..5)?.iter().map(|f| sign(f.unwrap_or(0.0)));
    table.add_row(std::iter::once(String::from("  Linux 2.4.9 (Franke, 2001)")).chain(then));
    let now =
        [8, 16, 32].map(|kib| of(kib).map_or(String::new(), |f| sign((f / least - 1.0) * 100.0)));
    table.add_row(std::iter::once(String::from("  this host")).chain(now));
    Some(trimmed(&table))
}
