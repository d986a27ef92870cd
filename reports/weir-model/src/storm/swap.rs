//! Random regions in one memory: which one goes whole, and when.
//!
//! Regions grow, shrink, are pinned, die; clocks jump. The one that goes may go, no more than the
//! allowed number are larger, and of these none is older. Thrashing is never told twice in a row, nor
//! of an interval in which nobody waited.

use super::{Ended, Trace};
use weir_policy::paging::swapping::{Interval, LARGEST, SwapFacts, Thrashing, choose};
use weir_policy::random::Random;

const STEPS: u64 = 60;

/// Runs the storm of a seed.
pub(super) fn storm(seed: u64) -> Ended {
    let mut random = Random::new(seed ^ 0x5a3b);
    let mut trace = Trace::new();
    let ran = run(&mut random, &mut trace);
    trace.ended(ran)
}

#[derive(Clone, Debug)]
#[expect(dead_code, reason = "it is read by being printed")]
enum Traced {
    Chosen(Option<usize>, Vec<SwapFacts>),
    Interval(Interval, bool),
}

fn run(random: &mut Random, trace: &mut Trace<Traced>) -> Result<(), String> {
    let mut regions: Vec<SwapFacts> = Vec::new();
    let mut thrashing = Thrashing::default();
    let (mut now_ns, mut told_before, mut bad_before) = (0_u64, false, false);
    for _ in 0..STEPS {
        // Clocks jump, now and then very far.
        let far = if random.once_in(20) { u64::MAX } else { 1000 };
        now_ns = now_ns.saturating_add(random.below(far));
        match random.below(4) {
            0 => regions.push(SwapFacts {
                frames: random.below(50) as u32,
                since_ns: now_ns,
                stays: random.once_in(4),
            }),
            1 if !regions.is_empty() => {
                let at = random.below(regions.len() as u64) as usize;
                regions.swap_remove(at);
            }
            _ => {
                for region in &mut regions {
                    if random.once_in(3) {
                        region.frames = random.below(50) as u32;
                    }
                }
            }
        }
        let largest = if random.once_in(2) { LARGEST } else { random.below(8) as usize };
        let chosen = choose(&regions, largest);
        trace.push(Traced::Chosen(chosen, regions.clone()));
        check(&regions, largest, chosen)?;
        if let Some(at) = chosen {
            // It goes out, and comes back some time.
            regions[at].stays = true;
        }
        let interval = Interval {
            ns: 1 + random.below(1000),
            waited_ns: random.below(4000),
            threads: random.below(4) as u32,
            hard: random.below(10),
            again: random.below(10),
        };
        let told = thrashing.interval(interval);
        trace.push(Traced::Interval(interval, told));
        let waits = 2 * interval.waited_ns > interval.ns * u64::from(interval.threads);
        let bad = waits && interval.hard > 0 && 2 * interval.again > interval.hard;
        if told && (told_before || !bad || !bad_before) {
            return Err(String::from("a region is to go without two bad intervals in a row"));
        }
        if !told && bad && bad_before && !told_before {
            return Err(String::from("two bad intervals, and no region is to go"));
        }
        (told_before, bad_before) = (told, bad && !told);
    }
    Ok(())
}

fn check(regions: &[SwapFacts], largest: usize, chosen: Option<usize>) -> Result<(), String> {
    let can_go = |region: &&SwapFacts| !region.stays && region.frames > 0;
    let Some(at) = chosen else {
        return match regions.iter().find(can_go) {
            None => Ok(()),
            Some(region) => Err(format!("nobody goes, and {region:?} could")),
        };
    };
    let goes = &regions[at];
    if !can_go(&goes) {
        return Err(format!("{goes:?} goes, and may not"));
    }
    let mut sizes: Vec<u32> = regions.iter().filter(can_go).map(|region| region.frames).collect();
    sizes.sort_by_key(|size| std::cmp::Reverse(*size));
    let least = sizes[largest.max(1).min(sizes.len()) - 1];
    if goes.frames < least {
        return Err(format!("{goes:?} goes, and is not among the {largest} largest"));
    }
    // Older ones that are larger than the least of the largest would have gone.
    let older = |other: &&SwapFacts| other.frames > least && other.since_ns < goes.since_ns;
    match regions.iter().filter(can_go).find(older) {
        Some(older) => Err(format!("{goes:?} goes, and {older:?} is older")),
        None => Ok(()),
    }
}
