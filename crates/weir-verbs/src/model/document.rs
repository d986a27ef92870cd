//! Outcomes of experiments as JSON, schema `weir.model/1`.

use serde::Serialize;
use weir_model::catalogue::Experiment;
use weir_model::outcome::{Cell, Outcome, Scoring};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    experiments: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    experiment: &'a str,
    about: &'a str,
    machine: Option<&'a str>,
    unit: Option<&'a str>,
    failure: Option<&'a str>,
    score: Option<Score>,
    figures: Vec<Figure<'a>>,
    notes: &'a [String],
    events: Option<u64>,
}

#[derive(Serialize)]
struct Score {
    text: String,
    published: usize,
    median_error_share: Option<f64>,
    worst_error_share: Option<f64>,
    beyond_20_percent: Option<usize>,
    right_signs: Option<usize>,
    clear_signs: Option<usize>,
    ranks: Vec<Rank>,
}

#[derive(Serialize)]
struct Rank {
    group: String,
    correlation: f64,
}

#[derive(Serialize)]
struct Figure<'a> {
    row: &'a str,
    column: &'a str,
    published: Option<f64>,
    model: f64,
    error_share: Option<f64>,
}

fn figure(cell: &Cell) -> Figure<'_> {
    Figure {
        row: &cell.row,
        column: &cell.column,
        published: cell.published,
        model: cell.model,
        error_share: cell.error(),
    }
}

fn score(outcome: &Outcome) -> Score {
    let errors = outcome.errors();
    let relative = outcome.scoring == Scoring::Relative && !errors.is_empty();
    let signs = (outcome.scoring == Scoring::SignAndRank).then(|| outcome.signs());
    let ranks = if signs.is_some() { outcome.ranks() } else { Vec::new() };
    let beyond = errors.iter().filter(|error| **error > 0.2).count();
    Score {
        text: outcome.score(),
        published: outcome.cells.iter().filter(|cell| cell.published.is_some()).count(),
        median_error_share: outcome.median().filter(|_| relative),
        worst_error_share: errors.last().copied().filter(|_| relative),
        beyond_20_percent: relative.then_some(beyond),
        right_signs: signs.map(|(right, _)| right),
        clear_signs: signs.map(|(_, clear)| clear),
        ranks: ranks.into_iter().map(|(group, correlation)| Rank { group, correlation }).collect(),
    }
}

/// Returns the document of experiments.
pub(super) fn of<'a>(found: &'a [(&'a Experiment, Result<Outcome, String>)]) -> Document<'a> {
    let entry = |(experiment, outcome): &'a (&Experiment, Result<Outcome, String>)| {
        let found = outcome.as_ref().ok();
        Entry {
            experiment: experiment.name,
            about: experiment.about,
            machine: found.map(|outcome| outcome.machine.as_str()),
            unit: found.map(|outcome| outcome.unit.as_str()),
            failure: outcome.as_ref().err().map(String::as_str),
            score: found.map(score),
            figures: found.map_or_else(Vec::new, |of| of.cells.iter().map(figure).collect()),
            notes: found.map_or(&[], |outcome| outcome.notes.as_slice()),
            events: found.map(|outcome| outcome.events),
        }
    };
    Document { experiments: found.iter().map(entry).collect() }
}
