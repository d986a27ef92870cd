//! What is said of a run: to people (`text`) and to programs (`json`).

mod json;
mod text;
pub mod units;

pub use json::json;
pub use text::text;

use crate::run::Compared;
use weir_measure::record::Run;
use weir_policy::advice::Advice;
use weir_policy::verdict::Verdict;

/// All that a report is made from.
#[derive(Debug)]
pub struct Report {
    /// What was measured.
    pub run: Run,
    /// The command as typed.
    pub command: String,
    /// What held it up.
    pub verdict: Verdict,
    /// What would make it faster.
    pub advice: Vec<Advice>,
    /// The exit status, as a shell tells it.
    pub status: i32,
    /// What running it again and again under plain settings and under the advice gave.
    pub compared: Option<Compared>,
}

/// Whether to use colours: the terminal decides, `NO_COLOR` and `CLICOLOR_FORCE` overrule it
/// (no-color.org, bixense.com/clicolors).
pub fn wants_colour(terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if set("NO_COLOR") {
        return false;
    }
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let forced =
        std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0" && !value.is_empty());
    forced || (terminal && !dumb)
}

#[cfg(test)]
mod tests;
