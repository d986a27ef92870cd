//! Latency at a given rate: an open loop.
//!
//! A closed loop starts a request when the last is answered, so one slow answer delays the requests
//! after it and hides how long they would have waited (coordinated omission). Here each request has
//! an intended start, and its latency counts from that.

use super::case::CaseError;
use hdrhistogram::Histogram;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Percentiles of the latencies, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentiles {
    /// Half of them are below.
    pub p50_ns: f64,
    /// 99 of 100 are below.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// From the first intended start to the last answer.
    pub elapsed_ns: f64,
}

/// A histogram of latencies, accurate to a thousandth (HdrHistogram, 1 ns to 60 s).
#[derive(Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3);
        Latencies { histogram: histogram.expect("the bounds are sound") }
    }
}

impl Latencies {
    /// Adds a latency.
    pub fn add(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(ns.max(1));
    }

    /// Returns the value below which this share lies.
    pub fn quantile_ns(&self, share: f64) -> f64 {
        self.histogram.value_at_quantile(share) as f64
    }
}

/// Runs `count` requests at `rate_per_s`. With `spin` it waits for the next start in a busy loop,
/// which is exact but keeps others from this CPU; without, it sleeps.
///
/// # Errors
/// The first error of a request.
pub fn open_loop(
    rate_per_s: u64,
    count: u64,
    spin: bool,
    mut request: impl FnMut() -> Result<(), CaseError>,
) -> Result<Percentiles, CaseError> {
    if !spin {
        // The kernel may let a sleep last 50 us longer, which would be latency of no request.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }
    let period = Duration::from_nanos(1_000_000_000 / rate_per_s.max(1));
    let mut latencies = Latencies::default();
    let begun = Instant::now();
    for index in 0..count {
        let intended = begun + period * u32::try_from(index).unwrap_or(u32::MAX);
        wait_until(intended, spin);
        request()?;
        latencies.add(intended.elapsed());
    }
    Ok(Percentiles {
        p50_ns: latencies.quantile_ns(0.5),
        p99_ns: latencies.quantile_ns(0.99),
        max_ns: latencies.quantile_ns(1.0),
        elapsed_ns: begun.elapsed().as_nanos() as f64,
    })
}

fn wait_until(intended: Instant, spin: bool) {
    loop {
        let left = intended.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if spin {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One answer that takes 20 ms delays the requests behind it. Their latency shows that,
    /// although each of them was answered at once.
    #[test]
    fn a_stall_counts_for_all_that_it_delays() {
        let mut number = 0;
        let seen = open_loop(1_000, 40, true, || {
            number += 1;
            if number == 10 {
                let stall = Instant::now();
                while stall.elapsed() < Duration::from_millis(20) {}
            }
            Ok(())
        });
        let seen = seen.expect("no request failed");
        assert!(seen.max_ns >= 19e6, "{seen:?}");
        // About 20 of the 40 requests began late; a closed loop would have shown one.
        assert!(seen.p99_ns > 10e6, "{seen:?}");
    }

    /// A pipe's round trip on one CPU seemed to take 68 us: for 55 of them the sleep before it had
    /// not ended.
    #[test]
    fn a_sleep_before_a_request_has_no_slack() {
        let slack = || rustix::thread::current_timer_slack().expect("a thread has one");
        let mut seen = Vec::new();
        let made = open_loop(1_000, 1, false, || {
            seen.push(slack());
            Ok(())
        });
        assert!(made.is_ok());
        assert_eq!(seen, [1]);
    }

    #[test]
    fn an_error_ends_it() {
        assert!(open_loop(10, 5, false, || Err(CaseError::failed("no"))).is_err());
    }
}
