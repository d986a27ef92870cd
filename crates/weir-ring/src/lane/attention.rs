//! Whether the reader of a lane looks at it, or is to be notified of what comes.

use crate::primitive::{AtomicU32, Ordering, fence};
use std::sync::atomic::compiler_fence;

/// The reader does not look: it is to be notified of what comes.
pub const AWAY: u32 = 0;
/// The reader looks, or was notified and will.
pub const LOOKING: u32 = 1;
/// The reader looks, and before it looks away it passes a barrier on all CPUs: a writer that this
/// reaches needs no fence.
pub const LOOKING_WITH_BARRIER: u32 = 2;

/// After something was published: whether this caller is to notify the reader. `reached` says that
/// the barrier of the reader reaches this process.
///
/// A writer that sees [`LOOKING_WITH_BARRIER`] needs no fence. If it saw that before the reader's
/// barrier, then what it had published is before the barrier too, and the reader's last look finds
/// it. After the barrier it sees that the reader has looked away.
#[inline]
pub fn must_notify(attention: &AtomicU32, reached: bool) -> bool {
    // The compiler must not move the load before what was published.
    compiler_fence(Ordering::SeqCst);
    if reached && attention.load(Ordering::Relaxed) == LOOKING_WITH_BARRIER {
        return false;
    }
    // Pairs with the fence that follows `look_away`: either this sees that the reader looks away,
    // or the reader's last look sees what was published.
    fence(Ordering::SeqCst);
    // AcqRel, so that notifying is ordered after the reader's looking away.
    attention.load(Ordering::Relaxed) == AWAY
        && attention.compare_exchange(AWAY, LOOKING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// The reader looks away. It passes [`fence_before_last_look`], or its barrier, and looks once more.
#[inline]
pub fn look_away(attention: &AtomicU32) {
    // Relaxed: ordered before the last look by the fence or barrier that follows.
    attention.store(AWAY, Ordering::Relaxed);
}

/// Between [`look_away`], of one or many, and looking once more.
#[inline]
pub fn fence_before_last_look() {
    // Pairs with the fence in `must_notify`.
    fence(Ordering::SeqCst);
}

/// The reader looks of itself, and need not be notified: `how` is [`LOOKING`], or
/// [`LOOKING_WITH_BARRIER`].
#[inline]
pub fn look_at(attention: &AtomicU32, how: u32) {
    // Release: an older `look_away` is seen by who sees this.
    attention.store(how, Ordering::Release);
}
