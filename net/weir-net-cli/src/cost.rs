//! `weir net log --cost`: measures what an event of each kind costs on this host, in ns.
//!
//! Each round runs a batch of events of every case once, in random order. The figure of a case is the
//! median over the rounds, with its 95 % interval by ranks. It includes the loop around the events.

use crate::failed;
use serde::Serialize;
use serde_json::json;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weir_command::fault::Fault;
use weir_command::json_option::JsonOption;
use weir_command::output::{Outlet, aligned, trimmed};
use weir_command::units::three_digits;
use weir_measure::pairs::{PairOrder, quantile};
use weir_net::drop_reason::DropReason;
use weir_net::log::{
    Direction, Dropped, EventReason, FailureEvent, Kinds, Log, Packet, StationChange, StationEvent,
    Transaction,
};

/// Number of rounds. With these, ranks 10 and 22 (from 1) bound the median with 97 % (binomial).
const ROUNDS: usize = 31;
/// The shares of the rounds below these ranks.
const BOUNDS: (f64, f64) = (9.0 / 30.0, 21.0 / 30.0);
/// Bytes of the ring that is measured.
const RING_BYTES: u64 = 4 << 20;
/// Events in a batch, of one unit each.
const EVENTS: u32 = 20_000;
/// Events in a batch that waits for the disk.
const SYNCED_EVENTS: u32 = 4;

/// A case to measure.
struct CostCase {
    name: &'static str,
    /// The kinds that are logged, and those that wait for the disk.
    logged: Kinds,
    synced: Kinds,
    /// Whether another thread writes at the same time.
    beside: bool,
    events: u32,
    event: fn(&Log, &SampleEvents),
}

/// The result of a case.
#[derive(Debug, Serialize)]
struct Cost {
    case: &'static str,
    events_per_batch: u32,
    median_s: f64,
    low_s: f64,
    high_s: f64,
}

/// The events that are logged.
struct SampleEvents {
    transaction: Transaction,
    dropped: Dropped,
    failure: FailureEvent,
    station: StationEvent,
    /// A whole echo request, and a packet of the length of an Ethernet frame's payload.
    echo: [u8; 84],
    long: [u8; 1500],
}

impl SampleEvents {
    fn new() -> SampleEvents {
        let mut long = [0; 1500];
        let header = [0x45, 0, 5, 220, 0, 1, 0, 0, 64, 1, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2, 8, 0];
        long[..header.len()].copy_from_slice(&header);
        let mut echo = [0; 84];
        echo.copy_from_slice(&long[..84]);
        let packet = Packet::of(&echo);
        let (source, target) = (packet.source, packet.target);
        let protocol = packet.protocol;
        SampleEvents {
            transaction: Transaction { direction: Direction::In, packet },
            dropped: Dropped { reason: DropReason::NoPort.into(), packet },
            failure: FailureEvent {
                reason: EventReason::CHECKSUM,
                protocol,
                source,
                target,
                value: 0,
            },
            station: StationEvent { change: StationChange::Attached, pid: 1, protocol, port: 0 },
            echo,
            long,
        }
    }
}

/// The cases, in the order of the table.
fn cases() -> Vec<CostCase> {
    let transaction: fn(&Log, &SampleEvents) =
        |log, of| log.transaction(black_box(&of.transaction));
    let long: fn(&Log, &SampleEvents) = |log, of| log.dump_out(black_box(&of.long));
    let logged = |name, kind, event| CostCase {
        name,
        logged: kind,
        synced: Kinds::NONE,
        beside: false,
        events: EVENTS,
        event,
    };
    let mut cases = vec![
        logged("none: the loop and a call", Kinds::NONE, |log, of| {
            black_box((log, &of.transaction));
        }),
        logged("off", Kinds::NONE, transaction),
        logged("transactions", Kinds::TRANSACTIONS, transaction),
        logged("transactions, out of a packet", Kinds::TRANSACTIONS, |log, of| {
            log.packet(Direction::In, black_box(&of.echo));
        }),
        logged("errors", Kinds::ERRORS, |log, of| log.error(black_box(&of.failure))),
        logged("drops", Kinds::DROPS, |log, of| log.dropped(black_box(&of.dropped))),
        logged("stations", Kinds::STATIONS, |log, of| log.station(black_box(&of.station))),
        CostCase {
            events: EVENTS / 4,
            ..logged("dumps-in, 84 bytes", Kinds::DUMPS_IN, |log, of| {
                log.dump_in(black_box(&of.echo));
            })
        },
        CostCase { events: EVENTS / 40, ..logged("dumps-out, 1500 bytes", Kinds::DUMPS_OUT, long) },
        CostCase {
            synced: Kinds::TRANSACTIONS,
            events: SYNCED_EVENTS,
            ..logged("transactions, on the disk", Kinds::TRANSACTIONS, transaction)
        },
        CostCase {
            synced: Kinds::DUMPS_OUT,
            events: SYNCED_EVENTS,
            ..logged("dumps-out, 1500 bytes, on the disk", Kinds::DUMPS_OUT, long)
        },
    ];
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        let name = "transactions, beside another writer";
        let beside = CostCase { beside: true, ..logged(name, Kinds::TRANSACTIONS, transaction) };
        cases.insert(3, beside);
    }
    cases
}

/// Measures in a new log in this directory, and prints the results.
pub fn cost(directory: &Path, json: &JsonOption) -> Result<ExitCode, Fault> {
    let mut outlet = Outlet::open(json)?;
    let path = directory.join(format!("log.cost.{}", std::process::id()));
    let log = Log::create(&path, RING_BYTES).map_err(failed)?;
    let in_memory = is_in_memory(&path);
    // The log stays usable while it is mapped.
    let _ = std::fs::remove_file(&path);
    let costs = measure(&log);
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let body = || {
        json!({
            "build": build,
            "in_memory": in_memory,
            "ring_bytes": RING_BYTES,
            "rounds": ROUNDS,
            "cases": costs,
        })
    };
    outlet.write_report("weir.net.log.cost/1", body, || text(&costs, build, in_memory))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a file is in memory, so that there is no disk to wait for.
pub fn is_in_memory(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 == weir_sys::TMPFS_MAGIC)
}

fn measure(log: &Log) -> Vec<Cost> {
    let (cases, samples) = (cases(), SampleEvents::new());
    // One lap, so that no page of the ring is touched for the first time later.
    log.set_mask(Kinds::ALL);
    (0..RING_BYTES / 32).for_each(|_| log.station(&samples.station));
    let mut figures: Vec<Vec<f64>> = cases.iter().map(|_| Vec::with_capacity(ROUNDS)).collect();
    let mut orders = PairOrder::new(u64::from(std::process::id()));
    let mut order: Vec<usize> = (0..cases.len()).collect();
    for _ in 0..ROUNDS {
        orders.shuffle(&mut order);
        for case in &order {
            figures[*case].push(batch(log, &cases[*case], &samples));
        }
    }
    let cost = |(case, figures): (&CostCase, Vec<f64>)| Cost {
        case: case.name,
        events_per_batch: case.events,
        median_s: quantile(&figures, 0.5) / 1e9,
        low_s: quantile(&figures, BOUNDS.0) / 1e9,
        high_s: quantile(&figures, BOUNDS.1) / 1e9,
    };
    cases.iter().zip(figures).map(cost).collect()
}

/// Measures one batch, in ns per event.
fn batch(log: &Log, case: &CostCase, samples: &SampleEvents) -> f64 {
    log.set_mask(case.logged);
    log.set_sync_mask(case.synced);
    let count = case.events;
    let timed = || {
        let begun = Instant::now();
        (0..count).for_each(|_| (case.event)(log, samples));
        begun.elapsed().as_nanos() as f64 / f64::from(count)
    };
    if !case.beside {
        return timed();
    }
    let (runs, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed, like the others here: only the flag is passed.
            while !over.load(Ordering::Relaxed) {
                (case.event)(log, samples);
                runs.store(true, Ordering::Relaxed);
            }
        });
        while !runs.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let figure = timed();
        over.store(true, Ordering::Relaxed);
        figure
    })
}

fn text(costs: &[Cost], build: &str, in_memory: bool) -> String {
    let mut table = aligned(["  event", "ns", "95 % interval", "events a round"], [1, 2, 3]);
    for cost in costs {
        let [median_ns, low_ns, high_ns] =
            [cost.median_s, cost.low_s, cost.high_s].map(|s| s * 1e9);
        table.add_row([
            format!("  {}", cost.case),
            three_digits(median_ns),
            format!("{} to {}", three_digits(low_ns), three_digits(high_ns)),
            cost.events_per_batch.to_string(),
        ]);
    }
    let mut text = format!(
        "what an event costs its writer: medians of {ROUNDS} rounds in random order, {build} build, \
         ring of {} MiB\n{}\n",
        RING_BYTES >> 20,
        trimmed(&table)
    );
    if build == "debug" {
        text += "a debug build is many times slower than a release build\n";
    }
    if in_memory {
        text += "the log is in memory (tmpfs), where waiting for the disk costs nothing\n";
    }
    text
}
