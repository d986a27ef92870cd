//! Calibration: how many operations make a batch of about the wanted length.
//!
//! One length is not enough: a batch may begin with waking the other side, which takes a good part
//! of a short batch, so that one operation would look like a whole batch. So the time of an
//! operation is the slope between two lengths.

use super::case::{CaseError, Work};

/// The most operations of a batch, however short they are.
const COUNT_MAX: u64 = 1 << 32;
/// Number of tries that must all be long for a length to be long enough.
const TRIES: u32 = 3;
/// Ratio of the operations of the longer length to those of the shorter.
const STEP: u64 = 4;
/// Time limit in batches of the wanted length: three times the batches of a case in a cell. All
/// other cells of the run use the result of this one.
const PATIENCE: f64 = 24.0;
/// Additional time limit for hold-ups: a dozen cases then end before their cell is killed.
const HELD_UP_NS: f64 = 1e8;
/// A batch that takes less than this part of the time that the slope predicts refutes it.
const REFUTES: f64 = 0.75;

/// A batch length in operations, and its time without hold-ups.
struct BatchLength {
    count: u64,
    ns: f64,
}

impl BatchLength {
    /// Every try is charged at the time of the shortest: one that was held up must not use up the
    /// time in which its error can be found.
    fn cost_ns(&self) -> f64 {
        f64::from(TRIES) * self.ns
    }
}

/// A series of trial batches.
struct TrialBatches<'a> {
    work: &'a mut dyn Work,
    took_ns: f64,
}

impl TrialBatches<'_> {
    /// Times `count` operations. A batch looks too long if it was held up, or set up something that
    /// later ones use, so the shortest of three counts. Nothing makes a batch look too short, so
    /// one try is enough below `long_ns`.
    fn of(&mut self, count: u64, long_ns: f64) -> Result<BatchLength, CaseError> {
        let mut ns = f64::INFINITY;
        for _ in 0..TRIES {
            let elapsed_ns = self.work.batch(count)?.elapsed_ns.max(1.0);
            self.took_ns += elapsed_ns;
            ns = ns.min(elapsed_ns);
            if ns < long_ns {
                break;
            }
        }
        Ok(BatchLength { count, ns })
    }

    /// Finds a length that is not much too short, whatever its time consists of.
    fn first_long(&mut self, ns: f64, long_ns: f64) -> Result<BatchLength, CaseError> {
        let mut count = 1;
        loop {
            let length = self.of(count, long_ns)?;
            if length.ns >= long_ns || count >= COUNT_MAX {
                return Ok(length);
            }
            // At most sixteen times as many, since the first batches meet cold caches.
            count = (count as f64 * (ns / length.ns).min(16.0)).ceil() as u64;
        }
    }

    /// Checks the slope, since all tries of a length may have been held up: another length, no
    /// shorter, refutes it if its batch takes much less than the slope predicts.
    fn refute(&mut self, slope: &Slope, count: u64) -> Result<Option<BatchLength>, CaseError> {
        let least_ns = REFUTES * slope.batch_ns(count);
        let length = self.of(count, least_ns)?;
        Ok(Some(length).filter(|length| length.ns < least_ns))
    }
}

/// The parts of a batch's time: a fixed cost, and a slope per operation.
struct Slope {
    fixed_ns: f64,
    each_ns: f64,
}

impl Slope {
    fn between(shorter: &BatchLength, longer: &BatchLength) -> Slope {
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

    /// Returns how many operations take `ns`, without the fixed cost.
    fn count(&self, ns: f64) -> u64 {
        ((ns / self.each_ns) as u64).clamp(1, COUNT_MAX)
    }
}

/// Finds how many operations of `work` take about `ns`, without the fixed cost of a batch.
pub fn calibrate(work: &mut dyn Work, ns: f64) -> Result<u64, CaseError> {
    let long_ns = ns / 3.0;
    let mut trial = TrialBatches { work, took_ns: 0.0 };
    let first = trial.first_long(ns, long_ns)?;
    let (mut shorter, mut longer) = if first.count < STEP {
        (first, None)
    } else {
        (trial.of(first.count / STEP, 0.0)?, Some(first))
    };
    let mut left_ns = PATIENCE * ns - shorter.cost_ns();
    // Until there is a second length, all the time of the first may be operations.
    let mut slope = Slope { fixed_ns: 0.0, each_ns: shorter.ns / shorter.count as f64 };
    loop {
        let next = shorter.count * STEP;
        let over = f64::from(TRIES) * slope.batch_ns(next) > left_ns
            || trial.took_ns > PATIENCE * ns + HELD_UP_NS;
        let long = match longer.take() {
            Some(long) => long,
            None if over || next > COUNT_MAX => {
                // A slope between short lengths is unreliable far beyond them.
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
            // A hold-up made the other length look long: its time is not part of the fixed cost
            // either.
            slope = Slope { fixed_ns: refuting.ns, each_ns: 0.0 };
            shorter = refuting;
        }
        left_ns -= shorter.cost_ns();
    }
}
