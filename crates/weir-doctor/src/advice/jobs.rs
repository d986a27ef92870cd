//! Advice on the order of jobs that run several at once.

use super::{Advice, AdviceKind, Gain};
use crate::facts::Run;

/// Advises to start the longest job first, where all would have ended sooner by that.
pub(crate) fn longest_first(run: &Run) -> Option<Advice> {
    let shape = run.shape.as_ref()?;
    let saved_ns = shape.span_ns.saturating_sub(shape.longest_first_ns?);
    let rest_ns = run.wall_ns.saturating_sub(saved_ns).max(1);
    // More at once than there are CPUs slow each other down: their lives say nothing then.
    let fits = shape.at_once as f64 <= run.usable_cpus();
    let gain = Gain::About(run.wall_ns as f64 / rest_ns as f64);
    fits.then_some(Advice { kind: AdviceKind::LongestFirst, stage: None, pipe: None, gain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Shape;
    use crate::made::{self, MS};
    use alloc::vec;

    /// xargs -P2 of five jobs of a second and one of five, in this order, took 8.6 to 9.2 s beside
    /// builds, and 7.3 to 7.4 the other way round.
    #[test]
    fn the_longest_first_saves_what_all_would_have_taken_less() {
        let shape = Shape {
            at_once: 2,
            span_ns: 900 * MS,
            longest_first_ns: Some(650 * MS),
            ..Shape::default()
        };
        let mut run = Run { shape: Some(shape), ..made::run(vec![]) };
        let advice = longest_first(&run).expect("an order");
        assert!((advice.gain.factor() - 1.333).abs() < 0.01, "{:?}", advice.gain);
        run.cpus = 1.0;
        assert_eq!(longest_first(&run), None);
        run.shape = None;
        assert_eq!(longest_first(&run), None);
    }
}
