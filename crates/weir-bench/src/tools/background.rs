//! Processes beside a case, stopped but while one of its batches runs: the other cases of the group
//! are not to be loaded.

use weir_measure::bench::case::CaseError;
use weir_measure_sys::fork::{self, Child};
use weir_measure_sys::signals;

const STOP: i32 = 19; // SIGSTOP
const CONTINUE: i32 = 18; // SIGCONT

/// The processes.
pub struct Background {
    children: Vec<Child>,
}

/// A child that goes where it belongs and then does `step` again and again, until that fails.
///
/// # Errors
/// No process.
pub fn endless(
    go: impl FnOnce() -> Result<(), CaseError>,
    mut step: impl FnMut() -> Result<(), CaseError>,
) -> Result<Child, CaseError> {
    Ok(fork::child(|| {
        if go().is_ok() {
            while step().is_ok() {}
        }
        1
    })?)
}

/// While this lives, they run.
pub struct Running<'a>(&'a Background);

impl Background {
    /// Stops them.
    ///
    /// # Errors
    /// One of them is gone.
    pub fn new(children: Vec<Child>) -> Result<Background, CaseError> {
        let background = Background { children };
        background.signal(STOP)?;
        Ok(background)
    }

    /// Lets them run, until what is returned is dropped.
    ///
    /// # Errors
    /// One of them is gone.
    pub fn run(&self) -> Result<Running<'_>, CaseError> {
        self.signal(CONTINUE)?;
        Ok(Running(self))
    }

    fn signal(&self, signal: i32) -> Result<(), CaseError> {
        for child in &self.children {
            signals::send(child.pid(), signal)?;
        }
        Ok(())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.0.signal(STOP);
    }
}
