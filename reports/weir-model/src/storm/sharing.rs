//! Random regions that share frames: which of them gives, and how many.
//!
//! The one that gives has the most frames for each fault, and half as many again as the one that
//! asks. It keeps what it has to keep. Frames are neither lost nor made, whoever comes or dies.

use super::{Ended, Trace};
use weir_policy::paging::sharing::{ShareFacts, giver, gives};
use weir_policy::random::Random;

const STEPS: u64 = 120;

#[derive(Clone, Debug)]
#[expect(dead_code, reason = "it is read by being printed")]
struct Traced {
    asker: Option<usize>,
    giver: Option<usize>,
    regions: Vec<ShareFacts>,
}

/// Runs the storm of a seed.
pub(super) fn storm(seed: u64) -> Ended {
    let mut random = Random::new(seed ^ 0x5a4e5);
    let mut trace = Trace::new();
    let ran = run(&mut random, &mut trace);
    trace.ended(ran)
}

fn run(random: &mut Random, trace: &mut Trace<Traced>) -> Result<(), String> {
    let whole = 64 + random.below(4000) as u32;
    let mut free = whole;
    let mut regions: Vec<ShareFacts> = Vec::new();
    for _ in 0..STEPS {
        match random.below(6) {
            0 => {
                let least = 1 + random.below(16) as u32;
                if least <= free && regions.len() < 12 {
                    free -= least;
                    regions.push(ShareFacts { frames: least, least, faults: 0 });
                }
            }
            1 if !regions.is_empty() && random.once_in(4) => {
                let at = random.below(regions.len() as u64) as usize;
                free += regions.swap_remove(at).frames;
            }
            2 => regions.iter_mut().for_each(|region| region.faults /= 2),
            _ => fault(random, &mut regions, &mut free, trace)?,
        }
        let held: u32 = regions.iter().map(|region| region.frames).sum();
        if held + free != whole {
            return Err(format!("{held} frames are held and {free} are free, of {whole}"));
        }
        if let Some(poor) = regions.iter().find(|region| region.frames < region.least) {
            return Err(format!("{poor:?} has less than it keeps"));
        }
    }
    Ok(())
}

/// A region faults, and gets frames: free ones, or those of another.
fn fault(
    random: &mut Random,
    regions: &mut [ShareFacts],
    free: &mut u32,
    trace: &mut Trace<Traced>,
) -> Result<(), String> {
    if regions.is_empty() {
        return Ok(());
    }
    let at = random.below(regions.len() as u64) as usize;
    // A count that was never reset, now and then.
    let many = if random.once_in(50) { u64::MAX } else { 1 + random.below(50) };
    regions[at].faults = regions[at].faults.saturating_add(many);
    let asker = (!random.once_in(8)).then_some(at);
    if *free > 0 && !random.once_in(3) {
        let taken = 1 + random.below(u64::from(*free)) as u32;
        *free -= taken;
        regions[at].frames += taken;
        return Ok(());
    }
    let chosen = giver(regions, asker);
    trace.push(Traced { asker, giver: chosen, regions: regions.to_vec() });
    check(regions, asker, chosen)?;
    let Some(from) = chosen else { return Ok(()) };
    let count = gives(&regions[from]);
    let spare = regions[from].frames - regions[from].least;
    if count == 0 || count > spare || count > (regions[from].frames / 16).max(1) {
        return Err(format!("{:?} gives {count} frames", regions[from]));
    }
    regions[from].frames -= count;
    match asker {
        Some(at) => regions[at].frames += count,
        None => *free += count,
    }
    Ok(())
}

/// Frames for each fault of one are more than so many tenths of those of another.
fn more(one: &ShareFacts, other: &ShareFacts, tenths: u128) -> bool {
    let each =
        |of: &ShareFacts, with: &ShareFacts| u128::from(of.frames) * (u128::from(with.faults) + 1);
    10 * each(one, other) > tenths * each(other, one)
}

fn check(
    regions: &[ShareFacts],
    asker: Option<usize>,
    chosen: Option<usize>,
) -> Result<(), String> {
    let may = |at: usize| Some(at) != asker && regions[at].frames > regions[at].least;
    let enough = |at: usize| asker.is_none_or(|asker| more(&regions[at], &regions[asker], 15));
    let Some(at) = chosen else {
        return match (0..regions.len()).find(|at| may(*at) && enough(*at)) {
            None => Ok(()),
            Some(at) => Err(format!("nobody gives, and {:?} could", regions[at])),
        };
    };
    if !may(at) || !enough(at) {
        return Err(format!("{:?} gives, and may not", regions[at]));
    }
    match (0..regions.len()).find(|other| may(*other) && more(&regions[*other], &regions[at], 10)) {
        Some(other) => Err(format!("{:?} gives, and {:?} has more", regions[at], regions[other])),
        None => Ok(()),
    }
}
