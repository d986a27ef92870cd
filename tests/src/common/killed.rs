//! Processes that do not outlive their test.

use std::process::Child;

/// A child that is killed with the test.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
