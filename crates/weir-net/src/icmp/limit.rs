//! How many answers go out: a bucket of tokens for all, and one for each of the last destinations.

use std::net::Ipv4Addr;

/// Destinations that have a bucket of their own; the one that was longest without an error gives
/// its place.
pub const MOST_DESTINATIONS: usize = 256;

/// One token, in the unit that buckets count: a rate of 1 a second fills in one of these each
/// nanosecond.
const TOKEN: u64 = 1_000_000_000;

/// A limit: so many at once, and then so many a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens that come each second. 0: those at the beginning, and never more.
    pub per_s: u32,
    /// Tokens that there are at most. 0: none, ever.
    pub burst: u32,
}

/// A bucket of tokens, exact: nothing is rounded, so that no token is lost by being asked often.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: Rate,
    /// In billionths of a token.
    credit: u64,
    /// When that was reckoned, in nanoseconds.
    then_ns: u64,
}

impl Bucket {
    /// A full one.
    pub fn new(rate: Rate, now_ns: u64) -> Bucket {
        Bucket { rate, credit: u64::from(rate.burst) * TOKEN, then_ns: now_ns }
    }

    /// Whether there is one, with what came since; a clock that went back brings nothing.
    fn has_one(&mut self, now_ns: u64) -> bool {
        let Rate { per_s, burst } = self.rate;
        let came = now_ns.saturating_sub(self.then_ns).saturating_mul(u64::from(per_s));
        self.credit = self.credit.saturating_add(came).min(u64::from(burst) * TOKEN);
        self.then_ns = self.then_ns.max(now_ns);
        self.credit >= TOKEN
    }

    /// Takes one, if there is one.
    pub fn allows(&mut self, now_ns: u64) -> bool {
        let allows = self.has_one(now_ns);
        if allows {
            self.credit -= TOKEN;
        }
        allows
    }
}

/// Which limit it was that forbade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// That for all together.
    All,
    /// That of the destination.
    One,
}

/// A limit for all together, and one for each destination.
#[derive(Debug)]
pub struct Limits {
    all: Bucket,
    rate_of_one: Rate,
    ones: Vec<(Ipv4Addr, Bucket)>,
}

impl Limits {
    /// All full. Its memory is taken here and does not grow.
    pub fn new(all: Rate, one: Rate) -> Limits {
        let ones = Vec::with_capacity(MOST_DESTINATIONS);
        Limits { all: Bucket::new(all, 0), rate_of_one: one, ones }
    }

    /// Takes one for all and one for `destination`, or, if either is missing, none.
    ///
    /// One destination can so not use up what there is for all; and what is forbidden to all puts
    /// nobody out of the table.
    pub fn allows(&mut self, destination: Ipv4Addr, now_ns: u64) -> Result<(), Forbidden> {
        let found = self.ones.iter().position(|(address, _)| *address == destination);
        let new = Bucket::new(self.rate_of_one, now_ns);
        let mut bucket = found.map_or(new, |index| self.ones[index].1);
        if !bucket.has_one(now_ns) {
            return Err(Forbidden::One);
        }
        if !self.all.allows(now_ns) {
            return Err(Forbidden::All);
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
