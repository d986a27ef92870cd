//! Outcomes of experiments as one HTML page, drawn as the page of `weir bench` is.

use std::fmt::Write;
use weir_charts::DrawError;
use weir_charts::ratios;
use weir_command::fault::Fault;
use weir_command::html::Column::{Figures, Words};
use weir_command::html::{self, Table, document, escape, section};
use weir_model::catalogue::Experiment;
use weir_model::outcome::{Cell, Outcome, Scoring, figure};

/// Writes the page.
pub(super) fn html(found: &[(&Experiment, Result<Outcome, String>)]) -> Result<String, Fault> {
    let cannot = |error: DrawError| Fault::failed(format!("cannot draw the page: {error}"));
    let mut body = String::from(
        "<header>\n<h1>weir model</h1>\n<p class=\"lead\">Published experiments, repeated in virtual \
         time. A dot is what the model gives, divided by what was published: at 1 the two agree, and \
         inside the shaded band they differ by a fifth or less.</p>\n</header>\n",
    );
    for (experiment, outcome) in found {
        let inside = match outcome {
            Ok(outcome) => drawn(outcome).map_err(cannot)?,
            Err(why) => format!("<p>not run: {}</p>\n", escape(why)),
        };
        body += &section(experiment.name, &escape(experiment.about), inside);
    }
    Ok(document("weir model", "", &body))
}

fn drawn(outcome: &Outcome) -> Result<String, DrawError> {
    let mut html = format!("<p>{}</p>\n", escape(&outcome.score()));
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
    html += &ratios::beside(&ratios, 0.2)?;
    html += &table(outcome);
    for note in &outcome.notes {
        let _ = writeln!(html, "<p class=\"why\">{}</p>", escape(note));
    }
    Ok(html)
}

fn table(outcome: &Outcome) -> String {
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
    format!(
        "<details>\n<summary>All figures ({}, in {})</summary>\n{}</details>\n",
        escape(&outcome.machine),
        escape(&outcome.unit),
        table.finish()
    )
}
