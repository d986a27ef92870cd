//! Blocks written by each rule, against the fewest possible, for four loads of 16 streams.

mod pool_world;

use pool_world::World;
use pool_world::loads::{self, Kind, STREAMS};
use weir_policy::pool::{Counts, Rule, Settings};

/// Shares of the largest backlog that memory holds.
const SHARES: [f64; 2] = [0.25, 0.6];

fn settings(frames: u32, rule: Rule) -> Settings {
    Settings { frames, slots: 200_000, cluster: 4, transfers: 32, rule }
}

fn run(kind: Kind, share: f64, rule: Rule, seed: u64) -> (Counts, u64, World) {
    let load = loads::make(kind, seed);
    let frames = (f64::from(loads::peak(&load)) * share) as u32;
    let fewest = loads::fewest_writes(&load, frames);
    let mut world = World::new(settings(frames, rule), STREAMS);
    world.run(&load);
    (world.finished(), fewest, world)
}

/// Loads that the goals are held to: as many times the fewest writes as on the mean of these.
const SEEDS: [u64; 4] = [1, 2, 3, 4];

/// How many times the fewest writes a rule needs, for each seed.
fn ratios(kind: Kind, share: f64, rule: Rule) -> Vec<f64> {
    let ratio = |seed: &u64| {
        let (counts, fewest, _) = run(kind, share, rule, *seed);
        counts.spilled as f64 / fewest as f64
    };
    SEEDS.iter().map(ratio).collect()
}

fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

#[test]
fn the_default_rule_is_near_the_fewest_writes() {
    for kind in Kind::ALL {
        for share in SHARES {
            let ratios = ratios(kind, share, Rule::default());
            let most = if kind.is_steady() { 1.1 } else { 1.5 };
            assert!(mean(&ratios) <= most, "{kind:?} {share}: {ratios:.3?}");
            assert!(
                ratios.iter().all(|ratio| *ratio <= most + 0.1),
                "{kind:?} {share}: {ratios:.3?}"
            );
        }
    }
}

#[test]
fn the_rules_of_the_past_write_more() {
    for kind in Kind::ALL {
        for share in SHARES {
            let ours = mean(&ratios(kind, share, Rule::LongestDrain));
            for rule in [Rule::OldestFirst, Rule::WriteThrough, Rule::Bbn] {
                let theirs = mean(&ratios(kind, share, rule));
                assert!(theirs > ours * 1.2, "{kind:?} {share} {rule:?}: {theirs:.2}, {ours:.2}");
            }
        }
    }
}

#[test]
fn rules_side_by_side() {
    // For people: cargo test -p weir-policy --release --test pool_simulation -- --nocapture
    for kind in Kind::ALL {
        for share in SHARES {
            print!("{kind:?}, memory {share} of the largest backlog:");
            for rule in Rule::ALL {
                let ratio = mean(&ratios(kind, share, rule));
                print!("  {} {ratio:.2}", rule.name());
            }
            println!();
        }
    }
}
