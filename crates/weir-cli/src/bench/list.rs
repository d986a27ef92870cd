//! `weir bench --list`: the suites and their cases.

use crate::fault::Fault;
use crate::output::{print, print_json};
use comfy_table::{Table, presets};
use serde::Serialize;
use std::process::ExitCode;
use weir_measure::bench::case::Suite;
use weir_measure::bench::params::{Params, Placement};
use weir_policy::text::printable;

#[derive(Serialize)]
struct Listed<'a> {
    suite: &'a str,
    case: &'a str,
    params: &'a Params,
    quantities: Vec<String>,
    placements: Vec<Placement>,
    default: bool,
}

/// Lists the suites, or the cases of those named; as JSON, all cases.
pub fn list(suites: &[Suite], named: &[String], json: bool) -> Result<ExitCode, Fault> {
    let wanted = |suite: &&Suite| named.is_empty() || named.iter().any(|name| name == suite.name);
    let chosen: Vec<&Suite> = suites.iter().filter(wanted).collect();
    let listed = cases(&chosen);
    let text = if json {
        let text = serde_json::to_string_pretty(&listed);
        text.map_err(|error| Fault::failed(format!("cannot make JSON: {error}")))? + "\n"
    } else if named.is_empty() {
        overview(&chosen)
    } else {
        details(&chosen, &listed)
    };
    if json {
        print_json(&text)?
    } else {
        print(&text)?
    }
    Ok(ExitCode::SUCCESS)
}

fn cases<'a>(suites: &[&'a Suite]) -> Vec<Listed<'a>> {
    let mut listed = Vec::new();
    for suite in suites {
        for group in &suite.groups {
            for case in &group.cases {
                let quantity =
                    |m: &weir_measure::bench::case::Measure| format!("{} ({})", m.quantity, m.unit);
                listed.push(Listed {
                    suite: suite.name,
                    case: &case.name,
                    params: &case.params,
                    quantities: case.measures.iter().map(quantity).collect(),
                    placements: group.standard.clone(),
                    default: case.standard,
                });
            }
        }
    }
    listed
}

fn overview(suites: &[&Suite]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["suite", "cases", "default", "what"]);
    for suite in suites {
        let cases = || suite.groups.iter().flat_map(|group| &group.cases);
        let standard = cases().filter(|case| case.standard).count();
        table.add_row([
            suite.name.to_owned(),
            cases().count().to_string(),
            standard.to_string(),
            suite.about.to_owned(),
        ]);
    }
    format!("{}\n", trimmed(&table))
}

fn details(suites: &[&Suite], listed: &[Listed]) -> String {
    let mut text = String::new();
    for suite in suites {
        text += &format!("{}: {}\n  from {}\n", suite.name, suite.about, suite.source);
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["  case", "gives", "placements", "default"]);
        for case in listed.iter().filter(|case| case.suite == suite.name) {
            let places = case.placements.iter().map(|p| p.name()).collect::<Vec<_>>().join(", ");
            table.add_row([
                format!("  {}", case.case),
                case.quantities.join(", "),
                places,
                String::from(if case.default { "yes" } else { "" }),
            ]);
        }
        text += &format!("{}\n", trimmed(&table));
    }
    text
}

/// A table without the blanks at the ends of its lines, and with nothing in it that a terminal acts
/// on.
pub fn trimmed(table: &Table) -> String {
    table.lines().map(|line| printable(line.trim_end())).collect::<Vec<_>>().join("\n")
}
