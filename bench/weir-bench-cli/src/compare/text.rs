//! A comparison as text for people.

use super::{ComparedCase, HostDifference, RunComparison};
use crate::figure::figure;
use comfy_table::Table;
use std::fmt::Write;
use weir_command::output::{aligned, trimmed};
use weir_command::units::words::things;
use weir_measure::pairs::Verdict;

/// Formats the report; with `verbose`, also equivalent cases and cases that only one run has.
pub fn text(compared: &RunComparison, verbose: bool) -> String {
    let mut text = format!("{} against {}\n{}\n", compared.b, compared.a, compared.text);
    for difference in &compared.host_differences {
        let HostDifference { what, a, b } = difference;
        let _ = writeln!(text, "differs: {what}: {a} -> {b}");
    }
    text += &state(compared);
    let is = |verdict| move |row: &&&ComparedCase| row.is(verdict);
    let rows: Vec<&ComparedCase> = compared.cases.iter().collect();
    let count = |verdict| rows.iter().filter(is(verdict)).count();
    let told = |row: &&ComparedCase| {
        let settled = row.is(Verdict::Faster) || row.is(Verdict::Slower);
        verbose || settled || is_held_back(compared, row)
    };
    let shown: Vec<&ComparedCase> = compared.cases.iter().filter(told).collect();
    if !shown.is_empty() {
        let _ = write!(text, "\n{}\n\n", trimmed(&table(&shown, compared)));
    }
    let _ = writeln!(
        text,
        "{}: {} faster, {} slower, {} equivalent within {} %, {} inconclusive{}",
        cases(rows.len()),
        count(Verdict::Faster),
        count(Verdict::Slower),
        count(Verdict::Equivalent),
        // Without what multiplying by 100 adds: 7.000000000000001.
        (compared.band_share * 1e6).round() / 1e4,
        count(Verdict::Inconclusive),
        if shown.len() < rows.len() { " (--verbose lists all)" } else { "" }
    );
    let _ = writeln!(
        text,
        "faster and slower are significant at {} % for all cases together (Holm); intervals include \
         how far hosts drift between runs",
        (1.0 - compared.error_share) * 100.0
    );
    for (only, name) in [(&compared.only_a, &compared.a), (&compared.only_b, &compared.b)] {
        if !only.is_empty() {
            let _ = writeln!(text, "{} only in {name}", cases(only.len()));
        }
        for case in only.iter().filter(|_| verbose) {
            let _ = writeln!(text, "  {case}");
        }
    }
    text
}

fn known(is_known: bool, text: String) -> String {
    if is_known { text } else { String::from("-") }
}

fn cases(count: usize) -> String {
    things(count as u64, "case")
}

/// Whether only the state of the host keeps a case from being called faster or slower.
fn is_held_back(compared: &RunComparison, row: &ComparedCase) -> bool {
    let sure = row.p_corrected.is_some_and(|p| p <= compared.error_share);
    compared.state.difference.is_some() && sure && row.is(Verdict::Inconclusive)
}

fn state(compared: &RunComparison) -> String {
    let states = &compared.state;
    let mut text = String::new();
    match &states.difference {
        Some(difference) => {
            let held = compared.cases.iter().filter(|row| is_held_back(compared, row)).count();
            let _ = writeln!(
                text,
                "the host's state differed: {difference}. That alone can make cases differ, so none \
                 is called faster or slower ({} would have been)",
                cases(held)
            );
        }
        None if states.a.busy.is_none() || states.b.busy.is_none() => {
            text += "it is not known of both runs how much CPU others used: a difference may come \
                     from that\n";
        }
        None if states.a.busy == Some(true) || states.b.busy == Some(true) => {
            let _ = writeln!(
                text,
                "the host was busy: {} ({}), {} ({})",
                states.a.text, compared.a, states.b.text, compared.b
            );
        }
        None => {}
    }
    text
}

fn table(rows: &[&ComparedCase], compared: &RunComparison) -> Table {
    let mut table =
        aligned(["case", "place", &compared.a, &compared.b, "ratio", "95 %", "verdict"], 2..=5);
    for row in rows {
        let far = row.stratum.as_deref() == Some("far");
        table.add_row([
            format!("{}: {}", row.suite, row.case),
            format!("{}{}", row.placement, if far { " (far)" } else { "" }),
            known(row.a.is_finite(), figure(row.a, row.unit)),
            known(row.b.is_finite(), figure(row.b, row.unit)),
            known(row.ratio.is_finite(), format!("{:.3}", row.ratio)),
            known((row.low + row.high).is_finite(), format!("{:.3} to {:.3}", row.low, row.high)),
            row.verdict.kind.clone(),
        ]);
    }
    table
}
