//! The functions in which a stage computed, as text and as JSON.

use super::layout::{Column, Grid, Name};
use serde_json::{Value, json};
use weir_command::units::percent;
use weir_command::units::words::{count, things};
use weir_command::widths::cut;
use weir_doctor::facts::{HotCode, HotFunction, HotStage, Run};
use weir_doctor::verdict::Verdict;

/// Most functions in a table, and in JSON.
const ROWS: usize = 10;
const JSON_ROWS: usize = 200;
/// A function with less of the samples gets no row.
const LITTLE: f64 = 0.01;
/// Fewer samples tell only large shares.
const FEW: u64 = 50;
/// Columns of the place of a function.
const PLACE_COLUMNS: usize = 24;
/// When this share of the samples has no name, the report says what would help.
const MANY_UNNAMED: f64 = 0.25;

/// A heading and a table for one stage.
pub struct Hot {
    /// Which stage it is, and how often it was sampled.
    pub heading: String,
    /// The lines of the table, the first of them its head.
    pub table: Vec<String>,
    /// What is not in the table.
    pub notes: Vec<String>,
}

/// Returns the tables of hot functions: that of the stage that holds the run up, or with `all` those
/// of all stages. Without such a stage it is the one with the most samples.
pub fn tables(run: &Run, verdict: &Verdict, all: bool, width: usize) -> Vec<Hot> {
    let Some(code) = &run.hot else { return Vec::new() };
    let stages = code.stages.iter().filter(|one| one.samples > 0);
    if all {
        return stages.map(|one| table(run, code, one, width)).collect();
    }
    chosen(run, code, verdict).map(|one| table(run, code, one, width)).into_iter().collect()
}

/// The stage whose functions matter most.
fn chosen<'a>(run: &Run, code: &'a HotCode, verdict: &Verdict) -> Option<&'a HotStage> {
    let culprit = verdict.culprit.as_ref().filter(|_| !run.script);
    let most = code.stages.iter().max_by_key(|one| one.samples).filter(|one| one.samples > 0);
    match culprit {
        Some(culprit) => code.of(Some(culprit.stage)),
        None => most,
    }
}

/// What is to be said where functions are not known.
pub fn gaps(run: &Run) -> Vec<String> {
    let Some(code) = &run.hot else { return Vec::new() };
    let refused = code.refused.iter().map(|why| format!("no functions: {why}"));
    let nothing = code.refused.is_none() && code.stages.iter().all(|one| one.samples == 0);
    let nothing = nothing.then(|| String::from("no functions: no stage was on a CPU at a sample"));
    refused.chain(nothing).chain(code.gaps.iter().map(|gap| format!("profile: {gap}"))).collect()
}

/// The name of what was sampled.
pub fn subject(run: &Run, hot: &HotStage) -> String {
    const COLUMNS: usize = 40;
    match hot.stage.and_then(|at| Some((at, run.stages.get(at)?))) {
        Some((at, stage)) => format!("{} {}", at + 1, cut(&stage.label, COLUMNS)),
        None if run.watched.is_some() => String::from("all that was watched"),
        None => String::from("all that the script started"),
    }
}

/// The name of a function, or what stands for it.
pub fn name(function: &HotFunction) -> &str {
    function.name.as_deref().unwrap_or("(no symbol)")
}

fn table(run: &Run, code: &HotCode, hot: &HotStage, width: usize) -> Hot {
    let few = if hot.samples < FEW { ", which is few" } else { "" };
    let heading = format!(
        "where in {}: n = {} on a CPU ({} for each second of CPU time){few}",
        subject(run, hot),
        things(hot.samples, "sample"),
        code.samples_per_s
    );
    let shown = |function: &&HotFunction| hot.share(function) >= LITTLE;
    let rows: Vec<&HotFunction> = hot.functions.iter().filter(shown).take(ROWS).collect();
    let column = |title, words, of: &dyn Fn(&HotFunction) -> String| Column {
        title,
        words,
        cells: rows.iter().map(|function| of(function)).collect(),
    };
    let named =
        |function: &&HotFunction| Name { name: name(function).to_owned(), ..Name::default() };
    let mut grid = Grid {
        title: "  function",
        names: rows.iter().map(named).collect(),
        columns: vec![
            column("share", false, &|function| percent(Some(hot.share(function)))),
            column("samples", false, &|function| count(function.samples)),
            column("in", true, &|function| cut(&function.place, PLACE_COLUMNS)),
        ],
    };
    grid.fit(width, &["samples", "in"]);
    let mut notes = Vec::new();
    let left_out = hot.functions.len() - rows.len();
    if left_out > 0 {
        let samples: u64 = rows.iter().map(|function| function.samples).sum();
        let share = (hot.samples - samples.min(hot.samples)) as f64 / hot.samples.max(1) as f64;
        let functions = things(left_out as u64, "function");
        notes.push(format!("{functions} more had {} of the samples", percent(Some(share))));
    }
    if hot.unnamed as f64 >= MANY_UNNAMED * hot.samples as f64 {
        notes.push(String::from(
            "code without symbols: its names come with the debug symbols of the program, or with a \
             list in /tmp/perf-PID.map (node --perf-basic-prof, python3 -X perf)",
        ));
    }
    Hot { heading, table: grid.lines(grid.name_columns(width), width), notes }
}

/// Returns the functions for programs.
pub fn json(code: &HotCode) -> Value {
    json!({
        "samples_per_cpu_s": code.samples_per_s,
        "kernel": code.kernel,
        "refused": code.refused,
        "lost_records": code.lost,
        "gaps": code.gaps,
        "stages": code.stages.iter().map(stage_json).collect::<Vec<_>>(),
    })
}

/// Returns those of one stage, or of one process in a chain of waits.
pub fn stage_json(hot: &HotStage) -> Value {
    let function = |function: &HotFunction| {
        json!({
            "name": function.name,
            "in": function.place,
            "kernel": function.kernel,
            "samples": function.samples,
            "share": hot.share(function),
        })
    };
    json!({
        "stage": hot.stage.map(|at| at + 1),
        "samples": hot.samples,
        "unnamed_samples": hot.unnamed,
        "functions": hot.functions.iter().take(JSON_ROWS).map(function).collect::<Vec<_>>(),
    })
}
