//! Processes beside a case. They are stopped except while one of its batches runs, so that they do
//! not load the other cases of the group.

use crate::engine::case::CaseError;
use weir_measure::sys::fork::{self, Child};
use weir_measure::sys::signals;

const STOP: i32 = 19; // SIGSTOP
const CONTINUE: i32 = 18; // SIGCONT

pub struct Background {
    children: Vec<Child>,
}

/// Starts a child that calls `go` once and then `step` until that fails.
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

/// While this value lives, the processes run.
pub struct RunningGuard<'a>(&'a Background);

impl Background {
    /// Takes over the processes and stops them.
    pub fn new(children: Vec<Child>) -> Result<Background, CaseError> {
        let background = Background { children };
        background.signal(STOP)?;
        Ok(background)
    }

    /// Lets them run until the returned value is dropped. Fails if one has ended: what it was to do
    /// is missing then.
    pub fn run(&self) -> Result<RunningGuard<'_>, CaseError> {
        if self.children.iter().any(Child::has_ended) {
            return Err(CaseError::failed("a process beside the case has ended"));
        }
        self.signal(CONTINUE)?;
        Ok(RunningGuard(self))
    }

    fn signal(&self, signal: i32) -> Result<(), CaseError> {
        for child in &self.children {
            signals::send(child.pid(), signal)?;
        }
        Ok(())
    }
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        let _ = self.0.signal(STOP);
    }
}
