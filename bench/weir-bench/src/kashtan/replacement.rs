//! How near to the optimum a rule of replacement comes: the faults of one recorded string of
//! references under each rule, and under Belady's, which knows the rest of the string.
//!
//! Joy (1980): circular or random replacement is nearly optimal. The rules are those of a region, one
//! page at a time, without a disk, so the faults are the same in each run. Half of the pages fit.
//! Memory is empty at the beginning, and those faults count.

use super::PAGES;
use super::walk::{TouchOrder, Walk};
use crate::tools::prelude::*;
use std::collections::BTreeSet;
use std::time::Instant;
use weir_policy::paging::{PageReplacement, PagingAction, PagingPolicy, PagingSettings, Touch};

/// References of a string: three times around the pages.
const REFERENCES: usize = 3 * PAGES;
const FRAMES: usize = PAGES / 2;
const ORDERS: [TouchOrder; 3] = [TouchOrder::Sequential, TouchOrder::Random, TouchOrder::Walk(60)];
/// The rules by their names; none is the optimum.
pub const RULES: [(&str, Option<PageReplacement>); 4] = [
    ("circular", Some(PageReplacement::Fifo)),
    ("clock", Some(PageReplacement::Clock)),
    ("random", Some(PageReplacement::Random)),
    ("optimum", None),
];

/// Faults of a hundred references.
pub fn group_of_rules() -> Group {
    let cases =
        ORDERS.into_iter().flat_map(|order| RULES.map(|(name, rule)| one(order, name, rule)));
    group("replacement", Sides::One, cases.collect())
}

fn one(order: TouchOrder, name: &str, rule: Option<PageReplacement>) -> Case {
    let params = Params {
        mechanism: Some(name.into()),
        pattern: Some(order.name()),
        operation: Some("faults".into()),
        memory_share: Some(FRAMES as f64 / PAGES as f64),
        ..Params::default()
    };
    Case {
        standard: false,
        normalise: Normalise::Never,
        size: BatchSize::Count(1),
        ..case(
            format!("replacement: {name}, {}", order.name()),
            params,
            Measure::new("faults", Unit::Percent),
            move |_| counted(order, rule),
        )
    }
}

fn counted(order: TouchOrder, rule: Option<PageReplacement>) -> MadeWork {
    let mut walk = Walk::new(order, 1980);
    let string: Vec<u32> = (0..REFERENCES).map(|_| walk.next_page() as u32).collect();
    work(move |_| {
        let begun = Instant::now();
        let faults = match rule {
            Some(rule) => faults(&string, rule)?,
            None => least_faults(&string),
        };
        let elapsed_ns = begun.elapsed().as_nanos() as f64;
        Ok(Batch { elapsed_ns, values: vec![100.0 * faults as f64 / REFERENCES as f64] })
    })
}

/// The faults of a string under a rule of a region.
fn faults(string: &[u32], replacement: PageReplacement) -> Result<u64, CaseError> {
    let failed = || CaseError::failed("the decisions of paging alone do not go on");
    let settings = PagingSettings {
        pages: PAGES as u32,
        frames: FRAMES as u32,
        most_cluster: 1,
        replacement,
        looks: false,
        starts_filed: true,
    };
    let mut policy = PagingPolicy::new(settings).map_err(|_| failed())?;
    for page in string {
        while policy.touch(*page, false) != Touch::Here {
            policy.bring(*page);
            while let Some(action) = policy.action() {
                match action {
                    PagingAction::Read(run) | PagingAction::Zero(run) => policy.came(run, true),
                    PagingAction::Drop(_) => {}
                    // Nothing is written, and all touches are seen.
                    PagingAction::Write(_) | PagingAction::Look(_) => return Err(failed()),
                }
            }
        }
    }
    Ok(policy.counts().hard)
}

/// The fewest faults that any rule could have: the page goes whose next use is the furthest away.
fn least_faults(string: &[u32]) -> u64 {
    let mut next = vec![usize::MAX; string.len()];
    let mut last = vec![usize::MAX; PAGES];
    for (at, page) in string.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut last[*page as usize], at);
    }
    // The pages in memory by their next use. A page that has none is told from others by itself.
    let mut uses: BTreeSet<(usize, u32)> = BTreeSet::new();
    let mut faults = 0;
    for (at, page) in string.iter().enumerate() {
        if !uses.remove(&(at, *page)) {
            faults += 1;
            if uses.len() == FRAMES {
                uses.pop_last();
            }
        }
        uses.insert((next[at], *page));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_has_fewer_faults_than_the_optimum() {
        for order in ORDERS {
            let mut walk = Walk::new(order, 7);
            let string: Vec<u32> = (0..REFERENCES).map(|_| walk.next_page() as u32).collect();
            let least = least_faults(&string);
            let distinct = string.iter().collect::<BTreeSet<_>>().len() as u64;
            assert!(least >= distinct, "{order:?}: each page faults once");
            for rule in PageReplacement::ALL {
                let faults = faults(&string, rule).expect("faults");
                assert!(faults >= least, "{order:?}, {rule:?}: {faults} of at least {least}");
            }
        }
        // Three times around twice the frames: all but a frame stay of each round.
        let around: Vec<u32> = (0..3 * PAGES as u32).map(|at| at % PAGES as u32).collect();
        let kept = FRAMES as u64 - 1;
        let rounds = 3 * PAGES as u64;
        let least = least_faults(&around);
        assert!(least <= rounds - 2 * kept && least >= rounds - 2 * FRAMES as u64, "{least}");
    }
}
