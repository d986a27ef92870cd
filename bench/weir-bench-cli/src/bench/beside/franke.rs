//! Franke's tables: improvement over pipes of 4 KiB, in per cent, beside the pipes of today.

use super::{both, claim, filled, lines, named, of_one_placement};
use weir_bench::engine::params::Placement;
use weir_bench::engine::record::CaseRecord;
use weir_command::output::aligned;
use weir_model::published::{FRANKE, PublishedRow};

/// Two CPUs, as his tables, where they were measured.
const PLACES: [Placement; 3] = [Placement::OtherCpu, Placement::SameCpu, Placement::Free];
/// The larger pipes of his tables, and where their columns are: (A), then (A)+(B).
const PIPES_KIB: [(u64, usize, usize); 3] = [(8, 2, 6), (16, 3, 7), (32, 4, 8)];
const CHUNKS_KIB: [u64; 8] = [2, 4, 6, 8, 12, 16, 24, 32];
/// The transfer and the pipe by which the conclusion is checked.
const SHOWN_KIB: (u64, u64) = (8, 32);

/// Whether the figures are of one CPU. Franke's tables are of two, so they are not beside these.
fn is_one_cpu(cases: &[&CaseRecord]) -> bool {
    cases.first().is_some_and(|case| case.placement == Placement::SameCpu)
}

/// Franke's conclusion about one CPU, and whether it holds for the kernel's pipes.
fn one_cpu(cases: &[&CaseRecord], prefix: &str) -> Option<String> {
    let (chunk, kib) = SHOWN_KIB;
    let names = [kib, 4].map(|kib| format!("{prefix} through {kib} KiB"));
    let (larger, least) = both(cases, [&names[0], &names[1]], &PLACES)?;
    let of_chunk = if prefix == GREP { String::new() } else { format!("{chunk} KiB through ") };
    Some(format!(
        "\n\n  Franke: on one CPU larger pipes make no sense, and cost up to 30 %. It {} here: {of_chunk}{kib} KiB by the kernel's\n  \
         pipes: {:+.0} %. (His tables are of two CPUs.)",
        claim(least, larger),
        (larger.estimate / least.estimate - 1.0) * 100.0
    ))
}

/// How the cases of grep begin.
const GREP: &str = "cat | grep";

/// `cat | grep` by the size of the pipe.
pub fn grep(cases: &[&CaseRecord]) -> Option<String> {
    let cases = &of_one_placement(cases, &PLACES);
    let through = |kib: u64| format!("{GREP} through {kib} KiB");
    named(cases, &through(4))?;
    let published = lines(FRANKE).into_iter().find(|line| line.name == "grep")?;
    let header = ["  over a pipe of 4 KiB", "8 KiB", "16 KiB", "32 KiB", "", ""];
    let mut table = aligned(header, [1, 2, 3]);
    let row = |title: &str, cells: [Option<f64>; 3]| {
        std::iter::once(format!("  {title}")).chain(cells.map(signed)).collect::<Vec<_>>()
    };
    let then = |ab: bool| PIPES_KIB.map(|(_, a, b)| column(&published, if ab { b } else { a }));
    if !is_one_cpu(cases) {
        table.add_row(row("Linux 2.4.9 (Franke, 2001), (A)", then(false)));
        table.add_row(row("Linux 2.4.9, (A)+(B)", then(true)));
    }
    let now = PIPES_KIB.map(|(kib, ..)| gain(cases, GREP, &format!("{kib} KiB"), "4 KiB"));
    table.add_row(row("this host, (A)", now));
    if is_one_cpu(cases) {
        return Some(filled(&table)? + &one_cpu(cases, GREP).unwrap_or_default());
    }
    let ends = both(cases, [&through(32), &through(4)], &PLACES);
    let said = now[2].zip(ends).map(|(gain, (large, least))| {
        let holds = claim(large, least);
        format!("\n\n  Franke: larger pipes more than double grep (+165 % at 32 KiB). A gain {holds} here: {gain:+.0} %.")
    });
    Some(filled(&table)? + &said.unwrap_or_default())
}

/// bw_pipe by chunk and pipe.
pub fn pipe(cases: &[&CaseRecord]) -> Option<String> {
    matrix("lmbench", cases, |chunk| format!("chunk {chunk} KiB"))
}

/// Pipeflex with a pair of processes and the report's mean of 500 us.
pub fn pipeflex(cases: &[&CaseRecord]) -> Option<String> {
    matrix("pipeflex", cases, |chunk| format!("2 processes, 500 us, chunk {chunk} KiB"))
}

fn signed(percent: Option<f64>) -> String {
    percent.map_or(String::new(), |percent| format!("{percent:+.0}"))
}

/// A column of a row, counted without the name.
fn column(row: &PublishedRow, at: usize) -> Option<f64> {
    row.figures.get(at).copied().flatten()
}

/// The improvement of a pipe over one of 4 KiB, in per cent, within weir's pipes or the kernel's.
fn gain(cases: &[&CaseRecord], prefix: &str, pipe: &str, least: &str) -> Option<f64> {
    let names = [pipe, least].map(|pipe| format!("{prefix} through {pipe}"));
    let (pipe, least) = both(cases, [&names[0], &names[1]], &PLACES)?;
    Some((pipe.estimate / least.estimate - 1.0) * 100.0)
}

/// weir's pipes, (A) and (A)+(B): the same capacity in one segment, and in segments of 4 KiB.
fn own(cases: &[&CaseRecord], prefix: &str, kib: u64, segmented: bool) -> Option<f64> {
    let segment = if segmented { 4 } else { kib };
    let pipe = format!("weir's {kib} KiB by {segment} KiB");
    gain(cases, prefix, &pipe, "weir's 4 KiB by 4 KiB")
}

fn matrix(
    benchmark: &str,
    cases: &[&CaseRecord],
    prefix: impl Fn(u64) -> String,
) -> Option<String> {
    let cases = &of_one_placement(cases, &PLACES);
    let published = lines(FRANKE);
    let header = ["  per cent over 4 KiB", "", "(A) 8", "16", "32", "(A)+(B) 8", "16", "32"];
    let mut table = aligned(header, 2..8);
    for chunk in CHUNKS_KIB {
        let prefix = prefix(chunk);
        let kernel =
            PIPES_KIB.map(|(kib, ..)| gain(cases, &prefix, &format!("{kib} KiB"), "4 KiB"));
        let ours = |ab: bool| PIPES_KIB.map(|(kib, ..)| own(cases, &prefix, kib, ab));
        let (a, ab) = (ours(false), ours(true));
        let then = published
            .iter()
            .find(|row| row.name == benchmark && column(row, 0) == Some(chunk as f64))?;
        let of =
            |ab: bool| PIPES_KIB.map(|(_, one, both)| column(then, if ab { both } else { one }));
        let rows = [
            ("Linux 2.4.9 (Franke)", of(false), of(true)),
            ("kernel's pipes, here", kernel, [None; 3]),
            ("weir's pipes, here", a, ab),
        ];
        let here = [kernel, a, ab].iter().flatten().any(Option::is_some);
        let rows = rows.into_iter().skip(usize::from(is_one_cpu(cases)));
        for (row, (title, larger, both)) in rows.enumerate().filter(|_| here) {
            let chunk = if row == 0 { format!("  {chunk} KiB") } else { String::new() };
            let cells = larger.into_iter().chain(both).map(signed);
            table.add_row([chunk, title.to_owned()].into_iter().chain(cells));
        }
    }
    let shown = prefix(SHOWN_KIB.0);
    let said = match is_one_cpu(cases) {
        true => one_cpu(cases, &shown),
        false => conclusion(benchmark, &published, cases, &shown),
    };
    Some(filled(&table)? + &said.unwrap_or_default())
}

/// Franke's conclusion about segments, and whether it holds for weir's pipes.
fn conclusion(
    benchmark: &str,
    published: &[PublishedRow],
    cases: &[&CaseRecord],
    prefix: &str,
) -> Option<String> {
    let (chunk, kib) = SHOWN_KIB;
    let row = published
        .iter()
        .find(|row| row.name == benchmark && column(row, 0) == Some(chunk as f64))?;
    let then = (column(row, 4)?, column(row, 8)?);
    let now = (own(cases, prefix, kib, false)?, own(cases, prefix, kib, true)?);
    let names = [kib, 4].map(|of| format!("{prefix} through weir's {kib} KiB by {of} KiB"));
    let (larger, segmented) = both(cases, [&names[0], &names[1]], &PLACES)?;
    let holds = match then.1 > then.0 {
        true => claim(segmented, larger),
        false => claim(larger, segmented),
    };
    Some(format!(
        "\n\n  Franke: {chunk} KiB through {kib} KiB gained {:+.0} % by the larger pipe and {:+.0} % with segments of 4 KiB too.\n  \
         That order {holds} for weir's pipes here: {:+.0} and {:+.0} %.",
        then.0, then.1, now.0, now.1
    ))
}
