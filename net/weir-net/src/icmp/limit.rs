//! Rate limits of replies: a token bucket for all, and one for each recent destination.

use std::net::Ipv4Addr;

/// Destinations with a bucket of their own; the one unused for longest is replaced.
pub const MOST_DESTINATIONS: usize = 256;

/// One token in the buckets' unit: a rate of 1 a second adds one of these each nanosecond.
const TOKEN: u64 = 1_000_000_000;

/// The settings of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRate {
    /// Tokens added each second. 0: only the initial ones, and never more.
    pub per_s: u32,
    /// Most tokens in the bucket. 0: none, ever.
    pub burst: u32,
}

/// A token bucket without rounding: frequent calls lose no fraction of a token.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: TokenRate,
    /// In billionths of a token.
    credit: u64,
    /// When that was computed, in nanoseconds.
    then_ns: u64,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(rate: TokenRate, now_ns: u64) -> TokenBucket {
        TokenBucket { rate, credit: u64::from(rate.burst) * TOKEN, then_ns: now_ns }
    }

    /// Whether a token is there, after adding those due; a clock that went back adds none.
    fn has_one(&mut self, now_ns: u64) -> bool {
        let TokenRate { per_s, burst } = self.rate;
        let came = now_ns.saturating_sub(self.then_ns).saturating_mul(u64::from(per_s));
        self.credit = self.credit.saturating_add(came).min(u64::from(burst) * TOKEN);
        self.then_ns = self.then_ns.max(now_ns);
        self.credit >= TOKEN
    }

    /// Takes a token, if there is one.
    pub fn allows(&mut self, now_ns: u64) -> bool {
        let allows = self.has_one(now_ns);
        if allows {
            self.credit -= TOKEN;
        }
        allows
    }
}

/// Which limit refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// The limit for all destinations together.
    All,
    /// The limit of the destination.
    One,
}

/// A token bucket for all destinations together, and one for each.
#[derive(Debug)]
pub struct RateLimits {
    all: TokenBucket,
    rate_of_one: TokenRate,
    ones: Vec<(Ipv4Addr, TokenBucket)>,
}

impl RateLimits {
    /// Creates full buckets. Their memory is allocated here and does not grow.
    pub fn new(all: TokenRate, one: TokenRate) -> RateLimits {
        let ones = Vec::with_capacity(MOST_DESTINATIONS);
        RateLimits { all: TokenBucket::new(all, 0), rate_of_one: one, ones }
    }

    /// Takes a token from both buckets for `destination`, or none if either is empty.
    ///
    /// So one destination cannot use up the tokens for all, and a refusal for all displaces no
    /// destination from the table.
    pub fn allows(&mut self, destination: Ipv4Addr, now_ns: u64) -> Result<(), ExceededLimit> {
        let found = self.ones.iter().position(|(address, _)| *address == destination);
        let new = TokenBucket::new(self.rate_of_one, now_ns);
        let mut bucket = found.map_or(new, |index| self.ones[index].1);
        if !bucket.has_one(now_ns) {
            return Err(ExceededLimit::One);
        }
        if !self.all.allows(now_ns) {
            return Err(ExceededLimit::All);
        }
        bucket.credit -= TOKEN;
        let one = (destination, bucket);
        match found {
            Some(index) => self.ones[index] = one,
            None if self.ones.len() < MOST_DESTINATIONS => self.ones.push(one),
            None => {
                if let Some(oldest) = self.ones.iter_mut().min_by_key(|(_, one)| one.then_ns) {
                    *oldest = one;
                }
            }
        }
        Ok(())
    }
}
