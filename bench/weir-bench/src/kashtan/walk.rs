//! The order in which pages are touched.

use super::PAGES;
use weir_policy::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchOrder {
    /// One after the other, repeatedly.
    Sequential,
    Random,
    /// Steps with this standard deviation.
    Walk(u32),
}

/// The orders of the report.
pub const PATTERNS: [TouchOrder; 10] = [
    TouchOrder::Sequential,
    TouchOrder::Random,
    TouchOrder::Walk(1),
    TouchOrder::Walk(10),
    TouchOrder::Walk(30),
    TouchOrder::Walk(40),
    TouchOrder::Walk(50),
    TouchOrder::Walk(60),
    TouchOrder::Walk(80),
    TouchOrder::Walk(100),
];

impl TouchOrder {
    pub fn name(self) -> String {
        match self {
            TouchOrder::Sequential => String::from("sequential"),
            TouchOrder::Random => String::from("random"),
            TouchOrder::Walk(deviation) => format!("walk-{deviation}"),
        }
    }
}

/// Pages in one of the orders; the same seed gives the same pages.
#[derive(Clone, Debug)]
pub struct Walk {
    pattern: TouchOrder,
    random: Random,
    page: usize,
}

impl Walk {
    pub fn new(pattern: TouchOrder, seed: u64) -> Walk {
        Walk { pattern, random: Random::new(seed), page: PAGES / 2 }
    }

    pub fn next_page(&mut self) -> usize {
        self.page = match self.pattern {
            TouchOrder::Sequential => (self.page + 1) % PAGES,
            TouchOrder::Random => self.random.below(PAGES as u64) as usize,
            TouchOrder::Walk(deviation) => {
                let step = (normal(&mut self.random) * f64::from(deviation)).round() as i64;
                reflect(self.page as i64 + step)
            }
        };
        self.page
    }
}

/// Reflects a walk that would leave the pages at their end.
fn reflect(page: i64) -> usize {
    let last = PAGES as i64 - 1;
    let around = page.rem_euclid(2 * last);
    (if around > last { 2 * last - around } else { around }) as usize
}

/// Returns a nearly normal number: the sum of twelve uniform numbers, less six.
fn normal(random: &mut Random) -> f64 {
    let even = |random: &mut Random| random.below(1 << 32) as f64 / (1_u64 << 32) as f64;
    (0..12).map(|_| even(random)).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_the_deviation_they_should_and_stay_inside() {
        for deviation in [1, 10, 100] {
            let mut walk = Walk::new(TouchOrder::Walk(deviation), 4);
            let (mut last, mut squares) = (PAGES / 2, 0.0);
            const STEPS: u32 = 20_000;
            for _ in 0..STEPS {
                let page = walk.next_page();
                assert!(page < PAGES);
                squares += (page as f64 - last as f64).powi(2);
                last = page;
            }
            let seen = (squares / f64::from(STEPS)).sqrt() / f64::from(deviation);
            assert!((0.9..1.15).contains(&seen), "{deviation}: {seen}");
        }
    }

    #[test]
    fn the_other_patterns_are_what_they_are_called() {
        let mut walk = Walk::new(TouchOrder::Sequential, 1);
        let first = walk.next_page();
        assert_eq!(walk.next_page(), first + 1);
        assert_eq!((reflect(-3), reflect(PAGES as i64 + 1)), (3, PAGES - 3));
        let mut walk = Walk::new(TouchOrder::Random, 1);
        let distinct: std::collections::BTreeSet<usize> =
            (0..1000).map(|_| walk.next_page()).collect();
        assert!(distinct.len() > 900);
    }
}
