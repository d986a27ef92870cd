//! Echo requests to hosts at user level: turnaround of one at a time, and how many a second.

use super::asker::Asker;
use super::host::{EchoHost, HostKind};
use super::ledger::Logging;
use super::watched::Instrumentation;
use super::{COLUMNS, PAYLOAD_BYTES};
use crate::tools::background::{Background, endless};
use crate::tools::prelude::*;
use std::time::Instant;
use weir_measure_sys::fork::Child;

/// Requests under way at once where it is the rate that counts.
const WINDOW: u64 = 64;
/// Long against filling and emptying the window.
const STREAM_NS: u64 = 10_000_000;
const STREAM_WEIGHT: f64 = 4.0;
/// What the start of each of weir's processes takes of a cell's time.
const START_WEIGHT: f64 = 4.0;
/// Requests of a batch whose every line waits for the disk.
const SYNCHRONOUS_COUNT: u64 = 64;
const SYNCHRONOUS_WEIGHT: f64 = 6.0;
/// Fresh processes of a group whose ratios are to be told from bounds that are near: weir's hosts
/// take a tenth of a second each to come up.
const CLOSE: u64 = 24;
/// The same, where bounds are far or there are none.
const ROUGH: u64 = 12;

/// The columns of a window. User and system time are not told apart: the kernel does that by ticks,
/// of which too few fall into the user's part.
const STREAM: [Measure; 3] = [
    Measure::RATE,
    Measure::new("packet", Unit::Ns),
    // Of the host's processes, for a packet and its answer.
    Measure::new("CPU", Unit::Ns),
];

/// The reference, and weir's host in its two forms.
const HOSTS: [HostKind; 3] = [HostKind::Bare(Logging::Off), HostKind::Daemon, HostKind::Inline];

/// What a case is, besides its host.
#[derive(Clone, Copy, Debug)]
struct EchoShape {
    way: HostKind,
    window: u64,
    copies: u64,
    watched: Instrumentation,
}

impl EchoShape {
    /// One who asks a host as it is, one request after the other.
    fn of(way: HostKind) -> EchoShape {
        EchoShape { way, window: 1, copies: 1, watched: Instrumentation::Usual }
    }
}

/// All groups.
pub fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    groups.extend([1, WINDOW].map(hosts));
    groups.extend([1, WINDOW].map(logs));
    for way in [HostKind::Daemon, HostKind::Inline] {
        groups.extend([1, WINDOW].map(|window| watched(way, window, Instrumentation::Log)));
        groups.extend([1, WINDOW].map(|window| watched(way, window, Instrumentation::Profile)));
    }
    groups.extend(HOSTS.map(four_copies));
    groups.push(kernels());
    groups
}

/// Hosts beside the reference.
fn hosts(window: u64) -> Group {
    let cases = HOSTS.map(|way| {
        let made = echo_case(EchoShape { window, ..EchoShape::of(way) }, "");
        Case { standard: window == 1, ..made }
    });
    let made = beside_the_first(format!("icmp{}", under_way(window)), cases.into());
    let across = (window > 1).then_some(Placement::OtherCpu);
    let standard = [Placement::SameCpu].into_iter().chain(across).collect();
    Group { processes: ROUGH, standard, ..made }
}

/// The reference with a log beside itself without.
fn logs(window: u64) -> Group {
    let kinds =
        [Logging::Off, Logging::Ring, Logging::Buffered, Logging::Unbuffered, Logging::Synchronous];
    let cases = kinds.map(|logging| {
        let shape = EchoShape { window, ..EchoShape::of(HostKind::Bare(logging)) };
        let made = echo_case(shape, &format!(", log {}", logging.name()));
        match logging {
            Logging::Synchronous => Case {
                size: BatchSize::Count(SYNCHRONOUS_COUNT.max(2 * window)),
                normalise: Normalise::Never,
                weight: SYNCHRONOUS_WEIGHT,
                ..made
            },
            _ => made,
        }
    });
    let made = beside_the_first(format!("icmp, logs{}", under_way(window)), cases.into());
    Group { processes: ROUGH, ..made }
}

/// weir's host with its log, or its profile, beside itself without.
fn watched(way: HostKind, window: u64, what: fn(bool) -> Instrumentation) -> Group {
    let cases = [false, true].map(|on| {
        let watched = what(on);
        echo_case(EchoShape { window, watched, ..EchoShape::of(way) }, watched.title())
    });
    let title = what(false).title().trim_end_matches(" off");
    let name = format!("icmp, {}{title}{}", way.title(), under_way(window));
    // A twin of a host takes as long to come up as the host.
    let twin = what(false) == Instrumentation::Log(false);
    Group { processes: CLOSE, twin, ..beside_the_first(name, cases.into()) }
}

/// Three further askers of the same host beside the one that is timed.
fn four_copies(way: HostKind) -> Group {
    let cases = [1, 4].map(|copies| {
        let shape = EchoShape { copies, ..EchoShape::of(way) };
        echo_case(shape, if copies == 1 { " (1 or 4 copies)" } else { ", 4 copies at once" })
    });
    let made = beside_the_first(format!("icmp, four copies, {}", way.title()), cases.into());
    Group { processes: ROUGH, twin: false, ..made }
}

/// The same askers before the kernel's own echo.
fn kernels() -> Group {
    let ways = [HostKind::Lo, HostKind::Veth].into_iter();
    let shapes =
        ways.flat_map(|way| [1, WINDOW].map(|window| EchoShape { window, ..EchoShape::of(way) }));
    let cases = shapes.map(|shape| echo_case(shape, "")).collect();
    let made = group("icmp, the kernel", Sides::Two, cases);
    Group { twin: false, processes: ROUGH, ..made }
}

fn under_way(window: u64) -> String {
    if window == 1 { String::new() } else { format!(", {window} under way") }
}

/// A group compared with its first case, both sides on one CPU.
fn beside_the_first(name: String, cases: Vec<Case>) -> Group {
    Group {
        baseline: cases.first().map(|case| case.name.clone()),
        standard: vec![Placement::SameCpu],
        ..group(name, Sides::Two, cases)
    }
}

fn echo_case(shape: EchoShape, what: &str) -> Case {
    let EchoShape { way, window, copies, watched } = shape;
    let params = Params {
        chunk_bytes: Some(PAYLOAD_BYTES as u64),
        parties: Some(copies),
        logging: Some(
            if watched == Instrumentation::Log(true) { "ring" } else { way.logging() }.into(),
        ),
        operation: (watched == Instrumentation::Profile(true)).then(|| "profiled".into()),
        window: Some(window),
        device: Some(way.device().into()),
        ..moving(way.mechanism(), "two-way")
    };
    let name = format!("icmp, {}{what}{}", way.title(), under_way(window));
    let made = case(name, params, Measure::TIME, move |site| echoes(site, shape));
    let made = Case {
        standard: false,
        normalise: Normalise::OnOneCpu,
        perspective: Some(Perspective { of: Activity::Packets, per_operation: 1.0 }),
        ..made
    };
    let start = way.weir_processes() as f64 * START_WEIGHT;
    if window == 1 {
        return Case { measures: COLUMNS.to_vec(), weight: 2.0 + start, ..made };
    }
    let mut measures = STREAM.to_vec();
    if !way.is_program() {
        measures.truncate(2);
    }
    let size = BatchSize::Time { ns: STREAM_NS };
    Case { measures, size, weight: STREAM_WEIGHT + start, ..made }
}

fn echoes(site: &Site, shape: EchoShape) -> MadeWork {
    let mut prepared = shape.watched.start(site, shape.way)?;
    let host = prepared.host.clone();
    let mut asker = Asker::new(host.address, shape.window as usize)?;
    let others = copies(site, &host, shape.copies - 1)?;
    work(move |count| {
        prepared.before_batch()?;
        let _running = others.run()?;
        let batch = match shape.window {
            1 => asker.turnarounds(count).map(|took| took.batch(count)),
            _ => stream(&mut asker, &host, count),
        };
        batch.map_err(|trouble| host.explain(trouble))
    })
}

fn stream(asker: &mut Asker, host: &EchoHost, count: u64) -> Result<Batch, CaseError> {
    let before = host.cpu_ns();
    let begun = Instant::now();
    asker.stream(count)?;
    let elapsed_ns = elapsed_ns(begun);
    let after = host.cpu_ns();
    let each = |ns: f64| ns / count as f64;
    let mut values = vec![count as f64 / elapsed_ns * 1e9, each(elapsed_ns)];
    values
        .extend(before.zip(after).map(|(before, after)| each(after.saturating_sub(before) as f64)));
    Ok(Batch { elapsed_ns, values })
}

/// Further askers of the same host, which are stopped between batches.
fn copies(site: &Site, host: &EchoHost, count: u64) -> Result<Background, CaseError> {
    let asking = |_| -> Result<Child, CaseError> {
        let mut asker = Asker::new(host.address, 1)?;
        // It may be stopped for longer than a reply may take.
        asker.set_patience(None)?;
        endless(|| site.go_here(), || asker.turnarounds(1).map(drop))
    };
    Background::new((0..count).map(asking).collect::<Result<_, _>>()?)
}
