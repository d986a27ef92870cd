//! Libraries that carry records between processes, weir among them, behind common traits.
//!
//! All copy a record in when they send it, and out into the receiver's own memory when they receive
//! it. The receiver checks the number of each record, and the sum of every 64th. In the suite of
//! loans nothing is copied. All wait by spinning except ZeroMQ, which cannot. Each side opens its
//! end on first use, after the fork, as two programs would.

#![cfg_attr(
    not(all(feature = "aeron", feature = "iceoryx2", feature = "zeromq")),
    allow(dead_code, reason = "what only the missing libraries use")
)]

#[cfg(feature = "aeron")]
mod aeron;
mod gate;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod many;
mod place;
mod weir_own;
mod weir_port;
#[cfg(feature = "zeromq")]
mod zeromq;

pub use place::remove_leftovers;

#[cfg(feature = "iceoryx2")]
use crate::peers::own_case;
use gate::Gate;
use place::UniqueName;
use std::time::Instant;
use weir_bench::tools::pattern::Pattern;
use weir_bench::tools::peer::PeerProcess;
use weir_bench::tools::{case, compared, elapsed_ns, size, work};
use weir_bench::engine::case::{
    Batch, BatchSize, Case, CaseError, Group, MadeWork, Measure, Normalise, Sides, Site, Suite,
};
use weir_bench::engine::params::{Params, Placement};

/// Number of fresh processes of a group.
const PROCESSES: u64 = 10;
/// Long compared with the work of the threads that ZeroMQ and Aeron keep beside the two sides.
const BATCH_NS: u64 = 10_000_000;
const ONE_WAY_BYTES: [usize; 5] = [4, 64, 512, 4 << 10, 64 << 10];
const TWO_WAY_BYTES: [usize; 3] = [48, 64, 512];
const LOAN_BYTES: [usize; 4] = [64, 4 << 10, 64 << 10, 1 << 20];

/// The end that sends.
pub trait RecordSender {
    /// Sends a record; waits for room.
    fn send(&mut self, record: &[u8]) -> Result<(), CaseError>;
}

/// The end that receives.
pub trait RecordReceiver {
    /// Waits for at least one record, copies each that it receives, and shows the copy. Returns how
    /// many there were: more than one if the library returns several per call.
    fn receive(&mut self, see: &mut See) -> Result<u64, CaseError>;
}

/// The function that is shown the received records.
pub type See<'a> = dyn FnMut(&[u8]) -> Result<(), CaseError> + 'a;

/// Both ends of one direction, each opened by the side that uses it.
pub trait LibraryLine {
    fn sender(&self) -> Result<Box<dyn RecordSender>, CaseError>;
    fn receiver(&self) -> Result<Box<dyn RecordReceiver>, CaseError>;
}

/// A library: its name, and the function that makes a line before the fork.
#[derive(Clone, Copy)]
pub struct Library {
    name: &'static str,
    line: MakeLine,
}

type MakeLine = fn(&UniqueName, usize, RecordFlow) -> Result<Box<dyn LibraryLine>, CaseError>;

/// The use of a line: a library may be set up differently for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFlow {
    OneWay,
    TwoWay,
    /// One way, from this many writers.
    Many(u64),
}

impl RecordFlow {
    fn name(self) -> &'static str {
        if self == RecordFlow::TwoWay { "two-way" } else { "one-way" }
    }
}

const OWN: Library = Library { name: "weir-record", line: weir_own::line };

/// Returns the libraries that were built in.
fn competitors() -> Vec<Library> {
    vec![
        #[cfg(feature = "iceoryx2")]
        Library { name: "iceoryx2", line: iceoryx::line },
        #[cfg(feature = "aeron")]
        Library { name: "aeron-ipc", line: aeron::line },
        #[cfg(feature = "zeromq")]
        Library { name: "zeromq", line: zeromq::line },
    ]
}

/// Returns the features without which this was built, separated by commas.
pub fn not_built() -> String {
    let known = [
        ("iceoryx2", cfg!(feature = "iceoryx2")),
        ("aeron", cfg!(feature = "aeron")),
        ("zeromq", cfg!(feature = "zeromq")),
    ];
    let missing: Vec<&str> = known.iter().filter(|(_, built)| !built).map(|k| k.0).collect();
    missing.join(", ")
}

/// Returns the suites that have something to compare.
pub fn catalogue() -> Vec<Suite> {
    let suites = vec![
        Suite {
            name: "records",
            about: "records one way: copied in, copied out",
            source: "iceoryx2, Aeron (C), ZeroMQ push/pull",
            groups: pairs(&ONE_WAY_BYTES, RecordFlow::OneWay, Measure::RATE),
        },
        Suite {
            name: "round-trips",
            about: "records there and back: copied in, copied out",
            source: "iceoryx2, Aeron (C), ZeroMQ push/pull",
            groups: pairs(&TWO_WAY_BYTES, RecordFlow::TwoWay, Measure::TIME),
        },
        Suite {
            name: "loans",
            about: "records there and back by loan: two bytes written, nothing copied",
            source: "iceoryx2 without copy",
            groups: loans(),
        },
        Suite {
            name: "many-writers",
            about: "records from 1, 4 and 16 writers to one reader: copied in, copied out",
            source: "iceoryx2 with many publishers, ZeroMQ with many pushers",
            groups: many::groups(),
        },
    ];
    suites.into_iter().filter(|suite| !suite.groups.is_empty()).collect()
}

/// Compares weir with one competitor at a time: the threads that a competitor keeps running would
/// disturb others too.
fn pairs(sizes: &[usize], direction: RecordFlow, measure: Measure) -> Vec<Group> {
    let with = |peer: Library| sizes.iter().map(move |bytes| (peer, *bytes));
    let pairs = competitors().into_iter().flat_map(with);
    pairs.map(|(peer, bytes)| pair(peer, bytes, direction, measure)).collect()
}

fn pair(peer: Library, bytes: usize, direction: RecordFlow, measure: Measure) -> Group {
    let (length, way) = (size(bytes as u64), direction.name());
    let cases = [OWN, peer].map(|library| {
        let beside = if library.name == OWN.name { peer.name } else { OWN.name };
        let name = format!("{way} {} {length} (beside {beside})", library.name);
        peer_case(name, way, library.name, bytes, measure, move |site| match direction {
            RecordFlow::TwoWay => two_way(site, library, bytes),
            _ => one_way(site, library, bytes),
        })
    });
    across(format!("{way} {length} {}", peer.name), cases.into())
}

#[cfg(not(feature = "iceoryx2"))]
fn loans() -> Vec<Group> {
    Vec::new()
}

#[cfg(feature = "iceoryx2")]
fn loans() -> Vec<Group> {
    LOAN_BYTES.map(loan).into()
}

#[cfg(feature = "iceoryx2")]
fn loan(bytes: usize) -> Group {
    let length = size(bytes as u64);
    let name = format!("two-way iceoryx2 by loan {length}");
    let make = move |site: &Site| iceoryx::loans(site, bytes);
    let other = peer_case(name, "two-way", "iceoryx2-loan", bytes, Measure::TIME, make);
    let own = own_case("joy-ipc", &format!("two-way weir-record by loan {length}"));
    across(format!("loan {length}"), own.into_iter().chain([other]).collect())
}

fn across(name: String, cases: Vec<Case>) -> Group {
    Group {
        processes: PROCESSES,
        standard: vec![Placement::OtherCpu],
        ..compared(name, Sides::Two, cases)
    }
}

fn peer_case(
    name: String,
    direction: &str,
    mechanism: &str,
    bytes: usize,
    measure: Measure,
    make: impl Fn(&Site) -> MadeWork + Send + Sync + 'static,
) -> Case {
    let params = Params {
        mechanism: Some(mechanism.into()),
        direction: Some(direction.into()),
        chunk_bytes: Some(bytes as u64),
        ..Params::default()
    };
    let size = BatchSize::Time { ns: BATCH_NS };
    Case { normalise: Normalise::OnOneCpu, size, weight: 4.0, ..case(name, params, measure, make) }
}

fn one_way(site: &Site, library: Library, bytes: usize) -> MadeWork {
    let (line, gate) =
        ((library.line)(&UniqueName::new(), bytes, RecordFlow::OneWay)?, Gate::new()?);
    let mut peer = PeerProcess::start(site, |control| {
        gate.await_beginning()?;
        let mut receiver = line.receiver()?;
        let (mut expected, mut done) = (Pattern::new(bytes), 0);
        loop {
            gate.pass(control, done)?;
            done += receiver.receive(&mut |record| expected.check(record))?;
            control.report(done)?;
        }
    })?;
    let (mut gate, mut sender, mut sent) = (gate.near(), None, Pattern::new(bytes));
    work(move |count| {
        gate.begin()?;
        let sender = first_time(&mut sender, || line.sender())?;
        gate.open(&mut peer, count)?;
        let begun = Instant::now();
        for _ in 0..count {
            sender.send(sent.next_chunk())?;
        }
        peer.wait()?;
        Ok(Batch::rate(elapsed_ns(begun), count))
    })
}

fn two_way(site: &Site, library: Library, bytes: usize) -> MadeWork {
    let there = (library.line)(&UniqueName::new(), bytes, RecordFlow::TwoWay)?;
    let (back, gate) =
        ((library.line)(&UniqueName::new(), bytes, RecordFlow::TwoWay)?, Gate::new()?);
    let mut peer = PeerProcess::start(site, |control| {
        gate.await_beginning()?;
        let (mut receiver, mut sender) = (there.receiver()?, back.sender()?);
        let (mut expected, mut sent, mut done) = (Pattern::new(bytes), Pattern::new(bytes), 0);
        loop {
            gate.pass(control, done)?;
            done += receiver.receive(&mut |record| expected.check(record))?;
            sender.send(sent.next_chunk())?;
            control.report(done)?;
        }
    })?;
    let (mut gate, mut ends) = (gate.near(), None);
    let (mut sent, mut expected) = (Pattern::new(bytes), Pattern::new(bytes));
    work(move |count| {
        gate.begin()?;
        let open = || {
            let receiver = back.receiver()?;
            Ok((there.sender()?, receiver))
        };
        let (sender, receiver) = first_time(&mut ends, open)?;
        gate.open(&mut peer, count)?;
        let begun = Instant::now();
        for _ in 0..count {
            sender.send(sent.next_chunk())?;
            receiver.receive(&mut |record| expected.check(record))?;
        }
        let elapsed = elapsed_ns(begun);
        peer.wait()?;
        Ok(Batch::time(elapsed, count))
    })
}

/// Turns an error of weir into one of a case.
fn trouble(error: weir::Error) -> CaseError {
    CaseError::failed(error.to_string())
}

/// Returns the end, which the first call opens.
fn first_time<T>(
    end: &mut Option<T>,
    open: impl FnOnce() -> Result<T, CaseError>,
) -> Result<&mut T, CaseError> {
    if end.is_none() {
        *end = Some(open()?);
    }
    end.as_mut().ok_or_else(|| CaseError::failed("the end is not open"))
}
