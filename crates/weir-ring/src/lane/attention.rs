//! Whether the reader of a lane looks at it, or must be notified of what comes.

use super::{LaneId, LaneMemory};
use crate::primitive::{AtomicU32, Ordering, fence};
use std::sync::atomic::compiler_fence;

/// The reader does not look: the writer must notify it.
pub const AWAY: u32 = 0;
/// The reader looks, or was notified and will look.
pub const POLLING: u32 = 1;
/// The reader looks, and passes a barrier on all CPUs before it looks away: a writer that the
/// barrier reaches needs no fence.
pub const POLLING_WITH_BARRIER: u32 = 2;

/// Returns the word that says whether the reader of a lane looks at it: [`AWAY`], [`POLLING`] or
/// [`POLLING_WITH_BARRIER`].
///
/// The writer loads it after each frame. It is beside the reader's own stores to the lane in the
/// other direction, and not beside what the writer stores: a reader that keeps up takes the line of
/// the writer's position away at each look. The load would wait until that line is back, where a
/// store need not wait.
#[inline]
pub fn attention_to(memory: &impl LaneMemory, lane: LaneId) -> &AtomicU32 {
    &memory.lane(lane.back()).writer.attention
}

/// Whether the caller, which has published something, must notify the reader. `reached` means that
/// the reader's barrier reaches this process.
///
/// A writer that sees [`POLLING_WITH_BARRIER`] needs no fence. If it saw that before the reader's
/// barrier, it had published before the barrier too, and the reader's last look finds it. After the
/// barrier, it sees that the reader has looked away.
#[inline]
pub fn must_notify(attention: &AtomicU32, reached: bool) -> bool {
    if reached && is_looking_with_barrier(attention) {
        return false;
    }
    // Pairs with the fence that follows `stop_polling`: either this sees that the reader looks
    // away, or the reader's last look sees what was published.
    fence(Ordering::SeqCst);
    // AcqRel orders the notification after the reader's looking away.
    attention.load(Ordering::Relaxed) == AWAY
        && attention.compare_exchange(AWAY, POLLING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Whether a reader looks whose barrier makes fences needless, if it reaches the caller, which has
/// published something. See [`must_notify`].
#[inline(always)]
pub fn is_looking_with_barrier(attention: &AtomicU32) -> bool {
    // The compiler must not move the load before the publishing.
    compiler_fence(Ordering::SeqCst);
    attention.load(Ordering::Relaxed) == POLLING_WITH_BARRIER
}

/// Looks away. The reader then passes [`fence_before_last_poll`] or its barrier, and looks once more.
#[inline]
pub fn stop_polling(attention: &AtomicU32) {
    // Relaxed: the fence or barrier that follows orders it before the last look.
    attention.store(AWAY, Ordering::Relaxed);
}

/// The fence between looking away, from one lane or many, and looking once more.
#[inline]
pub fn fence_before_last_poll() {
    // Pairs with the fence in `must_notify`.
    fence(Ordering::SeqCst);
}

/// Stores that the reader looks of its own accord, without being notified: `how` is [`POLLING`] or
/// [`POLLING_WITH_BARRIER`].
#[inline]
pub fn start_polling(attention: &AtomicU32, how: u32) {
    // Release: whoever sees this sees an older `stop_polling` too.
    attention.store(how, Ordering::Release);
}
