//! The report on a run: for people (`text`) and for programs (`json`).

mod chrome;
mod compared;
mod fine;
mod groups;
pub mod hot;
mod json;
pub mod layout;
pub mod look;
mod page;
mod rows;
mod several;
mod tables;
mod text;
mod words;

pub use chrome::chrome_trace;
pub use compared::{Compared, difference};
pub use json::{json, json_line};
pub use look::{Detail, Look};
pub use page::{Place, html};
pub use several::{
    Against, ComparedPipeline, Gate, Several, json as several_json, text as several_text,
};
pub use text::{failures, text};
pub use words::outside;
pub use words::{
    advice as advice_text, groups as groups_text, inside as inside_text, verdict as verdict_text,
};

use weir_doctor::advice::Advice;
use weir_doctor::facts::Run;
use weir_doctor::verdict::Verdict;

/// A finding of `weir-doctor`, and its sentence.
#[derive(Clone, Debug)]
pub struct Said<T> {
    /// The finding.
    pub found: T,
    /// The finding in words.
    pub text: String,
}

/// Everything that a report is made from.
#[derive(Debug)]
pub struct Report {
    /// The measurements.
    pub run: Run,
    /// The command as typed.
    pub command: String,
    /// The verdict: what held the run up.
    pub verdict: Said<Verdict>,
    /// The advice: what would make the run faster.
    pub advice: Vec<Said<Advice>>,
    /// The exit status that a shell would have.
    pub status: i32,
    /// The result of running it repeatedly under plain settings and under the advice, if that was asked for.
    pub compared: Option<Compared>,
}

#[cfg(test)]
mod tests;
