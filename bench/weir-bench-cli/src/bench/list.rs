//! `weir bench --list`: lists the suites and their cases, and the time that they take.

use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use weir_bench::engine::case::{Measure, Suite};
use weir_bench::engine::params::{Params, Placement, Unit};
use weir_bench::engine::pick::{Pick, Picks};
use weir_bench::engine::place::Topology;
use weir_bench::engine::plan::Plan;
use weir_command::fault::Fault;
use weir_command::json_option::JsonOption;
use weir_command::output::{Outlet, aligned, trimmed};
use weir_command::units::words::things;

const SCHEMA: &str = "weir.bench.list/1";

#[derive(Serialize)]
struct ListedSuite<'a> {
    suite: &'a str,
    text: &'a str,
    source: &'a str,
    expected_s: f64,
    cases: Vec<ListedCase<'a>>,
}

#[derive(Serialize)]
struct ListedCase<'a> {
    case: &'a str,
    params: &'a Params,
    measures: Vec<ListedMeasure>,
    placements: &'a [Placement],
    default: bool,
}

#[derive(Serialize)]
struct ListedMeasure {
    quantity: &'static str,
    unit: Unit,
}

/// Lists the suites, or the cases of those asked for.
pub fn list(suites: &[Suite], picks: &Picks, option: &JsonOption) -> Result<ExitCode, Fault> {
    let topology = Topology::read();
    let chosen: Vec<ListedSuite> = suites
        .iter()
        .map(|suite| listed(suite, picks, &topology))
        .filter(|listed| !listed.cases.is_empty())
        .collect();
    if chosen.is_empty() {
        return Err(Fault::usage(format!("no case matches {}", picks.words())));
    }
    let body = || {
        let whole = expected(suites, Picks::default(), &topology).as_secs_f64();
        json!({ "default_expected_s": whole, "suites": chosen })
    };
    let text = || match picks.is_standard() {
        true => overview(suites, &chosen, &topology),
        false => details(&chosen),
    };
    Outlet::open(option)?.write_report(SCHEMA, body, text)?;
    Ok(ExitCode::SUCCESS)
}

/// A suite with the cases that were picked, or with all if nothing was picked.
fn listed<'a>(suite: &'a Suite, picks: &Picks, topology: &Topology) -> ListedSuite<'a> {
    let whole = Picks { suites: Pick::parse(suite.name).into_iter().collect(), filter: None };
    let picks = if picks.is_standard() { &whole } else { picks };
    let mut cases = Vec::new();
    for group in &suite.groups {
        for index in picks.of_group(suite, group) {
            let case = &group.cases[index];
            let measure = |m: &Measure| ListedMeasure { quantity: m.quantity, unit: m.unit };
            cases.push(ListedCase {
                case: &case.name,
                params: &case.params,
                measures: case.measures.iter().map(measure).collect(),
                placements: &group.standard,
                default: case.standard,
            });
        }
    }
    let expected_s = expected(std::slice::from_ref(suite), picks.clone(), topology).as_secs_f64();
    ListedSuite { suite: suite.name, text: suite.about, source: suite.source, expected_s, cases }
}

/// How long a run of these cases would take; zero if they cannot be planned.
fn expected(suites: &[Suite], picks: Picks, topology: &Topology) -> Duration {
    Plan::new(suites, super::wish(picks), topology).map_or(Duration::ZERO, |plan| plan.expected())
}

/// How long the cases of a suite take; none if they cannot be planned.
fn time(suite: &ListedSuite) -> Option<String> {
    (suite.expected_s > 0.0).then(|| round(Duration::from_secs_f64(suite.expected_s)))
}

/// A sentence about the cases of a plan and its time.
pub fn promise(plan: &Plan) -> String {
    let (cases, cells) = (things(plan.cases() as u64, "case"), plan.cells());
    let time = round(plan.expected());
    if plan.expected() > plan.budget {
        let least =
            if plan.blocks.iter().any(|block| block.is_guess) { "perhaps" } else { "at least" };
        return format!(
            "{cases}: {least} {time}, longer than the budget of {}: setting them up takes that \
             long in the six processes of each group that an interval needs",
            round(plan.budget)
        );
    }
    format!("{cases} in up to {cells} fresh processes, about {time}")
}

/// Formats a time as "0.4s", "48s" or "13m 34s".
pub fn round(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        _ if time < Duration::from_secs(1) => format!("{:.1}s", time.as_secs_f64()),
        s if s < 120 => format!("{s}s"),
        s => format!("{}m {:02}s", s / 60, s % 60),
    }
}

fn overview(suites: &[Suite], chosen: &[ListedSuite], topology: &Topology) -> String {
    let mut table = aligned(["suite", "cases", "default", "time", "what"], [1, 2, 3]);
    for suite in chosen {
        let standard = suite.cases.iter().filter(|case| case.default).count();
        table.add_row([
            suite.suite.to_owned(),
            suite.cases.len().to_string(),
            standard.to_string(),
            time(suite).unwrap_or_else(|| String::from("-")),
            suite.text.to_owned(),
        ]);
    }
    let whole = round(expected(suites, Picks::default(), topology));
    format!(
        "{}\n\nweir bench runs the cases counted under \"default\" in about {whole}; weir bench \
         SUITE runs all\ncases of a suite. weir bench --list SUITE lists its cases; SUITE/REGEX selects \
         some of them.\n",
        trimmed(&table)
    )
}

fn details(suites: &[ListedSuite]) -> String {
    let mut text = String::new();
    for suite in suites {
        text += &format!("{}: {}\n  from {}\n", suite.suite, suite.text, suite.source);
        text += &match time(suite) {
            Some(time) => format!("  takes about {time}\n"),
            None => String::from("  cannot be measured here: none of its placements exists\n"),
        };
        let mut table = aligned(["  case", "gives", "placements", "default"], []);
        for case in &suite.cases {
            let places = case.placements.iter().map(|p| p.name()).collect::<Vec<_>>().join(", ");
            let gives = |m: &ListedMeasure| format!("{} ({})", m.quantity, m.unit);
            table.add_row([
                format!("  {}", case.case),
                case.measures.iter().map(gives).collect::<Vec<_>>().join(", "),
                places,
                String::from(if case.default { "yes" } else { "" }),
            ]);
        }
        text += &format!("{}\n", trimmed(&table));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::round;
    use std::time::Duration;

    /// A run was said to take "at least 0s, longer than its budget".
    #[test]
    fn less_than_a_second_is_not_nothing() {
        let of = |ms| round(Duration::from_millis(ms));
        assert_eq!([of(400), of(999), of(1_400), of(150_000)], ["0.4s", "1.0s", "1s", "2m 30s"]);
    }
}
