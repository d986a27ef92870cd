//! What the switch has counted: packets that passed, and those it dropped, by reason.

use crate::drop_reason::DropReason;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that every thread of the switch adds to.
#[derive(Debug, Default)]
pub struct Counts {
    /// Packets that came from the device.
    pub received: AtomicU64,
    /// Bytes in these.
    pub received_bytes: AtomicU64,
    /// Datagrams put together out of fragments.
    pub reassembled: AtomicU64,
    /// Datagrams handed to stations, or to ICMP in the switch.
    pub delivered: AtomicU64,
    /// Datagrams that stations sent.
    pub sent: AtomicU64,
    /// Packets these became.
    pub sent_packets: AtomicU64,
    /// Bytes in these packets.
    pub sent_bytes: AtomicU64,
    /// Redirects that count.
    pub redirects: AtomicU64,
    /// Those that do not.
    pub redirects_refused: AtomicU64,
    drops: [AtomicU64; DropReason::ALL.len()],
}

impl Counts {
    /// Counts one more.
    #[inline]
    pub fn add(counter: &AtomicU64, number: u64) {
        // Relaxed: a count orders nothing.
        counter.fetch_add(number, Ordering::Relaxed);
    }

    /// Counts one dropped packet.
    pub fn drop(&self, why: DropReason) {
        Counts::add(&self.drops[why as usize], 1);
    }

    /// Takes over a number that somebody else has counted.
    pub fn set_drops(&self, why: DropReason, number: u64) {
        // Relaxed: as `add`.
        self.drops[why as usize].store(number, Ordering::Relaxed);
    }

    /// Of each reason that there was, how many.
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
        let counts = Counts::default();
        counts.drop(DropReason::Device);
        counts.drop(DropReason::Short);
        counts.drop(DropReason::Short);
        let seen: Vec<_> = counts.drops().collect();
        assert_eq!(seen, [(DropReason::Short, 2), (DropReason::Device, 1)]);
    }
}
