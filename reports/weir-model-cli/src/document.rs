//! Outcomes of experiments as JSON, schema `weir.model/1`.

use serde::Serialize;
use weir_model::catalogue::Experiment;
use weir_model::outcome::{Basis, Cell, Outcome, Scoring, median};

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
    identities: usize,
    fitted: Option<Errors>,
    predicted: Option<Errors>,
    right_signs: Option<usize>,
    clear_signs: Option<usize>,
    ranks: Vec<Rank>,
}

/// The errors of the figures that rest on the same.
#[derive(Serialize)]
struct Errors {
    figures: usize,
    median_error_share: f64,
    worst_error_share: f64,
    beyond_20_percent: usize,
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
    basis: &'static str,
}

fn figure(cell: &Cell) -> Figure<'_> {
    Figure {
        row: &cell.row,
        column: &cell.column,
        published: cell.published,
        model: cell.model,
        error_share: cell.error(),
        basis: cell.basis.name(),
    }
}

fn errors(outcome: &Outcome, basis: Basis) -> Option<Errors> {
    let errors = outcome.errors(basis);
    Some(Errors {
        figures: errors.len(),
        median_error_share: median(&errors)?,
        worst_error_share: *errors.last()?,
        beyond_20_percent: errors.iter().filter(|error| **error > 0.2).count(),
    })
}

fn score(outcome: &Outcome) -> Score {
    let relative = outcome.scoring == Scoring::Relative;
    let of = |basis| errors(outcome, basis).filter(|_| relative);
    let signs = (outcome.scoring == Scoring::SignAndRank).then(|| outcome.signs());
    let ranks = if signs.is_some() { outcome.ranks() } else { Vec::new() };
    Score {
        text: outcome.score(),
        published: outcome.cells.iter().filter(|cell| cell.published.is_some()).count(),
        identities: outcome.identities(),
        fitted: of(Basis::Fitted),
        predicted: of(Basis::Predicted),
        right_signs: signs.map(|(right, _)| right),
        clear_signs: signs.map(|(_, clear)| clear),
        ranks: ranks.into_iter().map(|(group, correlation)| Rank { group, correlation }).collect(),
    }
}

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
