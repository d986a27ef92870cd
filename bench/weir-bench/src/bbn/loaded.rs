//! `bbn-loaded`: two pairs that move blocks through pipes while a file is copied without end, and
//! one pair alone for comparison.
//!
//! The report ran t.pipe1 twice, with 1000 blocks of 128 bytes and with 100 of 4096, beside a copy of
//! a file, and has the real and system time of each of the two. Here a pair is a writer and a reader.
//! The copy reads the disk and writes to it (`crate::engine::load`). A second group has the pairs and
//! the copy in one pool.

use super::{LOADED_COSTS, Meter};
use crate::engine::load;
use crate::sys::shared::{LINE_BYTES, SharedPages};
use crate::tools::background::Background;
use crate::tools::channel::Mechanism;
use crate::tools::own::PipeSettings;
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use crate::tools::stream::OneWay;
use rustix::fd::OwnedFd;
use std::sync::atomic::Ordering;

const BYTES: [u64; 5] = [64, 128, 512, 4_096, 65_536];
/// The mechanisms; the report's is the first.
const MECHANISMS: [(&str, Mechanism); 2] =
    [("", Mechanism::Pipe(0)), (" by weir's pipe", Mechanism::WeirPipe(PipeSettings::DEFAULT))];

pub fn suite() -> Suite {
    let mut cases = Vec::new();
    for bytes in BYTES {
        for (title, mechanism) in MECHANISMS {
            for loaded in [false, true] {
                cases.push(one(bytes, title, mechanism, loaded));
            }
        }
    }
    let mut pairs = group("pairs", Sides::Two, cases);
    pairs.standard = vec![Placement::Free, Placement::OtherCpu];
    Suite {
        name: "bbn-loaded",
        about: "How much each of two pipes carries while a file is copied beside them all the time.",
        source: "BBN Report 3970 (M. Kranc, November 1978), the loaded system",
        groups: vec![pairs, super::one_pool::group_of_one_pool()],
    }
}

fn one(bytes: u64, title: &str, mechanism: Mechanism, loaded: bool) -> Case {
    let params = Params {
        chunk_bytes: Some(bytes),
        parties: Some(if loaded { 4 } else { 2 }),
        operation: Some(if loaded { "loaded" } else { "alone" }.into()),
        ..moving(mechanism.name(), "one-way")
    };
    let what = if loaded { "two pairs and a copy" } else { "one pair" };
    let make = move |site: &Site| pairs(site, mechanism, bytes as usize, loaded);
    // The second pair is missing where there is one.
    let measures = if loaded { LOADED_COSTS.to_vec() } else { LOADED_COSTS[..3].to_vec() };
    Case {
        standard: false,
        normalise: Normalise::OnOneCpu,
        measures,
        // Long enough for the scheduler to share out the CPUs, and for the kernel's clock ticks.
        size: BatchSize::Time { ns: 60_000_000 },
        weight: 6.0,
        ..case(format!("{what}{title}, {}", size(bytes)), params, Measure::THROUGHPUT, make)
    }
}

fn pairs(site: &Site, mechanism: Mechanism, bytes: usize, loaded: bool) -> MadeWork {
    let mut stream = OneWay::start(site, mechanism, bytes)?;
    let mut second = if loaded { Some(SecondPair::start(site, mechanism, bytes)?) } else { None };
    let copying = Site { load: Load::Copy, placement: Placement::Free, ..site.clone() };
    let copy = if loaded { load::start(&copying)? } else { Vec::new() };
    let copy = Background::new(copy)?;
    work(move |count| {
        let _running = copy.run()?;
        if let Some(second) = &mut second {
            second.begin(count)?;
        }
        let meter = Meter::start(stream.peer());
        let elapsed_ns = stream.send(count)?;
        // Real, user, system, CPU, throughput.
        let costs = meter.stop(stream.peer(), count, bytes as u64).values;
        let mut values = vec![costs[4], costs[0], costs[2]];
        if let Some(second) = &second {
            values.extend(second.wait()?.map(|ns| ns as f64 / count as f64));
        }
        Ok(Batch { elapsed_ns, values })
    })
}

const REAL: usize = 0;
const SYSTEM: usize = 1;

/// Another pair: a process that measures itself and its own reader.
struct SecondPair {
    peer: PeerProcess,
    requests: OwnedFd,
    results: SharedPages,
}

impl SecondPair {
    fn start(site: &Site, mechanism: Mechanism, bytes: usize) -> Result<SecondPair, CaseError> {
        let results = SharedPages::new(2 * LINE_BYTES)?;
        let (asked, requests) = rustix::pipe::pipe()?;
        let peer = PeerProcess::start(site, |control| {
            // Its writer is where the first pair's is: it was started where readers are.
            site.go_here()?;
            let (mut done, mut count) = (0, [0; 8]);
            let mut stream = OneWay::start(site, mechanism, bytes)?;
            while rustix::io::read(&asked, &mut count)? == count.len() {
                let blocks = u64::from_le_bytes(count);
                let meter = Meter::start(stream.peer());
                stream.send(blocks)?;
                let costs = meter.stop(stream.peer(), 1, 1).values;
                results.word(REAL).store(costs[0] as u64, Ordering::Release);
                results.word(SYSTEM).store(costs[2] as u64, Ordering::Release);
                done += 1;
                control.report(done)?;
            }
            Ok(())
        })?;
        Ok(SecondPair { peer, requests, results })
    }

    fn begin(&mut self, count: u64) -> Result<(), CaseError> {
        self.peer.more(1);
        rustix::io::write(&self.requests, &count.to_le_bytes())?;
        Ok(())
    }

    /// Waits for its end. Returns real and system time of all its blocks.
    fn wait(&self) -> Result<[u64; 2], CaseError> {
        self.peer.wait()?;
        // The words were stored before the report.
        Ok([REAL, SYSTEM].map(|word| self.results.word(word).load(Ordering::Acquire)))
    }
}
