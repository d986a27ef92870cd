//! A memory barrier on all CPUs that run a process which asked to be reached
//! (`membarrier(2)`, `MEMBARRIER_CMD_GLOBAL_EXPEDITED`, Linux 4.16).

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
use std::sync::OnceLock;
use std::time::Duration;

/// A store is not held back longer than this on any CPU, by far.
const DRAINED: Duration = Duration::from_millis(1);

/// Whether the kernel has it, and lets this process use it.
pub fn is_available() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let both = MembarrierQuery::GLOBAL_EXPEDITED | MembarrierQuery::REGISTER_GLOBAL_EXPEDITED;
        // Tried too: a filter may forbid the call and not the question.
        membarrier_query().contains(both) && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
    })
}

/// Asks for this process to be reached from now on. False where it can't be.
pub fn be_reached() -> bool {
    membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// Passes the barrier: what a process that is reached stored before it is seen after it.
pub fn pass() {
    if membarrier(MembarrierCommand::GlobalExpedited).is_err() {
        // No memory for it, or forbidden since: what it would have forced happens by itself.
        std::thread::sleep(DRAINED);
    }
}
