//! `buffers`, `buffers-backlog`: `weir buffer` compared with mbuffer, pv and a plain pipe.
//!
//! A batch is one run of a pipeline from its first byte to its last: a writer, possibly a program,
//! and a reader that checks the bytes. Each is a process of its own, and nobody places them.

mod disk;
mod flow;
mod line;
mod way;

use crate::tools::prelude::*;
use disk::Disk;
use flow::{Bursts, CHUNK_BYTES, Taking};
use line::BufferFigures;
use way::BufferKind;

const MIB: u64 = 1 << 20;
/// 512 MiB.
const STEADY_CHUNKS: u64 = 4_096;
/// 40 MB, as nearly as chunks allow.
const BURST_CHUNKS: u64 = 305;
const BURSTS: u64 = 3;
const BURST_EVERY_NS: u64 = 400_000_000;
/// 1.1 MB every 10 ms: a tenth more than the writer's mean rate.
const PACE: Taking = Taking::Paced { bytes: 1_100_000, every_ns: 10_000_000 };
/// The size of a backlog unless the environment variable sets it.
const BACKLOG_BYTES: u64 = 4_000_000_000;
const BACKLOG_VARIABLE: &str = "WEIR_BENCH_BACKLOG_BYTES";
/// Transfers of a pool that are under way at once.
const IN_FLIGHT: usize = 16;

const BURST: Measure = Measure::new("burst", Unit::Ns);
const ALL: Measure = Measure::new("all", Unit::Ns);
const FILL: Measure = Measure::new("fill", Unit::MegabytesPerSecond);
const DRAIN: Measure = Measure::new("drain", Unit::MegabytesPerSecond);
/// CPU time of writer, program and reader for 10^9 bytes.
const CPU: Measure = Measure::new("CPU of a GB", Unit::Ns);
/// CPU time of the program alone for 10^9 bytes.
const RELAY_CPU: Measure = Measure::new("program's CPU of a GB", Unit::Ns);
/// The peak memory of the program.
const MEMORY: Measure = Measure::new("memory", Unit::Megabytes);

pub fn suite() -> Suite {
    Suite {
        name: "buffers",
        about: "weir buffer compared with mbuffer, pv and a plain pipe: a steady stream, and bursts.",
        source: "compared with today's tools",
        groups: vec![steady(), bursts()],
    }
}

/// `buffers-backlog`: gigabytes that go to the disk and back, which takes minutes.
pub fn backlog() -> Suite {
    let bytes = backlog_bytes();
    let disks = [Disk::InFlight(IN_FLIGHT), Disk::Calls].map(|disk| by_disk(disk, bytes));
    let ways = [BufferKind::WeirSpilling, BufferKind::MbufferFile].map(|way| kept(way, bytes));
    let cases: Vec<Case> = disks.into_iter().chain(ways).collect();
    Suite {
        name: "buffers-backlog",
        about: "A backlog of 4 GB that waits for its reader: weir buffer and mbuffer compared with the disk.",
        source: "compared with today's tools",
        groups: vec![free("backlog", cases, 6)],
    }
}

/// Moves as much as the writer and the reader can.
fn steady() -> Group {
    let ways = [
        BufferKind::Pipe(0),
        BufferKind::Pipe(MIB),
        BufferKind::Weir,
        BufferKind::Pv(None),
        BufferKind::Pv(Some("16M")),
        BufferKind::Mbuffer("256M"),
    ];
    let bursts = Bursts { count: 1, chunks: STEADY_CHUNKS, every_ns: 0 };
    let bytes = bursts.bytes();
    let cases = ways.map(|way| {
        let mut measures = vec![Measure::THROUGHPUT, CPU];
        if !matches!(way, BufferKind::Pipe(_)) {
            measures.push(RELAY_CPU);
        }
        let made = piped(way, "steady", bursts, Taking::AtOnce, move |outcome| {
            let mut values = vec![
                megabytes_per_s(bytes, outcome.all_ns as f64),
                of_a_gigabyte(outcome.cpu_ns, bytes),
            ];
            values.extend(relay_cpu_ns(outcome).map(|ns| of_a_gigabyte(ns, bytes)));
            values
        });
        Case { measures, weight: 20.0, ..made }
    });
    Group { twin: true, ..free("steady", cases.into(), 10) }
}

/// A writer that sends bursts, and a reader that takes slightly more than the mean rate.
fn bursts() -> Group {
    let bursts = Bursts { count: BURSTS, chunks: BURST_CHUNKS, every_ns: BURST_EVERY_NS };
    let ways = [
        BufferKind::Mbuffer("256M"),
        BufferKind::Weir,
        BufferKind::Pv(Some("64M")),
        BufferKind::Pipe(0),
        BufferKind::Pipe(MIB),
    ];
    let cases = ways.map(|way| {
        let made = piped(way, "bursts", bursts, PACE, |outcome| {
            vec![outcome.held_ns as f64 / BURSTS as f64, outcome.all_ns as f64]
        });
        Case { measures: vec![BURST, ALL], weight: 50.0, ..made }
    });
    free("bursts", cases.into(), 6)
}

/// Keeps a whole backlog before the reader takes any of it.
fn kept(way: BufferKind, bytes: u64) -> Case {
    let chunks = bytes / CHUNK_BYTES as u64;
    let bursts = Bursts { count: 1, chunks, every_ns: 0 };
    let made = piped(way, "backlog", bursts, Taking::AfterAll, move |outcome| {
        vec![
            megabytes_per_s(bytes, outcome.fill_ns as f64),
            megabytes_per_s(outcome.drained_bytes, outcome.drain_ns as f64),
            of_a_gigabyte(relay_cpu_ns(outcome).unwrap_or(0), bytes),
            outcome.relay.map_or(0.0, |relay| relay.max_rss_bytes as f64 / 1e6),
        ]
    });
    of_backlog(made, bytes)
}

/// Uses the disk directly, without a program.
fn by_disk(disk: Disk, bytes: u64) -> Case {
    let params = Params { mechanism: Some(disk.mechanism().into()), ..params("backlog") };
    let made = whole(format!("backlog, {}", disk.title()), params, move |site: &Site| {
        disk::check(&site.directory, bytes)?;
        let directory = site.directory.clone();
        work(move |count| {
            let mut total = Sum::default();
            for _ in 0..count {
                let (moved, took, used) = disk.run(&directory, bytes)?;
                total.add(&[
                    megabytes_per_s(moved, took.write_ns as f64),
                    megabytes_per_s(moved, took.read_ns as f64),
                    of_a_gigabyte(used.user_ns + used.system_ns, moved),
                    used.max_rss_bytes as f64 / 1e6,
                ]);
                total.elapsed_ns += (took.write_ns + took.read_ns) as f64;
            }
            Ok(total.mean(count))
        })
    });
    of_backlog(made, bytes)
}

fn of_backlog(made: Case, bytes: u64) -> Case {
    // One second for each gigabyte and direction.
    let weight = (bytes as f64 / 1e9 * 80.0).max(1.0);
    let params = Params { working_set_bytes: Some(bytes), ..made.params.clone() };
    Case { params, weight, measures: vec![FILL, DRAIN, RELAY_CPU, MEMORY], ..made }
}

/// A case whose batch is one or more runs of a pipeline.
fn piped(
    way: BufferKind,
    kind: &str,
    bursts: Bursts,
    taking: Taking,
    values: impl Fn(&BufferFigures) -> Vec<f64> + Copy + Send + Sync + 'static,
) -> Case {
    let params = Params {
        mechanism: Some(way.mechanism().into()),
        pipe_bytes: Some(way.pipe_bytes()).filter(|bytes| *bytes > 0),
        ..params(kind)
    };
    let kept = taking == Taking::AfterAll;
    let make = move |site: &Site| {
        let bytes = bursts.bytes();
        if kept {
            disk::check(&site.directory, bytes)?;
        }
        let relay = way.relay(site, bytes)?;
        work(move |count| {
            let mut total = Sum::default();
            for _ in 0..count {
                let outcome = line::run(relay.as_ref(), way.pipe_bytes(), bursts, taking)?;
                total.add(&values(&outcome));
                total.elapsed_ns += outcome.all_ns as f64;
            }
            Ok(total.mean(count))
        })
    };
    whole(format!("{kind}, {}", way.title()), params, make)
}

/// Makes a case whose batch is one run; it is too long for the default set.
fn whole(
    name: String,
    params: Params,
    make: impl Fn(&Site) -> MadeWork + Send + Sync + 'static,
) -> Case {
    Case {
        normalise: Normalise::Never,
        size: BatchSize::Count(1),
        standard: false,
        ..case(name, params, Measure::THROUGHPUT, make)
    }
}

fn params(kind: &str) -> Params {
    Params {
        direction: Some("one-way".into()),
        chunk_bytes: Some(CHUNK_BYTES as u64),
        pattern: Some(kind.into()),
        ..Params::default()
    }
}

/// A group of processes that nobody places.
fn free(name: &str, cases: Vec<Case>, processes: u64) -> Group {
    Group { processes, twin: false, ..compared(name, Sides::Free, cases) }
}

fn relay_cpu_ns(outcome: &BufferFigures) -> Option<u64> {
    outcome.relay.map(|relay| relay.user_ns + relay.system_ns)
}

/// Returns the CPU time for 10^9 bytes.
fn of_a_gigabyte(cpu_ns: u64, bytes: u64) -> f64 {
    cpu_ns as f64 / bytes as f64 * 1e9
}

/// Returns the size of a backlog in whole chunks. The environment can make it smaller, so that a
/// try takes less than minutes.
fn backlog_bytes() -> u64 {
    let asked = std::env::var(BACKLOG_VARIABLE).ok().and_then(|bytes| bytes.parse().ok());
    asked.unwrap_or(BACKLOG_BYTES).max(MIB).next_multiple_of(CHUNK_BYTES as u64)
}

/// The sums of the values of runs.
#[derive(Debug, Default)]
struct Sum {
    values: Vec<f64>,
    elapsed_ns: f64,
}

impl Sum {
    fn add(&mut self, values: &[f64]) {
        self.values.resize(values.len(), 0.0);
        self.values.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }

    fn mean(self, count: u64) -> Batch {
        let values = self.values.iter().map(|sum| sum / count as f64).collect();
        Batch { elapsed_ns: self.elapsed_ns, values }
    }
}
