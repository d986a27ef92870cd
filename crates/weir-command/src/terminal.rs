//! What a terminal and the environment say of the size of the output, and of what may be drawn.

use std::os::fd::AsFd;

/// The size of a terminal that does not report one.
const USUAL: (usize, usize) = (80, 24);

/// The number of columns of a terminal, if it reports one.
pub fn columns(terminal: impl AsFd) -> Option<usize> {
    reported(terminal).0
}

/// The number of columns of a terminal, or the usual one.
pub fn width(terminal: impl AsFd) -> usize {
    size(terminal).0
}

/// The number of rows of a terminal, if it reports one.
pub fn rows(terminal: impl AsFd) -> Option<usize> {
    reported(terminal).1
}

/// The columns and rows of a terminal, or the usual ones.
pub fn size(terminal: impl AsFd) -> (usize, usize) {
    let (columns, rows) = reported(terminal);
    (columns.unwrap_or(USUAL.0), rows.unwrap_or(USUAL.1))
}

fn reported(terminal: impl AsFd) -> (Option<usize>, Option<usize>) {
    let Ok(size) = rustix::termios::tcgetwinsize(terminal) else { return (None, None) };
    let some = |count: u16| (count > 0).then_some(usize::from(count));
    (some(size.ws_col), some(size.ws_row))
}

/// The width that `COLUMNS` asks for, of what goes to no terminal; a terminal has no more either.
pub fn asked_columns() -> Option<usize> {
    const MOST: usize = u16::MAX as usize;
    let asked = std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    asked.map(|columns: usize| columns.min(MOST))
}

/// Whether `TERM` says that lines can only be added, and not drawn anew.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Whether `TERM` names a terminal on which a whole screen can be drawn.
pub fn has_screen() -> bool {
    !is_dumb() && is_set("TERM")
}

/// Returns whether to use colours. A terminal gets them; `NO_COLOR` and `CLICOLOR_FORCE` override
/// that (no-color.org, bixense.com/clicolors).
pub fn wants_colour(is_terminal: bool) -> bool {
    if is_set("NO_COLOR") {
        return false;
    }
    let is_forced =
        std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| value != "0" && !value.is_empty());
    is_forced || (is_terminal && !is_dumb())
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
