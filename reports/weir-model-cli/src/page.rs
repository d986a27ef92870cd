//! Outcomes of experiments as one HTML page, drawn as the page of `weir bench` is.

use maud::{Markup, html};
use weir_charts::DrawError;
use weir_charts::ratios;
use weir_command::fault::Fault;
use weir_command::html::Column::{Figures, Words};
use weir_command::html::{self, Table, document, folded, section};
use weir_model::catalogue::Experiment;
use weir_model::outcome::{Cell, Outcome, Scoring, figure};

/// Writes the page.
pub(super) fn html(found: &[(&Experiment, Result<Outcome, String>)]) -> Result<String, Fault> {
    let cannot = |error: DrawError| Fault::failed(format!("cannot draw the page: {error}"));
    let mut sections = Vec::new();
    for (experiment, outcome) in found {
        let inside = match outcome {
            Ok(outcome) => drawn(outcome).map_err(cannot)?,
            Err(why) => html! { p { "not run: " (why) } },
        };
        sections.push(section(experiment.name, experiment.about, inside));
    }
    let body = html! {
        header {
            h1 { "weir model" }
            p.lead {
                "Published experiments, repeated in virtual time. A dot is what the model gives, divided \
                 by what was published: at 1 the two agree, and inside the shaded band they differ by a \
                 fifth or less."
            }
        }
        @for section in sections { (section) }
    };
    Ok(document("weir model", "", &body))
}

fn drawn(outcome: &Outcome) -> Result<Markup, DrawError> {
    let ratio = |cell: &Cell| {
        let published = cell.published?;
        let name = format!("{}, {}", cell.row, cell.column);
        Some(match outcome.scoring {
            Scoring::Relative => (name, cell.model / published),
            // Improvements in percent: the rates that they stand for.
            Scoring::SignAndRank => (name, (100.0 + cell.model) / (100.0 + published)),
        })
    };
    let ratios: Vec<(String, f64)> = outcome.cells.iter().filter_map(ratio).collect();
    let ratios = ratios::beside(&ratios, 0.2)?;
    Ok(html! {
        p { (outcome.score()) }
        (ratios)
        (table(outcome))
        @for note in &outcome.notes { p.why { (note) } }
    })
}

fn table(outcome: &Outcome) -> Markup {
    let mut table = Table::new(&[
        Words("row"),
        Words("column"),
        Figures("published"),
        Figures("model"),
        Figures("error"),
        Words("basis"),
    ]);
    for cell in &outcome.cells {
        let published = cell.published.map_or_else(|| String::from("-"), figure);
        let error =
            cell.error().map_or_else(String::new, |error| format!("{:+.1} %", error * 100.0));
        let basis = cell.published.map_or("", |_| cell.basis.name());
        let model = figure(cell.model);
        let cells = [&cell.row, &cell.column, &published, &model, &error, basis];
        table.row(cells.map(html::Cell::text));
    }
    let summary = format!("All figures ({}, in {})", outcome.machine, outcome.unit);
    folded(&summary, table.finish())
}
