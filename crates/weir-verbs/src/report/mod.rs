//! What is said of a run: to people (`text`) and to programs (`json`).

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
pub use compared::Compared;
pub use json::{json, json_line};
pub use layout::cut;
pub use look::{Detail, Look};
pub use page::html;
pub use several::{Against, ComparedPipeline, Several, json as several_json, text as several_text};
pub use text::text;
pub use words::{
    advice as advice_text, groups as groups_text, inside as inside_text, verdict as verdict_text,
};

use weir_doctor::advice::Advice;
use weir_doctor::facts::Run;
use weir_doctor::verdict::Verdict;

/// What policy found, and the sentences for it.
#[derive(Clone, Debug)]
pub struct Said<T> {
    /// What was found.
    pub found: T,
    /// The same in words.
    pub text: String,
}

/// All that a report is made from.
#[derive(Debug)]
pub struct Report {
    /// What was measured.
    pub run: Run,
    /// The command as typed.
    pub command: String,
    /// What held it up.
    pub verdict: Said<Verdict>,
    /// What would make it faster.
    pub advice: Vec<Said<Advice>>,
    /// The exit status, as a shell tells it.
    pub status: i32,
    /// What running it again and again under plain settings and under the advice gave.
    pub compared: Option<Compared>,
}

#[cfg(test)]
mod tests;
