//! `port-writers`: many writers and one reader, by the number of writers and the size of a message.
//!
//! This is a suite of its own because the quantities of `bbn-port` are those of a report with one
//! writer, and because cells with hundreds of processes need fewer and longer batches. Between
//! batches the reader and the writers, each a process, sleep. In a batch every writer sends the
//! same number of messages. Each writer numbers its messages; the reader checks every number, and
//! the sum of every 64th message.

mod way;

use crate::sys::shared::{LINE_BYTES, SharedPages};
use crate::tools::crew::{Crew, in_turn};
use crate::tools::pattern::Pattern;
use crate::tools::peer::{Control, PeerProcess};
use crate::tools::prelude::*;
use std::hint::spin_loop;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use way::{FanIn, FanInSetup};

const WRITERS: [u64; 5] = [1, 4, 16, 64, 256];
const BYTES: [u64; 4] = [4, 64, 512, 4_096];
/// Messages of the smallest batch, of all writers together. With fewer, the batch would mostly
/// measure waking.
const LEAST_MESSAGES: u64 = 4_096;
/// Fresh processes of a group with many writers.
const PROCESSES: u64 = 10;
/// Long compared with waking all writers.
const BATCH_NS: u64 = 30_000_000;
/// The batch length with 64 writers and more, whose rings hold more.
const LARGE_BATCH_NS: u64 = 120_000_000;
/// Long compared with the time slices of the writers.
const ALIKE_NS: u64 = 1_000_000_000;
/// The time that the reader works on a message in the cases on fairness, where messages must wait
/// for it. Otherwise a writer on a CPU of its own is served for as long as those that share the
/// reader's CPU are not scheduled.
const WORK: Duration = Duration::from_micros(1);
/// The ratio of the most to the least served of equally busy writers, in percent; 100 is equal.
const SPREAD: Measure = Measure::new("most over least served", Unit::Percent);

pub fn suite() -> Suite {
    let mut groups: Vec<Group> = BYTES.map(beside_records).into();
    groups.extend(BYTES.map(sixteen_beside_one));
    groups.extend(WRITERS.iter().flat_map(|writers| BYTES.map(|bytes| ways(*writers, bytes))));
    groups.extend([64, 16].map(alike));
    Suite {
        name: "port-writers",
        about: "1 to 256 writers to one reader: messages a second, and whether all writers are served equally.",
        source: "BBN Report 3970 (1978): ports; compared with today's tools",
        groups,
    }
}

/// Compares one writer through a port with a record pipe of the same capacity, which has neither
/// header nor choice.
fn beside_records(bytes: u64) -> Group {
    let cases = [FanIn::Records, FanIn::Port].map(|way| rated(way, 1, bytes, " (port or records)"));
    Group { processes: 2 * PROCESSES, ..across(format!("one writer, {}", size(bytes)), cases) }
}

/// Compares sixteen writers with one, through a port.
fn sixteen_beside_one(bytes: u64) -> Group {
    let cases = [1, 16].map(|writers| rated(FanIn::Port, writers, bytes, " (1 or 16)"));
    across(format!("16 beside 1, {}", size(bytes)), cases)
}

/// Compares all mechanisms with this number of writers.
fn ways(writers: u64, bytes: u64) -> Group {
    let cases = FanIn::OF_MANY.map(|way| rated(way, writers, bytes, ""));
    let made = across(format!("{writers} writers, {}", size(bytes)), cases);
    // A twin of hundreds of processes would show no more than those of the other groups.
    Group { twin: writers < 64, ..made }
}

/// Measures whether a reader for whom all writers wait serves them equally.
fn alike(writers: u64) -> Group {
    let cases = FanIn::OF_MANY.map(|way| {
        let case = recipe(way, writers, 64, "served alike, ", "", true);
        let size = BatchSize::Time { ns: ALIKE_NS };
        Case { measures: vec![SPREAD], size, weight: 60.0, normalise: Normalise::Never, ..case }
    });
    let made = across(format!("served alike, {writers} writers"), cases);
    Group { baseline: None, twin: false, ..made }
}

fn across<const N: usize>(name: String, cases: [Case; N]) -> Group {
    Group {
        processes: PROCESSES,
        standard: vec![Placement::OtherCpu],
        ..compared(name, Sides::Two, cases.into())
    }
}

fn rated(way: FanIn, writers: u64, bytes: u64, beside: &str) -> Case {
    let (ns, weight) = if writers < 64 { (BATCH_NS, 10.0) } else { (LARGE_BATCH_NS, 32.0) };
    let size = BatchSize::WholeTime { ns };
    Case { size, weight, ..recipe(way, writers, bytes, "", beside, false) }
}

fn recipe(way: FanIn, writers: u64, bytes: u64, kind: &str, beside: &str, alike: bool) -> Case {
    let bytes = bytes.min(way.most_bytes());
    let params = Params {
        chunk_bytes: Some(bytes),
        writers: Some(writers),
        operation: alike.then(|| "served-alike".into()),
        ..moving(way.name(), "one-way")
    };
    let who = if writers == 1 { "1 writer".into() } else { format!("{writers} writers") };
    let name = format!("{kind}{}, {who}, {}{beside}", way.name(), size(bytes));
    let make = move |site: &Site| {
        let crew = BusyWriters::start(site, way, writers, bytes as usize, alike)?;
        work(crew.into_batches(alike))
    };
    let made = case(name, params, Measure::RATE, make);
    Case { standard: false, normalise: Normalise::OnOneCpu, ..made }
}

/// Writers, their reader, and the mechanism between them.
struct BusyWriters {
    line: FanInSetup,
    peer: PeerProcess,
    crew: Crew,
    spread: SharedPages,
    writers: u64,
}

impl BusyWriters {
    fn start(
        site: &Site,
        way: FanIn,
        writers: u64,
        bytes: usize,
        alike: bool,
    ) -> Result<BusyWriters, CaseError> {
        let (line, spread) = (FanInSetup::new(way, bytes)?, SharedPages::new(LINE_BYTES)?);
        let peer = PeerProcess::start(site, |control| {
            let service = Service::new(writers, bytes, alike.then_some(&spread));
            read_on(&line, service, control)
        })?;
        let crew = Crew::start(writers, |number| {
            in_turn(site, number)?;
            let (mut end, mut sent) = (line.writer(number)?, Pattern::new(bytes));
            Ok(move || end.send(sent.next_chunk()))
        })?;
        Ok(BusyWriters { line, peer, crew, spread, writers })
    }

    /// A count is a number of smallest batches, in which each writer sends the same.
    fn into_batches(mut self, alike: bool) -> impl FnMut(u64) -> Result<Batch, CaseError> {
        move |count| {
            let share = count * LEAST_MESSAGES / self.writers;
            let all = share * self.writers;
            self.peer.more(all);
            let begun = Instant::now();
            self.crew.send(share)?;
            self.crew.wait(&self.peer)?;
            let elapsed = elapsed_ns(begun);
            self.line.settled();
            if alike {
                // The reader stored this before it reported through a pipe.
                let spread = f64::from_bits(self.spread.word(0).load(Ordering::Relaxed));
                return Ok(Batch { elapsed_ns: elapsed, values: vec![spread] });
            }
            Ok(Batch::rate(elapsed, all))
        }
    }
}

fn read_on(line: &FanInSetup, mut service: Service, control: &Control) -> Result<(), CaseError> {
    let (mut reader, mut done) = (line.reader()?, 0);
    loop {
        let mut result = Ok(());
        let see = |writer: usize, message: &[u8]| {
            if result.is_ok() {
                result = service.see(writer, message, control);
            }
        };
        done += reader.receive_each(see)?;
        result?;
        control.report(done)?;
    }
}

/// The messages that each writer has delivered so far.
struct Service<'s> {
    expected: Vec<Pattern>,
    /// Where the spread of a batch goes, if it is measured.
    spread: Option<&'s SharedPages>,
    counts: Vec<u64>,
    /// The count of each writer at the end of this batch, and at the end of the last.
    goal: u64,
    begun: u64,
    /// Number of writers whose messages of this batch have all arrived.
    finished: usize,
}

impl<'s> Service<'s> {
    fn new(writers: u64, bytes: usize, spread: Option<&'s SharedPages>) -> Service<'s> {
        let (expected, counts) = (vec![Pattern::new(bytes); writers as usize], Vec::new());
        let counts = if spread.is_some() { vec![0; writers as usize] } else { counts };
        let finished = counts.len();
        Service { expected, spread, counts, goal: 0, begun: 0, finished }
    }

    #[inline]
    fn see(&mut self, writer: usize, message: &[u8], control: &Control) -> Result<(), CaseError> {
        let expected = self.expected.get_mut(writer);
        let expected =
            expected.ok_or_else(|| CaseError::failed("a message came from an unknown writer"))?;
        expected.check(message)?;
        if self.spread.is_some() {
            self.count(writer, control);
            let begun = Instant::now();
            while begun.elapsed() < WORK {
                spin_loop();
            }
        }
        Ok(())
    }

    /// Counts a message. When the first writer has been served completely, all writers were busy
    /// until then: the spread is how much the others got.
    fn count(&mut self, writer: usize, control: &Control) {
        if self.finished == self.counts.len() {
            (self.begun, self.finished) = (self.goal, 0);
            self.goal = control.goal() / self.counts.len() as u64;
        }
        self.counts[writer] += 1;
        if self.counts[writer] != self.goal {
            return;
        }
        self.finished += 1;
        if let (Some(spread), 1) = (self.spread, self.finished) {
            let least = self.counts.iter().min().map_or(0, |least| least - self.begun);
            // A writer that got nothing counts as if it had got one.
            let percent = (self.goal - self.begun) as f64 / least.max(1) as f64 * 100.0;
            spread.word(0).store(percent.to_bits(), Ordering::Relaxed);
        }
    }
}
