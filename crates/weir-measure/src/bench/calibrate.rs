//! How many operations make a batch about as long as it is to be.
//!
//! One length says too little: a batch may begin with the waking of the other side, which takes a
//! good part of what a short batch is to take, and then one operation looks like a batch. So what
//! an operation takes is the slope between two lengths.

use super::case::{Trouble, Work};

/// The most operations of a batch whatever they take.
const COUNT_MAX: u64 = 1 << 32;
/// Batches that must all be long for one to be long enough.
const TRIES: u32 = 3;
/// Of two lengths the longer has so many times the operations of the shorter.
const STEP: u64 = 4;
/// What it may take, in batches as they are to be: three times what a case has in a cell. All other
/// cells of the run keep what this one finds.
const PATIENCE: f64 = 24.0;
/// What hold-ups may add to that: a dozen cases then end before their cell is killed.
const HELD_UP_NS: f64 = 1e8;
/// A batch that takes less than this part of what the slope foretells refutes it.
const REFUTES: f64 = 0.75;

/// A length of batch, and the time it takes when nothing holds it up.
struct Length {
    count: u64,
    ns: f64,
}

impl Length {
    /// The shortest is what all tries count as: one that was held up is not to use up the time in
    /// which its error can be found.
    fn cost_ns(&self) -> f64 {
        f64::from(TRIES) * self.ns
    }
}

/// Tries lengths out.
struct Trial<'a> {
    work: &'a mut dyn Work,
    took_ns: f64,
}

impl Trial<'_> {
    /// A batch that was held up, or opened what the others use, looks long: the shortest of three
    /// counts. Nothing makes one look short: below `long_ns` one try is enough.
    fn of(&mut self, count: u64, long_ns: f64) -> Result<Length, Trouble> {
        let mut ns = f64::INFINITY;
        for _ in 0..TRIES {
            let elapsed_ns = self.work.batch(count)?.elapsed_ns.max(1.0);
            self.took_ns += elapsed_ns;
            ns = ns.min(elapsed_ns);
            if ns < long_ns {
                break;
            }
        }
        Ok(Length { count, ns })
    }

    /// A length that is not much too short, whatever it is made of.
    fn first_long(&mut self, ns: f64, long_ns: f64) -> Result<Length, Trouble> {
        let mut count = 1;
        loop {
            let length = self.of(count, long_ns)?;
            if length.ns >= long_ns || count >= COUNT_MAX {
                return Ok(length);
            }
            // Sixteen times at most, since the first batches meet cold caches.
            count = (count as f64 * (ns / length.ns).min(16.0)).ceil() as u64;
        }
    }

    /// All tries of a length may have been held up. Another, no shorter, tells: a batch that takes
    /// much less than the slope says it must.
    fn refute(&mut self, slope: &Slope, count: u64) -> Result<Option<Length>, Trouble> {
        let least_ns = REFUTES * slope.batch_ns(count);
        let length = self.of(count, least_ns)?;
        Ok(Some(length).filter(|length| length.ns < least_ns))
    }
}

/// What a batch consists of.
struct Slope {
    fixed_ns: f64,
    each_ns: f64,
}

impl Slope {
    fn between(shorter: &Length, longer: &Length) -> Slope {
        let more = (longer.count - shorter.count) as f64;
        let each_ns = ((longer.ns - shorter.ns) / more).max(0.0);
        Slope { fixed_ns: (shorter.ns - each_ns * shorter.count as f64).max(0.0), each_ns }
    }

    fn operations_ns(&self, count: u64) -> f64 {
        self.each_ns * count as f64
    }

    fn batch_ns(&self, count: u64) -> f64 {
        self.fixed_ns + self.operations_ns(count)
    }

    /// As many operations as take `ns`; what else is in the batch comes on top.
    fn count(&self, ns: f64) -> u64 {
        ((ns / self.each_ns) as u64).clamp(1, COUNT_MAX)
    }
}

/// Finds how many operations of `work` take about `ns`, without what a batch takes whatever the
/// count.
///
/// # Errors
/// A batch fails.
pub fn calibrate(work: &mut dyn Work, ns: f64) -> Result<u64, Trouble> {
    let long_ns = ns / 3.0;
    let mut trial = Trial { work, took_ns: 0.0 };
    let first = trial.first_long(ns, long_ns)?;
    let (mut shorter, mut longer) = if first.count < STEP {
        (first, None)
    } else {
        (trial.of(first.count / STEP, 0.0)?, Some(first))
    };
    let mut left_ns = PATIENCE * ns - shorter.cost_ns();
    // Until there is a second length, all of the first may be operations.
    let mut slope = Slope { fixed_ns: 0.0, each_ns: shorter.ns / shorter.count as f64 };
    loop {
        let next = shorter.count * STEP;
        let over = f64::from(TRIES) * slope.batch_ns(next) > left_ns
            || trial.took_ns > PATIENCE * ns + HELD_UP_NS;
        let long = match longer.take() {
            Some(long) => long,
            None if over || next > COUNT_MAX => {
                // A slope between short lengths is not to be trusted far beyond them.
                return Ok(slope.count(ns).min(next).min(COUNT_MAX));
            }
            None => trial.of(next, 0.0)?,
        };
        slope = Slope::between(&shorter, &long);
        shorter = long;
        if slope.operations_ns(shorter.count) >= long_ns.max(slope.fixed_ns) {
            let count = slope.count(ns);
            let Some(refuting) = trial.refute(&slope, count.max(shorter.count))? else {
                return Ok(count);
            };
            // What made the other look long was no operations, and is not to be its cost either.
            slope = Slope { fixed_ns: refuting.ns, each_ns: 0.0 };
            shorter = refuting;
        }
        left_ns -= shorter.cost_ns();
    }
}
