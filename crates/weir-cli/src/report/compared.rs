//! The result of comparing a pipeline as it is with the same pipeline under the advice.

use serde::Serialize;
use weir_doctor::advice::Advice;

/// The result of all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The settings of the plain runs, in words.
    pub plain: String,
    /// What was changed for the advised runs.
    pub advised: Vec<String>,
    /// Advice that cannot be tried without changing the pipeline itself.
    pub not_tried: Vec<String>,
    /// Rounds that were run to their end.
    pub rounds: usize,
    /// Wall times of the plain runs, one a round.
    pub plain_s: Vec<f64>,
    /// Wall times of the advised runs.
    pub advised_s: Vec<f64>,
    /// Wall times of the second plain runs.
    pub twin_s: Vec<f64>,
    /// The estimate of advised / plain.
    pub ratio: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end of its 95 % interval.
    pub high: f64,
    /// The p value of "both take the same time".
    pub p: f64,
    /// The verdict on the advised runs: "faster", "slower", "equivalent" or "inconclusive".
    pub verdict: String,
    /// The smallest difference that this host resolves, from plain runs compared with plain runs.
    pub resolves_percent: f64,
    /// Whether all runs wrote the same bytes.
    pub same_output: bool,
    /// The advice that was followed in the advised runs.
    #[serde(skip)]
    pub tried: Vec<Advice>,
    /// Returns the result in sentences.
    pub sentences: Vec<String>,
}
