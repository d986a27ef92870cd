//! Tests of the calibration of batches. The times of batches are simulated, so no test depends on a
//! clock.

use super::super::calibrate::calibrate;
use super::super::case::{Batch, Case, CaseError, MadeWork, Site, Work};
use super::super::cell::{self, CellLine};
use super::{case, request, suite};
use weir_policy::random::Random;

/// The length asked for: the least that a cell asks for.
const ASKED_NS: f64 = 200_000.0;

/// Work that records the times of its batches.
struct FakeWork<F> {
    /// Returns the nanoseconds of a batch from its number and its operations.
    takes: F,
    took: Vec<f64>,
}

impl<F: FnMut(usize, u64) -> f64> FakeWork<F> {
    fn new(takes: F) -> FakeWork<F> {
        FakeWork { takes, took: Vec::new() }
    }

    fn count(&mut self) -> u64 {
        calibrate(self, ASKED_NS).expect("no batch fails")
    }

    fn took_ns(&self) -> f64 {
        self.took.iter().sum()
    }
}

impl<F: FnMut(usize, u64) -> f64> Work for FakeWork<F> {
    fn batch(&mut self, count: u64) -> Result<Batch, CaseError> {
        let ns = (self.takes)(self.took.len(), count);
        self.took.push(ns);
        Ok(Batch::time(ns, count))
    }
}

/// A wake-up takes a third of the length asked for, so a batch of one operation looks long.
#[test]
fn a_batch_that_begins_with_a_wake_up_is_mostly_operations() {
    for each in [10.0, 100.0, 1_000.0, 20_000.0] {
        let mut work = FakeWork::new(|_, count| 70_000.0 + each * count as f64);
        let operations = work.count() as f64 * each;
        assert!((0.9..=1.1).contains(&(operations / ASKED_NS)), "{each}: {operations}");
        assert!(work.took_ns() < 36.0 * ASKED_NS, "{each}: {}", work.took_ns());
    }
}

/// Wake-ups vary more than operations do.
#[test]
fn wake_ups_that_differ_are_not_taken_for_operations() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let least = if seed < 200 { 50_000 } else { 80_000 };
        let mut wake_up = move || (least + random.below(least)) as f64;
        let mut work = FakeWork::new(|_, count| wake_up() + 1_000.0 * count as f64);
        let count = work.count();
        assert!((80..=400).contains(&count), "{seed}: {count}, 200 are asked for");
    }
}

/// The fixed part may be as long as the length asked for, or be hidden because a batch was held up.
#[test]
fn a_held_up_batch_does_not_hide_a_wake_up() {
    for fixed in [30_000.0, 70_000.0, 150_000.0, 210_000.0] {
        for which in 0..40 {
            // Two in a row are held up for a time slice.
            let late = |at: usize| if at == which || at == which + 1 { 4e6 } else { 0.0 };
            let mut work = FakeWork::new(|at, count| fixed + 1_000.0 * count as f64 + late(at));
            let count = work.count();
            assert!((180..=220).contains(&count), "{fixed}, {which}: {count}");
        }
    }
}

/// Operations are slower at first, as while the other side wakes up. Their time is not derived from
/// lengths in which that is the larger part.
#[test]
fn the_slope_is_taken_where_operations_are_half_of_a_batch() {
    let takes = |_, count: u64| {
        let slow = count.min(64);
        150_000.0 + 1_100.0 * slow as f64 + 500.0 * (count - slow) as f64
    };
    let count = FakeWork::new(takes).count();
    assert!((360..=440).contains(&count), "{count}: 400 take as long as asked for");
}

/// All tries of one length are held up, so the prediction of the slope proves wrong.
#[test]
fn a_length_of_which_all_tries_were_held_up_is_refuted() {
    for held_up in 1..7 {
        for late_ns in [60_000.0, 200_000.0, 4e6] {
            let mut tries = 0;
            let mut work = FakeWork::new(|_, count| {
                let late = count == 1 << (2 * held_up) && tries < 3;
                tries += u32::from(late);
                70_000.0 + 100.0 * count as f64 + if late { late_ns } else { 0.0 }
            });
            let operations = work.count() as f64 * 100.0;
            let part = operations / (operations + 70_000.0);
            assert!(part > 0.4, "4^{held_up}, {late_ns}: operations are {part} of a batch");
        }
    }
}

#[test]
fn a_long_operation_is_a_batch_and_is_not_tried_for_ever() {
    for each in [70_000.0, 120_000.0, 190_000.0, 310_000.0, 330_000.0, 5e6, 1e9] {
        let mut work = FakeWork::new(|_, count| each * count as f64);
        assert_eq!(work.count() as f64, (ASKED_NS / each).floor().max(1.0), "{each}");
        // Three batches of one operation, if that is more.
        let most = (3.0 * each).max(48.0 * ASKED_NS);
        assert!(work.took_ns() <= most, "{each}: {}", work.took_ns());
    }
}

/// Two of three batches are held up for 20 ms.
#[test]
fn hold_ups_do_not_make_it_last_for_ever() {
    let late = |at: usize| if at.is_multiple_of(3) { 0.0 } else { 2e7 };
    let mut work = FakeWork::new(|at, count| 70_000.0 + 1_000.0 * count as f64 + late(at));
    assert!((50..=200).contains(&work.count()));
    assert!(work.took_ns() < 2e8, "{}", work.took_ns());
}

/// A batch takes the same time whatever the count, or no time at all. The result is not far beyond
/// what was tried.
#[test]
fn work_without_a_slope_has_an_end() {
    for fixed in [0.0, 10.0, 50_000.0, 250_000.0, 1e6, 1e9] {
        let mut most = 0;
        let mut work = FakeWork::new(|_, count| {
            most = most.max(count);
            fixed
        });
        let count = work.count();
        assert!(work.took.len() < 100, "{fixed}: {} batches", work.took.len());
        assert!(work.took_ns() <= (3.0 * fixed).max(36.0 * ASKED_NS), "{fixed}");
        assert!((1..=4 * most).contains(&count), "{fixed}: {count}");
    }
}

/// The first batch is held up, as by a process that has just been started. The batches that follow
/// must not become a thousand times too small.
#[test]
fn a_held_up_batch_does_not_set_the_length_of_all() {
    for which in 1..8 {
        let count = count_when_held_up(which);
        assert!((8_000..=12_000).contains(&count), "{count}: a batch of 1 ms has 10,000");
    }
}

/// Returns the length of batches that a cell finds when the batch of this number is held up.
fn count_when_held_up(which: u64) -> u64 {
    struct HeldUp(u64);
    impl Work for HeldUp {
        fn batch(&mut self, count: u64) -> Result<Batch, CaseError> {
            // Two in a row are held up.
            let held_up = self.0 < 2;
            self.0 = self.0.wrapping_sub(1);
            let elapsed_ns = 100.0 * count as f64 + if held_up { 2e7 } else { 0.0 };
            Ok(Batch { elapsed_ns, values: vec![count as f64] })
        }
    }
    let make = move |_: &Site| -> MadeWork { Ok(Box::new(HeldUp(which))) };
    let suite = suite(vec![Case { make: Box::new(make), ..case("a", 1.0) }]);
    let request = request(&["a"], 20_000_000);
    let mut said = Vec::new();
    cell::run(&suite.groups[0], &request, &mut said).expect("it runs");
    let first = said.split(|byte| *byte == b'\n').next().expect("a line");
    let Ok(CellLine::Count(0, count)) = serde_json::from_slice(first) else { panic!("no count") };
    count
}
