//! A memory barrier on all CPUs that run a registered process
//! (`membarrier(2)`, `MEMBARRIER_CMD_GLOBAL_EXPEDITED`, Linux 4.16).

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
use std::sync::OnceLock;
use std::time::Duration;

/// Far longer than any CPU holds a store back.
const DRAINED: Duration = Duration::from_millis(1);

/// Whether this process may use the barrier.
pub fn is_available() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let both = MembarrierQuery::GLOBAL_EXPEDITED | MembarrierQuery::REGISTER_GLOBAL_EXPEDITED;
        // A filter may allow the query and forbid the call: try both.
        membarrier_query().contains(both) && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
    })
}

/// Registers this process, so that barriers of others reach it. False where the kernel refuses.
pub fn be_reached() -> bool {
    membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// Passes the barrier: afterwards, stores that registered processes made before it are visible.
pub fn pass() {
    if membarrier(MembarrierCommand::GlobalExpedited).is_err() {
        // No memory, or forbidden since. By then the stores are visible without a barrier.
        std::thread::sleep(DRAINED);
    }
}
