//! What comparing a pipeline with itself under the advice gave.

use serde::Serialize;
use weir_doctor::advice::Advice;

/// What the rounds gave.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// What plain means.
    pub plain: String,
    /// What was changed for the advised runs.
    pub advised: Vec<String>,
    /// Advice that cannot be tried without changing the pipeline itself.
    pub not_tried: Vec<String>,
    /// Rounds that were run to their end.
    pub rounds: usize,
    /// Wall times of the plain runs, one a round.
    pub plain_s: Vec<f64>,
    /// Of the advised runs.
    pub advised_s: Vec<f64>,
    /// Of the second plain runs.
    pub twin_s: Vec<f64>,
    /// Estimate of advised / plain, its 95 % interval and p value.
    pub ratio: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// p value of "both the same".
    pub p: f64,
    /// "faster", "slower", "equivalent" or "inconclusive": of the advised runs.
    pub verdict: String,
    /// What plain against plain gave.
    pub resolves_percent: f64,
    /// Whether all runs wrote the same bytes.
    pub same_output: bool,
    /// The advice that was followed in the advised runs.
    #[serde(skip)]
    pub tried: Vec<Advice>,
    /// All of that in sentences.
    pub sentences: Vec<String>,
}
