//! The look of a report: its width, how much it says, and whether it has colours.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use weir_command::terminal::{asked_columns, wants_colour, width};

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

impl Detail {
    /// Returns the detail that was asked for.
    pub fn of(brief: bool, verbose: bool) -> Detail {
        match (brief, verbose) {
            (true, _) => Detail::Brief,
            (_, true) => Detail::Verbose,
            _ => Detail::Usual,
        }
    }
}

/// The look of a report.
#[derive(Clone, Copy, Debug)]
pub struct ReportStyle {
    /// The width in columns.
    pub columns: usize,
    /// Whether sentences are broken to fit. In a file each stays on one line, for `grep`.
    pub wraps: bool,
    /// Whether to use colours.
    pub colour: bool,
    /// How much the report says.
    pub detail: Detail,
    /// Whether a brief report has the hot functions too.
    pub hot: bool,
}

impl ReportStyle {
    /// Returns the look of a report on standard error.
    pub fn of_stderr(detail: Detail) -> ReportStyle {
        let output = std::io::stderr();
        ReportStyle {
            colour: wants_colour(output.is_terminal()),
            ..ReportStyle::of(output, detail)
        }
    }

    /// Returns the look of a report on standard output, which has no colours.
    pub fn of_stdout(detail: Detail) -> ReportStyle {
        ReportStyle::of(std::io::stdout(), detail)
    }

    /// Returns the look of a report in a file.
    pub fn of_file(detail: Detail) -> ReportStyle {
        ReportStyle::known(asked_columns(), detail)
    }

    /// The width that a terminal reports counts first. COLUMNS counts elsewhere.
    fn of(output: impl AsFd + IsTerminal, detail: Detail) -> ReportStyle {
        match output.is_terminal() {
            true => ReportStyle::known(Some(width(output)), detail),
            false => ReportStyle::of_file(detail),
        }
    }

    fn known(known: Option<usize>, detail: Detail) -> ReportStyle {
        let columns = known.unwrap_or(FILE_COLUMNS).max(COLUMNS_MIN);
        ReportStyle { columns, wraps: known.is_some(), colour: false, detail, hot: false }
    }
}

/// Returns the width of the terminal at standard error.
pub fn stderr_columns() -> usize {
    width(std::io::stderr()).max(COLUMNS_MIN)
}
