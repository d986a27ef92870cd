//! The rate of a server: how many bytes it sends and takes a second, all transfers together.

/// How far the rate may be exceeded for a moment.
const BURST_NS: u64 = 10_000_000;
const NS_PER_S: u128 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    bytes_per_s: u64,
    /// When what was spent so far is within the rate.
    paid_ns: u64,
    /// Since when nothing is sent.
    held_since_ns: Option<u64>,
}

impl RateLimit {
    /// At most so many bytes a second.
    pub fn new(bytes_per_s: u64) -> RateLimit {
        RateLimit { bytes_per_s: bytes_per_s.max(1), paid_ns: 0, held_since_ns: None }
    }

    /// Notes bytes that were sent or came.
    pub fn spend(&mut self, bytes: usize, now_ns: u64) {
        let cost_ns = bytes as u128 * NS_PER_S / u128::from(self.bytes_per_s);
        let cost_ns = u64::try_from(cost_ns).unwrap_or(u64::MAX);
        self.paid_ns = self.paid_ns.max(now_ns).saturating_add(cost_ns);
    }

    /// Returns until when nothing is to be sent; `None` if something may be.
    pub fn held_until_ns(&mut self, now_ns: u64) -> Option<u64> {
        let until_ns = self.paid_ns.saturating_sub(BURST_NS);
        if until_ns <= now_ns {
            return None;
        }
        self.held_since_ns.get_or_insert(now_ns);
        Some(until_ns)
    }

    /// Returns for how long nothing was sent, and forgets it.
    pub fn was_held_ns(&mut self, now_ns: u64) -> u64 {
        self.held_since_ns.take().map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }

    /// Returns the longest block, and the bytes of the longest window, that a client does not take
    /// for a silence at this rate: a quarter of a second.
    pub fn most_bytes(&self) -> usize {
        usize::try_from(self.bytes_per_s / 4).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_takes_its_time() {
        let mut rate = RateLimit::new(1_000_000);
        let (mut now_ns, mut sent) = (0, 0);
        while now_ns < 1_000_000_000 {
            match rate.held_until_ns(now_ns) {
                Some(until_ns) => now_ns = until_ns,
                None => {
                    rate.spend(1500, now_ns);
                    sent += 1500;
                }
            }
        }
        assert!((1_000_000..=1_013_000).contains(&sent), "{sent} bytes in a second");
        // Time in which nothing was to be sent is not credit.
        now_ns = 60_000_000_000;
        sent = 0;
        while rate.held_until_ns(now_ns).is_none() {
            rate.spend(1500, now_ns);
            sent += 1500;
        }
        assert_eq!(sent, 10_500);
    }
}
