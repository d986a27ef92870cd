//! `bbn-loaded`: two pairs that move blocks through pipes while a file is copied without end, and
//! one pair alone for comparison.

use crate::tools::background::{Background, endless};
use crate::tools::channel::{BenchChannel, Mechanism};
use crate::tools::pattern::Pattern;
use crate::tools::prelude::*;
use crate::tools::stream::OneWay;
use weir_measure::bench::load;
use weir_measure_sys::fork::Child;

const BYTES: [u64; 4] = [64, 512, 4_096, 65_536];

pub fn suite() -> Suite {
    let mut cases = Vec::new();
    for bytes in BYTES {
        for loaded in [false, true] {
            let params = Params {
                chunk_bytes: Some(bytes),
                parties: Some(if loaded { 4 } else { 2 }),
                operation: Some(if loaded { "loaded" } else { "alone" }.into()),
                ..moving("kernel-pipe", "one-way")
            };
            let what = if loaded { "two pairs and a copy" } else { "one pair" };
            let make = move |site: &Site| pair(site, bytes as usize, loaded);
            cases.push(Case {
                standard: false,
                // Long enough for the scheduler to share out the CPUs.
                size: BatchSize::Time { ns: 40_000_000 },
                weight: 4.0,
                ..case(format!("{what}, {}", size(bytes)), params, Measure::THROUGHPUT, make)
            });
        }
    }
    let mut pairs = group("pairs", Sides::Two, cases);
    pairs.standard = vec![Placement::Free, Placement::OtherCpu];
    Suite {
        name: "bbn-loaded",
        about: "How much two pipes carry while a file is copied beside them all the time.",
        source: "BBN Report 3970 (M. Kranc, November 1978), the loaded system",
        groups: vec![pairs],
    }
}

fn pair(site: &Site, bytes: usize, loaded: bool) -> MadeWork {
    let mut stream = OneWay::start(site, Mechanism::Pipe(0), bytes)?;
    let others = if loaded { others(site, bytes)? } else { Vec::new() };
    let others = Background::new(others)?;
    work(move |count| {
        let _running = others.run()?;
        Ok(Batch::throughput(stream.send(count)?, count * bytes as u64))
    })
}

/// Starts a second pair and a copy.
fn others(site: &Site, bytes: usize) -> Result<Vec<Child>, CaseError> {
    let channel = BenchChannel::new(Mechanism::Pipe(0), bytes)?;
    let mut children = Vec::new();
    for writes in [true, false] {
        let go = || if writes { site.go_here() } else { site.go_there() };
        let (mut pattern, mut buffer) = (Pattern::new(bytes), vec![0; bytes]);
        children.push(endless(go, || match writes {
            true => channel.send_next(&mut pattern),
            false => channel.receive_next(&mut pattern, &mut buffer),
        })?);
    }
    let copying = Site { load: Load::Copy, placement: Placement::Free, ..site.clone() };
    children.extend(load::start(&copying)?);
    Ok(children)
}
