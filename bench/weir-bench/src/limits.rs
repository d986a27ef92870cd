//! `limits`: what the machine itself allows. Every other figure is read beside these.

mod disk;
mod hand_over;

use crate::engine::line;
use crate::sys::floor;
use crate::sys::shared::{LINE_BYTES, PageBuffer, SharedPages};
use crate::tools::futex::{sleep, wake};
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_policy::random::Random;

const COPY_BYTES: [u64; 5] = [4 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20];
/// Memory whose lines are loaded one after the other: in the first cache, and beyond all of them.
const CHASED_BYTES: [u64; 2] = [16 << 10, 256 << 20];
const ALONE_MS: [u64; 2] = [0, 100];

pub fn suite() -> Suite {
    let here = group("here", Sides::One, here());
    let mut across = group("across", Sides::Two, across());
    across.standard = vec![Placement::OtherCpu];
    let wake = group("wake", Sides::Two, vec![futex_wake()]);
    Suite {
        name: "limits",
        about: "The limits of the machine: copying memory, a system call, a wake-up, a page fault, the disk.",
        source: "findings of this project; McVoy and Staelin 1996",
        groups: vec![here, across, wake, disk::transfers()],
    }
}

fn here() -> Vec<Case> {
    let calls = Some(Perspective { of: Activity::Calls, per_operation: 1.0 });
    let faults = Some(Perspective { of: Activity::Faults, per_operation: 1.0 });
    let floor = Case {
        perspective: calls,
        ..case("system call", operation("call"), Measure::TIME, |_| repeat(floor::no_such_call))
    };
    let fault = Case {
        perspective: faults,
        ..case("page fault", operation("fault"), Measure::TIME, |_| page_fault())
    };
    let mut cases = vec![floor, fault];
    cases.extend(COPY_BYTES.map(|bytes| {
        let params = Params { chunk_bytes: Some(bytes), ..operation("copy") };
        let make = move |_: &Site| copy(bytes as usize);
        let standard = bytes <= 64 << 10;
        let name = format!("memcpy {}", size(bytes));
        Case { standard, ..case(name, params, Measure::THROUGHPUT, make) }
    }));
    cases.extend(CHASED_BYTES.map(chased));
    cases.extend(ALONE_MS.map(touched_again));
    cases
}

/// Loads lines of a memory one after the other, in an order that nothing can foresee: where the next one
/// is stands in each. What Joy (1980) called a memory cycle.
fn chased(bytes: u64) -> Case {
    const STEP: u64 = LINE_BYTES as u64 / size_of::<u32>() as u64;
    let make = move |_: &Site| {
        let lines = (bytes / LINE_BYTES as u64) as u32;
        let mut order: Vec<u32> = (0..lines).collect();
        let mut random = Random::new(1980);
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        let mut memory = vec![0_u32; (u64::from(lines) * STEP) as usize];
        let followed = order.iter().zip(order.iter().cycle().skip(1));
        for (line, next) in followed {
            memory[(u64::from(*line) * STEP) as usize] = (u64::from(*next) * STEP) as u32;
        }
        let mut at = 0_u32;
        repeat(move || at = black_box(memory[at as usize]))
    };
    let params = Params { chunk_bytes: Some(bytes), ..operation("load") };
    let name = format!("a line loaded after another, {}", size(bytes));
    Case { standard: bytes <= 16 << 10, ..case(name, params, Measure::TIME, make) }
}

/// Touches pages again after nobody has touched them for a while. A host that shares its memory out
/// among guests may have taken them away, and has to bring them back.
fn touched_again(alone_ms: u64) -> Case {
    const PAGES: usize = 4096;
    let page = rustix::param::page_size();
    let make = move |_: &Site| {
        let mut memory = PageBuffer::new(PAGES * page)?;
        // A kernel without huge pages returns an error, which does not matter.
        let _ = memory.refuse_huge_pages();
        memory.fill(1);
        // As many as `size` says.
        work(move |_| {
            // sleep: the time without a touch, which is measured.
            std::thread::sleep(Duration::from_millis(alone_ms));
            let begun = Instant::now();
            for touched in memory.iter_mut().step_by(page) {
                *touched = touched.wrapping_add(1);
            }
            Ok(Batch::time(elapsed_ns(begun), PAGES as u64))
        })
    };
    let name = format!("page touched again after {alone_ms} ms");
    let size = BatchSize::Count(PAGES as u64);
    Case { standard: false, size, ..case(name, operation("touch"), Measure::TIME, make) }
}

/// Touches pages of anonymous memory for the first time.
fn page_fault() -> MadeWork {
    const PAGES: usize = 512;
    let page = rustix::param::page_size();
    let mut memory = PageBuffer::new(PAGES * page)?;
    // A kernel without huge pages returns an error, which does not matter.
    let _ = memory.refuse_huge_pages();
    work(move |count| {
        let (mut elapsed, mut left) = (0.0, count as usize);
        while left > 0 {
            let pages = left.min(PAGES);
            memory.give_back()?;
            let begun = Instant::now();
            for at in 0..pages {
                memory[at * page] = 1;
            }
            elapsed += elapsed_ns(begun);
            left -= pages;
        }
        Ok(Batch::time(elapsed, count))
    })
}

fn copy(bytes: usize) -> MadeWork {
    let (mut from, mut to) = (PageBuffer::new(bytes)?, PageBuffer::new(bytes)?);
    for (at, byte) in from.iter_mut().enumerate() {
        *byte = at as u8;
    }
    work(move |count| {
        let elapsed = timed(count, || {
            std::hint::black_box(&mut *to).copy_from_slice(std::hint::black_box(&from));
            Ok(())
        })?;
        if from[..] != to[..] {
            return Err(CaseError::failed("memory was copied wrongly"));
        }
        Ok(Batch::throughput(elapsed, count * bytes as u64))
    })
}

fn across() -> Vec<Case> {
    let exchange = case("cache-line round trip", operation("exchange"), Measure::TIME, |site| {
        let (here, there) = two_cpus(site)?;
        work(move |_| {
            let trip = line::round_trip_ns(here, there)
                .ok_or_else(|| CaseError::failed("the two sides did not run at the same time"))?;
            Ok(Batch { elapsed_ns: 2e6, values: vec![trip] })
        })
    });
    // The measurement has a fixed length, whatever the count.
    let mut cases = vec![Case { size: BatchSize::Count(1), ..exchange }];
    cases.extend(hand_over::cases());
    cases
}

/// Measures one wake-up by futex: half of a round trip in which both sides sleep.
fn futex_wake() -> Case {
    let params = Params { mechanism: Some("futex".into()), ..operation("wake") };
    let switches = Some(Perspective { of: Activity::Switches, per_operation: 1.0 });
    let wake = case("futex wake", params, Measure::TIME, futex_round_trips);
    Case { normalise: Normalise::OnOneCpu, perspective: switches, ..wake }
}

/// Round trips in which each side sleeps on a word until it is its turn.
pub fn futex_round_trips(site: &Site) -> MadeWork {
    let turns = Turns { shared: SharedPages::new(2 * LINE_BYTES)? };
    let peer = PeerProcess::start(site, |control| {
        control.serve(|| {
            turns.take(1)?;
            turns.give(0)
        })
    })?;
    round_trips(peer, move || {
        turns.give(1)?;
        turns.take(0)
    })
}

/// A shared word that says whose turn it is. Both sides sleep on it.
struct Turns {
    shared: SharedPages,
}

impl Turns {
    /// Gives the turn to `side` and wakes it.
    fn give(&self, side: u32) -> Result<(), CaseError> {
        let word = self.shared.half(0);
        // Release pairs with acquire in `take`: all that this side did before is visible.
        word.store(side, Ordering::Release);
        wake(word, 1)
    }

    /// Sleeps until it is `side`'s turn.
    fn take(&self, side: u32) -> Result<(), CaseError> {
        let word = self.shared.half(0);
        loop {
            let turn = word.load(Ordering::Acquire);
            if turn == side {
                return Ok(());
            }
            sleep(word, turn, None)?;
        }
    }
}

/// Wakes a word on which nobody sleeps.
pub fn futex_wake_nobody() -> MadeWork {
    let shared = SharedPages::new(LINE_BYTES)?;
    try_repeat(move || wake(shared.half(0), 1))
}
