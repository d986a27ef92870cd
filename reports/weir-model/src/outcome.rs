//! What an experiment comes to: published figures, the model's, and how far apart they are.

use std::fmt::Write;

/// What a modelled figure rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// A constant of the machine is the published figure, or was derived from it: it cannot be wrong.
    Identity,
    /// Constants of the machine were fitted to the table that the figure is in.
    #[default]
    Fitted,
    /// No constant was derived from the table that the figure is in.
    Predicted,
}

impl Basis {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Identity => "identity",
            Basis::Fitted => "fitted",
            Basis::Predicted => "predicted",
        }
    }
}

/// One figure of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The row.
    pub row: String,
    /// The column.
    pub column: String,
    /// What was published, if it was.
    pub published: Option<f64>,
    /// What the model says.
    pub model: f64,
    /// What that rests on.
    pub basis: Basis,
}

impl Cell {
    /// Makes a cell, whose figure rests on fitted constants.
    pub fn new(
        row: impl Into<String>,
        column: impl Into<String>,
        published: Option<f64>,
        model: f64,
    ) -> Cell {
        Cell { row: row.into(), column: column.into(), published, model, basis: Basis::Fitted }
    }

    /// Says what the figure rests on.
    #[must_use]
    pub fn on(self, basis: Basis) -> Cell {
        Cell { basis, ..self }
    }

    /// Returns how far the model is off, as a part of the published figure.
    pub fn error(&self) -> Option<f64> {
        self.published.filter(|told| *told != 0.0).map(|told| self.model / told - 1.0)
    }
}

/// How errors are summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scoring {
    /// As parts of the published figures.
    #[default]
    Relative,
    /// By sign and rank: the figures are improvements in percent.
    SignAndRank,
}

/// The outcome of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The name of the experiment.
    pub experiment: String,
    /// The machine.
    pub machine: String,
    /// What the figures are.
    pub unit: String,
    /// The figures.
    pub cells: Vec<Cell>,
    /// What to know about them.
    pub notes: Vec<String>,
    /// How errors are summed up.
    pub scoring: Scoring,
    /// Events that were simulated.
    pub events: u64,
}

impl Outcome {
    /// Makes an empty outcome.
    pub fn new(experiment: &str, machine: &str, unit: &str) -> Outcome {
        Outcome {
            experiment: experiment.to_owned(),
            machine: machine.to_owned(),
            unit: unit.to_owned(),
            cells: Vec::new(),
            notes: Vec::new(),
            scoring: Scoring::Relative,
            events: 0,
        }
    }

    /// Returns the sizes of the errors of figures that rest on this, the least first.
    pub fn errors(&self, basis: Basis) -> Vec<f64> {
        let cells = self.cells.iter().filter(|cell| cell.basis == basis);
        let mut errors: Vec<f64> = cells.filter_map(Cell::error).map(f64::abs).collect();
        errors.sort_by(f64::total_cmp);
        errors
    }

    /// Returns how many published figures are identities. These have no part in a score.
    pub fn identities(&self) -> usize {
        let is = |cell: &&Cell| cell.basis == Basis::Identity && cell.published.is_some();
        self.cells.iter().filter(is).count()
    }

    /// Returns the published and modelled figures beside each other, row by row.
    pub fn text(&self) -> String {
        let mut text = format!("{} on {} ({})\n", self.experiment, self.machine, self.unit);
        let width = self.cells.iter().map(|cell| cell.row.len()).max().unwrap_or(0).max(4);
        let column = self.cells.iter().map(|cell| cell.column.len()).max().unwrap_or(0).max(6);
        let _ = writeln!(
            text,
            "{:<width$}  {:<column$}  {:>10}  {:>10}  {:>7}  basis",
            "row", "column", "published", "model", "error"
        );
        for cell in &self.cells {
            let published = cell.published.map_or_else(|| String::from("-"), figure);
            let error =
                cell.error().map_or_else(String::new, |error| format!("{:+.1}%", error * 100.0));
            let basis = cell.published.map_or("", |_| cell.basis.name());
            let line = format!(
                "{:<width$}  {:<column$}  {published:>10}  {:>10}  {error:>7}  {basis}",
                cell.row,
                cell.column,
                figure(cell.model)
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let _ = writeln!(text, "{}", self.score());
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }

    /// Returns the score in one line.
    pub fn score(&self) -> String {
        if self.cells.iter().all(|cell| cell.published.is_none()) {
            return String::from("score: nothing published");
        }
        if self.scoring == Scoring::SignAndRank {
            return self.sign_and_rank();
        }
        let mut parts: Vec<String> = [Basis::Fitted, Basis::Predicted]
            .into_iter()
            .filter_map(|basis| {
                let errors = self.errors(basis);
                let beyond = errors.iter().filter(|error| **error > 0.2).count();
                Some(format!(
                    "{}: median error {:.1}%, worst {:.1}%, {beyond} of {} figures beyond 20%",
                    basis.name(),
                    median(&errors)? * 100.0,
                    errors.last()? * 100.0,
                    errors.len()
                ))
            })
            .collect();
        match self.identities() {
            0 => {}
            1 => parts.push(String::from("1 identity")),
            count => parts.push(format!("{count} identities")),
        }
        format!("score: {}", parts.join("; "))
    }

    /// Returns how many of the figures beyond 5 % have the right sign, and how many there are.
    pub fn signs(&self) -> (usize, usize) {
        let pairs = self.cells.iter().filter_map(|cell| Some((cell.published?, cell.model)));
        let clear: Vec<(f64, f64)> = pairs.filter(|(told, _)| told.abs() > 5.0).collect();
        let right = clear.iter().filter(|(told, model)| told.signum() == model.signum()).count();
        (right, clear.len())
    }

    /// Returns the rank correlation of each benchmark: the first word of a row names it.
    pub fn ranks(&self) -> Vec<(String, f64)> {
        let group = |cell: &Cell| cell.row.split(' ').next().unwrap_or("").to_owned();
        let mut ranks: Vec<(String, f64)> = Vec::new();
        for cell in &self.cells {
            let name = group(cell);
            if ranks.iter().all(|(known, _)| *known != name) {
                let cells = self.cells.iter().filter(|cell| group(cell) == name);
                let pairs: Vec<(f64, f64)> =
                    cells.filter_map(|cell| Some((cell.published?, cell.model))).collect();
                ranks.push((name, rank_correlation(&pairs)));
            }
        }
        ranks
    }

    fn sign_and_rank(&self) -> String {
        let (right, clear) = self.signs();
        let ranks: Vec<String> =
            self.ranks().iter().map(|(name, rank)| format!("{name} {rank:.2}")).collect();
        let percent = 100.0 * right as f64 / clear.max(1) as f64;
        format!(
            "score: fitted: right sign on {right} of {clear} figures beyond 5% ({percent:.0}%); rank correlation {}",
            ranks.join(", ")
        )
    }
}

/// Returns the median of errors that are in order, if there are any.
pub fn median(errors: &[f64]) -> Option<f64> {
    let half = errors.len() / 2;
    match errors.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(errors[half]),
        _ => Some(f64::midpoint(errors[half - 1], errors[half])),
    }
}

/// Writes a figure with as many digits as say something.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns the ranks of some figures; equal ones share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let mut next = first;
        while next < order.len() && values[order[next]] == values[order[first]] {
            next += 1;
        }
        for &index in &order[first..next] {
            ranks[index] = (first + next - 1) as f64 / 2.0;
        }
        first = next;
    }
    ranks
}

/// Returns Spearman's rank correlation.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let (left, right): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (left, right) = (ranks(&left), ranks(&right));
    let count = pairs.len() as f64;
    let mean = (count - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let spread = (product(&left, &left) * product(&right, &right)).sqrt();
    if spread == 0.0 { 0.0 } else { product(&left, &right) / spread }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_equal_figures_are_shared() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0]), [1.5, 0.0, 1.5]);
        assert!((rank_correlation(&[(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]) - 1.0).abs() < 1e-12);
        assert!((rank_correlation(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]) + 1.0).abs() < 1e-12);
        assert_eq!(rank_correlation(&[(1.0, 1.0)]), 0.0);
    }

    #[test]
    fn an_even_number_of_errors_has_a_median_between_two() {
        let mut outcome = Outcome::new("x", "y", "s");
        for model in [1.1, 1.3] {
            outcome.cells.push(Cell::new("row", "column", Some(1.0), model));
        }
        let errors = outcome.errors(Basis::Fitted);
        assert!((median(&errors).unwrap_or(0.0) - 0.2).abs() < 1e-9);
        assert!(outcome.text().contains("+30.0%"), "{}", outcome.text());
    }

    /// Figures that a constant was taken from had errors of 0.0 %, and made the median of tables good.
    #[test]
    fn identities_have_no_part_in_a_score() {
        let mut outcome = Outcome::new("x", "y", "s");
        let cell = |model| Cell::new("row", "column", Some(1.0), model);
        outcome.cells = vec![cell(1.0).on(Basis::Identity), cell(1.0).on(Basis::Identity)];
        assert_eq!(outcome.score(), "score: 2 identities");
        outcome.cells.extend([cell(1.5).on(Basis::Predicted), cell(1.1)]);
        assert_eq!(
            outcome.score(),
            "score: fitted: median error 10.0%, worst 10.0%, 0 of 1 figures beyond 20%; \
             predicted: median error 50.0%, worst 50.0%, 1 of 1 figures beyond 20%; 2 identities"
        );
    }
}
