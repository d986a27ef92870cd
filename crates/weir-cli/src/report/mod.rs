//! The report on a run: for people (`text`, `markdown`, `page`) and for programs (`json`).

mod annotations;
mod chrome;
mod compared;
mod fine;
mod groups;
pub mod hot;
mod json;
pub mod layout;
mod markdown;
mod metrics;
mod otlp;
mod page;
mod rows;
mod several;
pub mod style;
mod tables;
mod text;
mod words;

pub use annotations::annotations;
pub use chrome::chrome_trace;
pub use compared::{Compared, difference};
pub use json::{json, json_line};
pub use markdown::{markdown, markdown_failures};
pub use metrics::Totals;
pub use otlp::{Trace, otlp};
pub use page::{Place, html, verb};
pub use several::{
    Against, ComparedPipeline, Gate, Several, json as several_json, text as several_text,
};
pub use style::{Detail, ReportStyle};
pub use text::{failures, text};
pub use words::outside;

use weir_doctor::advice::Advised;
use weir_doctor::diagnosis::Diagnosis;
use weir_doctor::facts::Run;
use weir_doctor::stall::Stall;

/// Everything that a report is made from.
#[derive(Debug)]
pub struct Report {
    /// The measurements.
    pub run: Run,
    /// The command as typed.
    pub command: String,
    /// What was found about the run.
    pub found: Diagnosis,
    /// What held the run up, in words.
    pub verdict: String,
    /// The advice that was found, in words.
    pub advice: Vec<String>,
    /// The longest time in which nothing moved, if it is known why.
    pub stall: Option<Stood>,
    /// The exit status that a shell would have.
    pub status: i32,
    /// The result of running it repeatedly under plain settings and under the advice, if that was asked for.
    pub compared: Option<Compared>,
}

/// A time in which nothing moved, with what `weir why` says of it.
#[derive(Debug)]
pub struct Stood {
    /// The time.
    pub stall: Stall,
    /// The sentence.
    pub answer: String,
}

impl Report {
    /// Puts what was found about a run into words.
    pub fn new(
        run: Run,
        command: &str,
        found: Diagnosis,
        status: i32,
        stall: Option<Stood>,
    ) -> Report {
        let advice = |advised| words::advice(&run, advised);
        Report {
            verdict: words::held_up(&run, &found, stall.as_ref()),
            advice: found.advice.iter().map(advice).collect(),
            command: command.to_owned(),
            found,
            stall,
            status,
            compared: None,
            run,
        }
    }

    /// Iterates over the advice, each with its words.
    pub fn advised(&self) -> impl Iterator<Item = (&Advised, &str)> {
        self.found.advice.iter().zip(self.advice.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests;
