//! How wide a terminal is.

use rustix::termios::tcgetwinsize;
use std::os::fd::AsFd;

/// Columns of a terminal, where it says.
pub fn columns(terminal: impl AsFd) -> Option<usize> {
    let columns = tcgetwinsize(terminal).ok()?.ws_col;
    (columns > 0).then_some(usize::from(columns))
}
