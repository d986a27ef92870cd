//! The report: a table for people, JSON for programs.

use crate::halves::Half;
use crate::host::Host;
use crate::options::Options;
use crate::{Case, Outcome};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use weir_measure::pairs::{Comparison, PairsError};

/// A difference of 2 % does not matter.
const BAND: f64 = 0.02;

/// Compares a half with its base. Returns `None` if it was not timed.
fn compare(case: &Case, half: Half) -> Option<Result<Comparison, PairsError>> {
    let time = |round: &Vec<(Half, f64)>, half: Half| {
        round.iter().find(|(of, _)| *of == half).map(|(_, took_s)| *took_s)
    };
    let pairs =
        case.rounds.iter().map(|round| Some((time(round, half.base())?, time(round, half)?)));
    pairs.collect::<Option<Vec<_>>>().map(|pairs| Comparison::from_pairs(&pairs))
}

/// The halves that are compared with another one.
const COMPARED: [Half; 5] =
    [Half::Weir, Half::WeirSmallPipes, Half::WeirProfile, Half::Watched, Half::BashAgain];

/// Returns the report as Markdown.
pub fn markdown(options: &Options, host: &Host, outcome: &Outcome) -> String {
    let mut text = format!("{}\n{}\n\n", host.line(), host.programs());
    text.push_str("| pipeline | what | beside | its median | ratio | 95 % interval | p | pairs |");
    text.push_str(" verdict |\n|---|---|---|--:|--:|---|--:|--:|---|\n");
    for case in &outcome.cases {
        for half in COMPARED {
            text.push_str(&row(case, half));
        }
    }
    for (name, reason) in &outcome.skipped {
        let _ = writeln!(text, "| {name} | skipped: {reason} | | | | | | | |");
    }
    text.push('\n');
    for case in &outcome.cases {
        let name = case.workload.name;
        let _ = writeln!(text, "- {name}: `{}`", case.workload.shown(case.units));
    }
    text.push('\n');
    for case in &outcome.cases {
        if let Some(Ok(comparison)) = compare(case, Half::BashAgain) {
            let _ = writeln!(text, "A/A, {}: {}.", case.workload.name, comparison.resolution());
        }
    }
    let itself = outcome.cases.iter().filter_map(|case| case.weir_itself);
    let most = |(bytes, cpu_s): (u64, f64), (b, c)| (bytes.max(b), cpu_s.max(c));
    if let Some((bytes, cpu_s)) = itself.reduce(most) {
        let _ = writeln!(
            text,
            "weir itself: at most {:.1} MB of memory and {:.0} ms of CPU time a run.",
            bytes as f64 / 1e6,
            cpu_s * 1e3
        );
    }
    let _ = writeln!(
        text,
        "{} rounds in random order (seed {}); a ratio below 1 means less time than beside it; \
         equivalent: the whole interval is within {} %.",
        options.pairs,
        options.seed,
        BAND * 100.0
    );
    text
}

fn row(case: &Case, half: Half) -> String {
    let start = format!("| {} | {} | {} |", case.workload.name, half.name(), half.base().name());
    match compare(case, half) {
        None => {
            let why = case.refused.iter().find(|(refused, _)| *refused == half);
            let why = why.map_or("not timed", |(_, why)| why);
            // A table's cell is one line without bars.
            let why = why.lines().next().unwrap_or("").replace('|', "\\|");
            format!("{start} | | | | | not timed: {why} |\n")
        }
        Some(Err(error)) => format!("{start} | | | | | {error} |\n"),
        Some(Ok(comparison)) => {
            let Comparison { ratio, low, high, p, pairs, a_median, .. } = comparison;
            let digits = comparison.digits().max(3);
            let p = if p < 0.001 { String::from("< 0.001") } else { format!("{p:.3}") };
            let verdict = match half {
                Half::BashAgain if comparison.holds_one() => {
                    format!("resolves {:.1} %", comparison.resolution().fraction * 100.0)
                }
                Half::BashAgain => String::from("false alarm"),
                _ => comparison.verdict(BAND).to_string(),
            };
            format!(
                "{start} {a_median:.3} s | {ratio:.digits$} | {low:.digits$} to {high:.digits$} | \
                 {p} | {pairs} | {verdict} |\n"
            )
        }
    }
}

/// Returns the report as JSON, with every time and every order.
pub fn json(options: &Options, host: &Host, outcome: &Outcome) -> Value {
    json!({
        "schema": "weir.bench.overhead/1",
        "host": host.json(),
        "pairs": options.pairs,
        "seconds": options.seconds,
        "seed": options.seed,
        "band": BAND,
        "pipelines": outcome.cases.iter().map(pipeline).collect::<Vec<_>>(),
        "skipped": outcome
            .skipped
            .iter()
            .map(|(name, reason)| json!({"name": name, "reason": reason}))
            .collect::<Vec<_>>(),
    })
}

fn pipeline(case: &Case) -> Value {
    let refused = |(half, why): &(Half, String)| json!({"half": half.name(), "reason": why});
    let round = |round: &Vec<(Half, f64)>| -> Value {
        round.iter().map(|(half, took_s)| json!({"half": half.name(), "wall_s": took_s})).collect()
    };
    let compared: Vec<Value> = COMPARED.iter().filter_map(|half| comparison(case, *half)).collect();
    json!({
        "name": case.workload.name,
        "command": case.workload.text(case.units),
        "units": case.units,
        "comparisons": compared,
        "not_timed": case.refused.iter().map(refused).collect::<Vec<_>>(),
        "rounds": case.rounds.iter().map(round).collect::<Vec<_>>(),
        "weir": case.weir_itself.map(|(bytes, cpu_s)| {
            json!({"max_rss_bytes": bytes, "cpu_s": cpu_s})
        }),
    })
}

fn comparison(case: &Case, half: Half) -> Option<Value> {
    let found = compare(case, half)?.ok()?;
    let mut object = Map::new();
    object.insert("a".into(), half.base().name().into());
    object.insert("b".into(), half.name().into());
    object.insert("ratio".into(), found.ratio.into());
    object.insert("low".into(), found.low.into());
    object.insert("high".into(), found.high.into());
    object.insert("p".into(), found.p.into());
    object.insert("pairs".into(), found.pairs.into());
    object.insert("quartiles".into(), found.quartiles.to_vec().into());
    object.insert("a_median_s".into(), found.a_median.into());
    object.insert("b_median_s".into(), found.b_median.into());
    if half == Half::BashAgain {
        object.insert("resolution".into(), found.resolution().fraction.into());
    } else {
        object.insert("verdict".into(), found.verdict(BAND).to_string().into());
    }
    Some(object.into())
}
