//! Many writers, each a process, and one reader: weir's port beside one competitor each.
//!
//! Writers run on the two CPUs in turn, the first across from the reader. A record's number tells
//! its writer, and the numbers of each writer are checked separately.

use super::gate::Gate;
use super::place::UniqueName;
use super::{Library, MakeLine, RecordFlow, across, competitors, peer_case, weir_port};
use std::time::Instant;
use weir_bench::tools::crew::{Crew, in_turn};
use weir_bench::tools::pattern::Pattern;
use weir_bench::tools::peer::PeerProcess;
use weir_bench::tools::{elapsed_ns, size, work};
use weir_bench::engine::case::{
    Batch, BatchSize, Case, CaseError, Group, MadeWork, Measure, Site,
};

const WRITERS: [u64; 3] = [1, 4, 16];
const BYTES: [usize; 5] = [4, 64, 512, 4 << 10, 64 << 10];
/// Long compared with waking all writers.
const BATCH_NS: u64 = 30_000_000;
/// Records of the smallest batch, of all writers together.
const LEAST_RECORDS: u64 = 1_024;
const OWN: Library = Library { name: "weir-port", line: weir_port::line };
/// Aeron's publications from many clients are not compared.
const COMPETITORS: [&str; 2] = ["iceoryx2", "zeromq"];

/// Returns a group for each competitor, number of writers and size.
pub fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for peer in competitors().into_iter().filter(|peer| COMPETITORS.contains(&peer.name)) {
        for writers in WRITERS {
            groups.extend(BYTES.map(|bytes| pair(peer, writers, bytes)));
        }
    }
    groups
}

fn pair(peer: Library, writers: u64, bytes: usize) -> Group {
    let length = size(bytes as u64);
    let who = if writers == 1 { "1 writer".into() } else { format!("{writers} writers") };
    let cases = [OWN, peer].map(|library| {
        let beside = if library.name == OWN.name { peer.name } else { OWN.name };
        let name = format!("{who} {} {length} (beside {beside})", library.name);
        let make = move |site: &Site| many(site, library.line, writers, bytes);
        let made = peer_case(name, "one-way", library.name, bytes, Measure::RATE, make);
        let mut params = made.params.clone();
        params.writers = Some(writers);
        Case { params, size: BatchSize::Time { ns: BATCH_NS }, weight: 12.0, ..made }
    });
    across(format!("{who} {length} {}", peer.name), cases.into())
}

/// A count is a number of smallest batches, in which each writer sends the same.
fn many(site: &Site, line: MakeLine, writers: u64, bytes: usize) -> MadeWork {
    let (line, gate) = (line(&UniqueName::new(), bytes, RecordFlow::Many(writers))?, Gate::new()?);
    let pattern = |writer| Pattern::of(bytes, writer, writers);
    let mut peer = PeerProcess::start(site, |control| {
        gate.await_beginning()?;
        let mut receiver = line.receiver()?;
        let (mut expected, mut done): (Vec<Pattern>, u64) =
            ((0..writers).map(pattern).collect(), 0);
        loop {
            gate.pass(control, done)?;
            done += receiver.receive(&mut |record| {
                let number = record.first_chunk().map(|number| u32::from_le_bytes(*number));
                let number = number.ok_or_else(|| CaseError::failed("a record was cut"))?;
                expected[(u64::from(number) % writers) as usize].check(record)
            })?;
            control.report(done)?;
        }
    })?;
    let crew = Crew::start(writers, |number| {
        in_turn(site, number)?;
        let (mut sender, mut sent) = (line.sender()?, pattern(number));
        Ok(move || sender.send(sent.next_chunk()))
    })?;
    let mut gate = gate.near();
    work(move |count| {
        gate.begin()?;
        let share = count * LEAST_RECORDS / writers;
        gate.open(&mut peer, share * writers)?;
        let begun = Instant::now();
        crew.send(share)?;
        crew.wait(&peer)?;
        Ok(Batch::rate(elapsed_ns(begun), share * writers))
    })
}
