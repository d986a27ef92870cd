//! After which time a stall is told of.

use std::io::{self, IsTerminal};
use std::time::Duration;
use weir_command::units::parse::at_most_a_day;

/// When a stall is told of: somebody who looks at a terminal wants to know sooner.
const ON_TERMINAL: Duration = Duration::from_secs(10);
const ELSEWHERE: Duration = Duration::from_secs(30);

/// The time after which a stall is told of; `None`: never.
#[derive(Clone, Copy, Debug)]
pub struct StallAfter(pub Option<Duration>);

impl Default for StallAfter {
    fn default() -> StallAfter {
        StallAfter(Some(if io::stderr().is_terminal() { ON_TERMINAL } else { ELSEWHERE }))
    }
}

impl StallAfter {
    /// Parses a time; `0` and `never` stand for none.
    pub fn parse(text: &str) -> Result<StallAfter, String> {
        if text == "never" {
            return Ok(StallAfter(None));
        }
        let time = at_most_a_day(text).map_err(|why| format!("{why}, or never"))?;
        Ok(StallAfter(Some(time).filter(|time| *time > Duration::ZERO)))
    }
}
