//! The look of a report: its width, how much it says, and whether it has colours.

use crate::terminal::{asked_columns, wants_colour, width};
use std::io::IsTerminal;

/// The width of a report that goes to a file or a pipe.
const FILE_COLUMNS: usize = 100;
/// The smallest width. No table is readable in fewer columns.
const COLUMNS_MIN: usize = 20;

/// How much a report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The first line, the verdict, what failed, and advice.
    Brief,
    /// The tables too.
    Usual,
    /// The tables, and how each figure is known.
    Verbose,
}

/// The look of a report.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The width in columns.
    pub columns: usize,
    /// Whether sentences are broken to fit. In a file each stays on one line, for `grep`.
    pub wraps: bool,
    /// Whether to use colours.
    pub colour: bool,
    /// How much the report says.
    pub detail: Detail,
}

impl Look {
    /// Returns the look of a report on standard error.
    pub fn of_stderr(detail: Detail) -> Look {
        let terminal = std::io::stderr().is_terminal();
        Look { colour: wants_colour(terminal), ..Look::of(terminal, detail) }
    }

    /// Returns the look of a report in a file.
    pub fn of_file(detail: Detail) -> Look {
        Look::of(false, detail)
    }

    /// The width that a terminal reports counts first. COLUMNS counts elsewhere.
    fn of(terminal: bool, detail: Detail) -> Look {
        let known = if terminal { Some(stderr_columns()) } else { asked_columns() };
        let columns = known.unwrap_or(FILE_COLUMNS).max(COLUMNS_MIN);
        Look { columns, wraps: known.is_some(), colour: false, detail }
    }
}

/// Returns the width of the terminal at standard error.
pub fn stderr_columns() -> usize {
    width(std::io::stderr()).max(COLUMNS_MIN)
}
