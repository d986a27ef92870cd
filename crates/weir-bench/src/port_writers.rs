//! `port-writers`: many writers and one reader, by the number of writers and the size of a message.
//!
//! A suite of its own: the columns of `bbn-port` are those of a report with one writer, and cells
//! with hundreds of processes want fewer and longer batches. The reader, and writers that are each
//! a process, sleep between batches; a batch has as many messages of each writer. Every message is
//! numbered by its writer, and the reader checks every number and of every 64th the sum.

mod way;

use crate::tools::crew::{Crew, in_turn};
use crate::tools::pattern::Pattern;
use crate::tools::peer::{Control, PeerProcess};
use crate::tools::prelude::*;
use std::hint::spin_loop;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use way::{FanIn, FanInSetup};
use weir_bench_sys::shared::{LINE_BYTES, SharedPages};

const WRITERS: [u64; 5] = [1, 4, 16, 64, 256];
const BYTES: [u64; 4] = [4, 64, 512, 4_096];
/// Messages of the least batch, of all writers together: below that it is waking that is timed.
const LEAST_MESSAGES: u64 = 4_096;
/// Fresh processes of a group with many writers.
const PROCESSES: u64 = 10;
/// Long against waking all writers.
const BATCH_NS: u64 = 30_000_000;
/// The same of 64 writers and more, whose rings hold more.
const LARGE_BATCH_NS: u64 = 120_000_000;
/// Long against the slices in which the scheduler gives CPUs to the writers.
const ALIKE_NS: u64 = 1_000_000_000;
/// What the reader does with a message where it is to be waited for. Else a writer on a CPU of its
/// own is served for as long as those that share the reader's have no turn of the scheduler.
const WORK: Duration = Duration::from_micros(1);
/// Of the most to the least served of equally busy writers, in percent: 100 is alike.
const SPREAD: Measure = Measure::new("most over least served", Unit::Percent);

/// The suite.
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

/// One writer through a port, and through a record pipe of the same capacity, which has neither
/// header nor choice.
fn beside_records(bytes: u64) -> Group {
    let cases = [FanIn::Records, FanIn::Port].map(|way| rated(way, 1, bytes, " (port or records)"));
    Group { processes: 2 * PROCESSES, ..across(format!("one writer, {}", size(bytes)), cases) }
}

/// Sixteen writers, and one, through a port.
fn sixteen_beside_one(bytes: u64) -> Group {
    let cases = [1, 16].map(|writers| rated(FanIn::Port, writers, bytes, " (1 or 16)"));
    across(format!("16 beside 1, {}", size(bytes)), cases)
}

/// So many writers by each of the ways.
fn ways(writers: u64, bytes: u64) -> Group {
    let cases = FanIn::OF_MANY.map(|way| rated(way, writers, bytes, ""));
    let made = across(format!("{writers} writers, {}", size(bytes)), cases);
    // A twin of hundreds of processes would tell no more than those of the other groups.
    Group { twin: writers < 64, ..made }
}

/// Whether equally busy writers are served alike by a reader for whom all of them wait.
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
        baseline: cases.first().map(|case| case.name.clone()),
        processes: PROCESSES,
        standard: vec![Placement::OtherCpu],
        ..group(name, Sides::Two, cases.into())
    }
}

fn rated(way: FanIn, writers: u64, bytes: u64, beside: &str) -> Case {
    let (ns, weight) = if writers < 64 { (BATCH_NS, 10.0) } else { (LARGE_BATCH_NS, 32.0) };
    let size = BatchSize::Time { ns };
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

/// Writers, their reader, and what is between them.
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

    /// A count is that of the least batches, in which each writer sends as much.
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
                // What the reader stored before it reported, over a pipe.
                let spread = f64::from_bits(self.spread.word(0).load(Ordering::Relaxed));
                return Ok(Batch { elapsed_ns: elapsed, values: vec![spread] });
            }
            Ok(Batch::rate(elapsed, all))
        }
    }
}

/// Reads, checks and reports.
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

/// What came of each writer so far.
struct Service<'s> {
    expected: Vec<Pattern>,
    /// Where the spread of a batch goes, where it is wanted.
    spread: Option<&'s SharedPages>,
    counts: Vec<u64>,
    /// How many of each there will have been when this batch is over, and when the last was.
    goal: u64,
    begun: u64,
    /// Writers of which all that they had in this batch came.
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

    /// Once the first of the writers has been served all it had in a batch, all were busy until
    /// then: how much the others got.
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
            // One that got nothing counts as if it had got one.
            let percent = (self.goal - self.begun) as f64 / least.max(1) as f64 * 100.0;
            spread.word(0).store(percent.to_bits(), Ordering::Relaxed);
        }
    }
}
