//! How a report is to look: how wide, how much of it, with colours or without.

use crate::units::columns;
use std::io::IsTerminal;

/// Columns of a report that goes to a file or a pipe.
const FILE_COLUMNS: usize = 100;
/// Columns of a terminal that does not say how wide it is.
const TERMINAL_COLUMNS: usize = 80;
/// No table is readable in fewer columns.
const COLUMNS_MIN: usize = 20;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The first line, the verdict, what failed, and advice.
    Brief,
    /// The tables too.
    Usual,
    /// And how each figure is known.
    Verbose,
}

/// How a report is to look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns that it may take.
    pub columns: usize,
    /// Whether sentences are broken to fit as well. In a file each stays on one line, for `grep`.
    pub wraps: bool,
    /// Whether to use colours.
    pub colour: bool,
    /// How much is said.
    pub detail: Detail,
}

impl Look {
    /// For a report on standard error.
    pub fn of_stderr(detail: Detail) -> Look {
        let terminal = std::io::stderr().is_terminal();
        Look { colour: wants_colour(terminal), ..Look::of(terminal, detail) }
    }

    /// For a report in a file.
    pub fn of_file(detail: Detail) -> Look {
        Look::of(false, detail)
    }

    /// A terminal knows best how wide it is; elsewhere COLUMNS may say.
    fn of(terminal: bool, detail: Detail) -> Look {
        let asked = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|n| *n > 0);
        let known = if terminal { Some(stderr_columns()) } else { asked() };
        let columns = known.unwrap_or(FILE_COLUMNS).max(COLUMNS_MIN);
        Look { columns, wraps: known.is_some(), colour: false, detail }
    }
}

/// Columns of the terminal at standard error.
pub fn stderr_columns() -> usize {
    columns(std::io::stderr()).unwrap_or(TERMINAL_COLUMNS).max(COLUMNS_MIN)
}

/// Whether to use colours: the terminal decides, `NO_COLOR` and `CLICOLOR_FORCE` overrule it
/// (no-color.org, bixense.com/clicolors).
fn wants_colour(terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if set("NO_COLOR") {
        return false;
    }
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let forced =
        std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0" && !value.is_empty());
    forced || (terminal && !dumb)
}
