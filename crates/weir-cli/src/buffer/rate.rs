//! Limits how much may pass now, so that a rate holds over any second.
//!
//! Credit grows at the rate and is bounded, so that a pause is not followed by a burst. Bounded credit
//! alone would let a tenth too much pass in the second after a pause. So what passed within the last
//! second is remembered and counts as well.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time over which the rate holds.
const WINDOW: Duration = Duration::from_secs(1);
/// Bytes that pass within this time are remembered together.
const SLOT: Duration = Duration::from_millis(5);
/// The most credit, in seconds at the rate.
const BURST: f64 = 0.1;
/// Portions a second, about: passing single bytes would cost too much.
const PORTIONS: f64 = 100.0;
const PAGE_BYTES: f64 = 4096.0;
/// The shortest wait.
const LEAST_WAIT: Duration = Duration::from_micros(100);

/// A bound on a rate.
#[derive(Debug)]
pub struct Rate {
    bytes_per_s: f64,
    credit_bytes: f64,
    most_bytes: f64,
    portion_bytes: f64,
    counted: Instant,
    recent: VecDeque<(Instant, u64)>,
    recent_bytes: u64,
}

impl Rate {
    /// Allows at most `bytes_per_s`, from now on.
    pub fn new(bytes_per_s: u64, now: Instant) -> Rate {
        let rate = bytes_per_s.max(1) as f64;
        // A quarter at most: the rest of a second that is shorter than a portion is lost.
        let least = PAGE_BYTES.min(rate / 4.0).floor().max(1.0);
        Rate {
            bytes_per_s: rate,
            credit_bytes: 0.0,
            most_bytes: (rate * BURST).max(least),
            portion_bytes: (rate / PORTIONS).max(least),
            counted: now,
            recent: VecDeque::new(),
            recent_bytes: 0,
        }
    }

    /// Bytes that may pass now; 0 if that is less than a portion.
    pub fn allowed(&mut self, now: Instant) -> u64 {
        let gained = now.saturating_duration_since(self.counted).as_secs_f64() * self.bytes_per_s;
        self.counted = now;
        self.credit_bytes = (self.credit_bytes + gained).min(self.most_bytes);
        while let Some((passed, bytes)) = self.recent.front().copied() {
            if now.saturating_duration_since(passed) < WINDOW {
                break;
            }
            self.recent_bytes -= bytes;
            self.recent.pop_front();
        }
        let room = self.bytes_per_s - self.recent_bytes as f64;
        let allowed = self.credit_bytes.min(room);
        // The tolerance absorbs the rounding of sums of fractions.
        if allowed + 1e-6 < self.portion_bytes { 0 } else { (allowed + 1e-6) as u64 }
    }

    /// Counts bytes that have passed.
    pub fn passed(&mut self, bytes: u64, now: Instant) {
        self.credit_bytes -= bytes as f64;
        self.recent_bytes += bytes;
        match self.recent.back_mut() {
            Some((last, sum)) if now.saturating_duration_since(*last) < SLOT => *sum += bytes,
            _ => self.recent.push_back((now, bytes)),
        }
    }

    /// The time until something may pass.
    pub fn wait(&self, now: Instant) -> Duration {
        let lacking = self.portion_bytes - self.credit_bytes;
        let for_credit = Duration::from_secs_f64((lacking / self.bytes_per_s).max(0.0));
        let mut room = self.bytes_per_s - self.recent_bytes as f64;
        let mut for_room = Duration::ZERO;
        for (passed, bytes) in &self.recent {
            if room >= self.portion_bytes {
                break;
            }
            room += *bytes as f64;
            for_room = (*passed + WINDOW).saturating_duration_since(now);
        }
        for_credit.max(for_room).max(LEAST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that pass at each time in `for_s` seconds if all that is allowed is taken.
    fn taken(rate: u64, for_s: u64, pauses: bool) -> Vec<(Duration, u64)> {
        let begun = Instant::now();
        let end = begun + Duration::from_secs(for_s);
        let (mut now, mut rate) = (begun, Rate::new(rate, begun));
        let mut all = Vec::new();
        while now < end {
            let allowed = rate.allowed(now);
            if allowed > 0 {
                rate.passed(allowed, now);
                all.push((now - begun, allowed));
                if pauses && all.len().is_multiple_of(70) {
                    now += Duration::from_millis(700);
                }
            } else {
                now += rate.wait(now);
            }
        }
        all
    }

    #[test]
    fn the_rate_holds_over_any_second() {
        for rate in [1, 100, 4096, 5000, 100_000, 10_000_000, 5_000_000_000] {
            for pauses in [false, true] {
                let all = taken(rate, 10, pauses);
                for (at, (begin, _)) in all.iter().enumerate() {
                    let second = all[at..].iter().take_while(|(time, _)| *time - *begin < WINDOW);
                    let bytes: u64 = second.map(|(_, bytes)| bytes).sum();
                    assert!(bytes <= rate, "{bytes} in a second, not {rate}");
                }
            }
        }
    }

    #[test]
    fn the_rate_is_reached() {
        for rate in [100, 4096, 5000, 100_000, 10_000_000, 5_000_000_000] {
            let bytes: u64 = taken(rate, 20, false).iter().map(|(_, bytes)| bytes).sum();
            assert!(bytes as f64 > 0.9 * 20.0 * rate as f64, "{bytes} in 20 seconds, not {rate}");
        }
    }
}
