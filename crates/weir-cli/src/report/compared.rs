//! The result of comparing a pipeline as it is with the same pipeline under the advice.

use serde::Serialize;
use weir_doctor::advice::Advice;
use weir_measure::pairs::{Comparison, Verdict, digits};

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

/// Returns what two things that were compared differ by: `b is 1.8x (1.6 to 2.0) faster than a`.
pub fn difference(found: &Comparison, verdict: Verdict, a: &str, b: &str) -> String {
    let Comparison { ratio, low, high, .. } = *found;
    let by = |ratio: f64, low: f64, high: f64, least: usize| {
        let digits = digits(low, high, least);
        format!("{ratio:.digits$}x ({low:.digits$} to {high:.digits$})")
    };
    match verdict {
        Verdict::Faster => {
            format!("{b} is {} faster than {a}", by(1.0 / ratio, 1.0 / high, 1.0 / low, 1))
        }
        Verdict::Slower => format!("{a} is {} faster than {b}", by(ratio, low, high, 1)),
        Verdict::Equivalent => format!("{b} takes as long as {a}: {}", by(ratio, low, high, 2)),
        Verdict::Inconclusive => {
            let time = by(ratio, low, high, 2);
            format!("cannot tell whether {b} is faster than {a}: its time is {time}")
        }
    }
}
