//! A memory barrier on all CPUs that run a registered process
//! (`membarrier(2)`, `MEMBARRIER_CMD_GLOBAL_EXPEDITED`, Linux 4.16).

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir_sys::{forks, signals, threads};

/// Far longer than any CPU holds a store back.
const DRAINED: Duration = Duration::from_millis(1);

/// Whether this process may use the barrier.
pub fn is_available() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *forks::get_or_make(&KNOWN, || {
        let both = MembarrierQuery::GLOBAL_EXPEDITED | MembarrierQuery::REGISTER_GLOBAL_EXPEDITED;
        // A filter may allow the query and forbid the call: try both.
        membarrier_query().contains(both) && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
    })
}

/// Whether barriers of others reach this process, which [`reaches_here`] has asked for.
const ASKED: u64 = 1;
const REACHED: u64 = 2;
const REFUSED: u64 = 3;

/// One of these for a process, which its [epoch](forks::epoch) above the two lowest bits names.
static REACH: AtomicU64 = AtomicU64::new(0);

/// Whether barriers of others reach this process. At first they do not: the first call asks the
/// kernel for it and does not wait. In a process with several threads the kernel takes a grace
/// period for that, some 5 to 20 ms.
pub fn reaches_here() -> bool {
    let here = (u64::from(forks::epoch()) + 1) << 2;
    // Acquire pairs with the release in `register`: the process was registered before.
    match REACH.load(Ordering::Acquire) ^ here {
        REACHED => true,
        ASKED | REFUSED => false,
        _ => {
            ask(here);
            false
        }
    }
}

/// Registers this process, on a thread of its own.
#[cold]
fn ask(here: u64) {
    // Relaxed: if two threads ask, the process is registered twice, which does no harm.
    REACH.store(here | ASKED, Ordering::Relaxed);
    if threads::start("weir-barrier", move || register(here)).is_err() {
        // Relaxed: nothing was done before it.
        REACH.store(here | REFUSED, Ordering::Relaxed);
    }
}

fn register(here: u64) {
    signals::block_all();
    let done = membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
    // Release pairs with the acquire in `reaches_here`.
    REACH.store(here | if done { REACHED } else { REFUSED }, Ordering::Release);
}

/// Passes the barrier: afterwards, stores that registered processes made before it are visible.
pub fn pass() {
    if membarrier(MembarrierCommand::GlobalExpedited).is_err() {
        // No memory, or forbidden since. By then the stores are visible without a barrier.
        std::thread::sleep(DRAINED);
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::time::Instant;

    /// The kernel once let a writer that registered in the middle of a stream wait for 20 ms.
    #[test]
    fn a_process_is_registered_while_it_continues() {
        if !is_available() {
            return;
        }
        let begun = Instant::now();
        while !reaches_here() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it was never registered");
            std::thread::yield_now();
        }
        assert!(reaches_here(), "and stays so");
        // Whoever has an end hears of forks.
        let _ends = crate::pipe(&crate::Options::new()).expect("made");
        let asks = crate::memory::tests::in_forked_child(|| !reaches_here());
        assert!(asks, "a child asks for itself");
    }
}
