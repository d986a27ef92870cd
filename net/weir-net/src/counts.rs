//! The counters of the switch: packets that passed, and dropped ones by reason.

use crate::drop_reason::DropReason;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that all threads of the switch add to.
#[derive(Debug, Default)]
pub struct SwitchCounts {
    /// Packets received from the device.
    pub received: AtomicU64,
    /// Bytes in these packets.
    pub received_bytes: AtomicU64,
    /// Datagrams reassembled from fragments.
    pub reassembled: AtomicU64,
    /// Datagrams handed to stations, or to ICMP in the switch.
    pub delivered: AtomicU64,
    /// Datagrams that stations sent.
    pub sent: AtomicU64,
    /// Packets that these became.
    pub sent_packets: AtomicU64,
    /// Bytes in these packets.
    pub sent_bytes: AtomicU64,
    /// Redirects that were accepted.
    pub redirects: AtomicU64,
    /// Redirects that were refused.
    pub redirects_refused: AtomicU64,
    drops: [AtomicU64; DropReason::ALL.len()],
}

impl SwitchCounts {
    /// Adds to a count, whoever else adds to it meanwhile.
    #[inline]
    pub fn add(counter: &AtomicU64, number: u64) {
        // Relaxed: a count orders nothing.
        counter.fetch_add(number, Ordering::Relaxed);
    }

    /// Adds where no other thread adds to the same count meanwhile: the caller holds a lock. This
    /// takes no locked instruction.
    #[inline]
    pub fn add_alone(counter: &AtomicU64, number: u64) {
        // Relaxed: as `add`; the lock orders the additions.
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
    }

    /// Counts one dropped packet.
    pub fn drop(&self, why: DropReason) {
        SwitchCounts::add(&self.drops[why as usize], 1);
    }

    /// Returns the count of each reason that occurred.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        let all = DropReason::ALL.iter().zip(&self.drops);
        all.map(|(why, count)| (*why, count.load(Ordering::Relaxed))).filter(|(_, n)| *n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_by_reason() {
        let counts = SwitchCounts::default();
        counts.drop(DropReason::Device);
        counts.drop(DropReason::Short);
        counts.drop(DropReason::Short);
        let seen: Vec<_> = counts.drops().collect();
        assert_eq!(seen, [(DropReason::Short, 2), (DropReason::Device, 1)]);
    }
}
