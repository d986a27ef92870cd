//! Echo requests to hosts at user level: the turnaround of one at a time, and the rate of many.

use super::asker::Asker;
use super::host::{EchoHost, HostKind};
use super::ledger::Logging;
use super::watched::{Instrumentation, LogMode};
use super::{COLUMNS, PAYLOAD_BYTES};
use crate::tools::background::{Background, endless};
use crate::tools::prelude::*;
use std::time::Instant;
use weir_measure::sys::fork::Child;

/// Requests under way at once in the cases that measure the rate.
const WINDOW: u64 = 64;
/// Long compared with filling and emptying the window.
const STREAM_NS: u64 = 10_000_000;
const STREAM_WEIGHT: f64 = 4.0;
/// The part of a cell's time that the start of each of weir's processes takes.
const START_WEIGHT: f64 = 4.0;
/// Requests of a batch in which every line of the log waits for the disk.
const SYNCHRONOUS_COUNT: u64 = 64;
const SYNCHRONOUS_WEIGHT: f64 = 6.0;
/// Fresh processes of a group whose ratios are close to their bounds. Each of weir's hosts takes a
/// tenth of a second to start.
const CLOSE: u64 = 24;
/// Fresh processes of a group whose bounds are far off, or that has none.
const ROUGH: u64 = 12;

/// The quantities of a window: beside the rate, the CPU time of the host's processes for a packet and
/// its answer. The kernel divides it into its own and the user's by clock ticks, of which a batch sees
/// few, so these two are the means of all batches.
const STREAM: [Measure; 5] = [
    Measure::RATE,
    Measure::new("packet", Unit::Ns),
    Measure::new("CPU", Unit::Ns),
    Measure::by_ticks("user", Unit::Ns),
    Measure::by_ticks("kernel", Unit::Ns),
];

/// The reference and the forms of weir's host.
const HOSTS: [HostKind; 4] =
    [HostKind::Bare(Logging::Off), HostKind::Daemon, HostKind::Inline, HostKind::Allen];

#[derive(Clone, Copy, Debug)]
struct EchoShape {
    way: HostKind,
    window: u64,
    copies: u64,
    watched: Instrumentation,
}

impl EchoShape {
    /// One asker of a host in its usual state, one request after the other.
    fn of(way: HostKind) -> EchoShape {
        EchoShape { way, window: 1, copies: 1, watched: Instrumentation::Usual }
    }
}

pub fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    groups.extend([1, WINDOW].map(hosts));
    groups.extend([1, WINDOW].map(logs));
    for way in [HostKind::Daemon, HostKind::Inline] {
        groups.extend([1, WINDOW].map(|window| watched(way, window, Instrumentation::Log)));
        groups.extend([1, WINDOW].map(|window| watched(way, window, Instrumentation::Profile)));
    }
    groups.extend([1, WINDOW].map(log_modes));
    groups.extend(HOSTS.map(four_copies));
    groups.push(kernels());
    groups
}

/// Compares hosts with the reference.
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

/// Compares the reference with a log with itself without one.
fn logs(window: u64) -> Group {
    let kinds =
        [Logging::Off, Logging::Ring, Logging::Buffered, Logging::Unbuffered, Logging::Synchronous];
    let cases = kinds.map(|logging| {
        let shape = EchoShape { window, ..EchoShape::of(HostKind::Bare(logging)) };
        let made = echo_case(shape, &format!(", log {}", logging.name()));
        match logging {
            Logging::Synchronous => waits_for_the_disk(made, window),
            _ => made,
        }
    });
    let made = beside_the_first(format!("icmp, logs{}", under_way(window)), cases.into());
    Group { processes: ROUGH, ..made }
}

/// Compares weir's host with its log, or its profile, with itself without.
fn watched(way: HostKind, window: u64, what: fn(bool) -> Instrumentation) -> Group {
    let cases = [false, true].map(|on| {
        let watched = what(on);
        echo_case(EchoShape { window, watched, ..EchoShape::of(way) }, watched.title())
    });
    let title = what(false).title().trim_end_matches(" off");
    let name = format!("icmp, {}{title}{}", way.title(), under_way(window));
    // A twin of a host takes as long to start as the host.
    let twin = what(false) == Instrumentation::Log(false);
    Group { processes: CLOSE, twin, ..beside_the_first(name, cases.into()) }
}

/// Compares all that the daemon and its switch can log of an echo with logging nothing.
fn log_modes(window: u64) -> Group {
    let cases = LogMode::ALL.map(|mode| {
        let watched = Instrumentation::Mode(mode);
        let shape = EchoShape { window, watched, ..EchoShape::of(HostKind::Daemon) };
        let made = echo_case(shape, watched.title());
        match mode {
            LogMode::Synchronous => waits_for_the_disk(made, window),
            _ => made,
        }
    });
    let name = format!("icmp, weir, what is logged{}", under_way(window));
    Group { processes: ROUGH, twin: false, ..beside_the_first(name, cases.into()) }
}

/// A case in which every line of the log waits for the disk.
fn waits_for_the_disk(made: Case, window: u64) -> Case {
    Case {
        size: BatchSize::Count(SYNCHRONOUS_COUNT.max(2 * window)),
        normalise: Normalise::Never,
        weight: SYNCHRONOUS_WEIGHT,
        ..made
    }
}

/// Adds three further askers of the same host to the one that is timed.
fn four_copies(way: HostKind) -> Group {
    let cases = [1, 4].map(|copies| {
        let shape = EchoShape { copies, ..EchoShape::of(way) };
        echo_case(shape, if copies == 1 { " (1 or 4 copies)" } else { ", 4 copies at once" })
    });
    let made = beside_the_first(format!("icmp, four copies, {}", way.title()), cases.into());
    Group { processes: ROUGH, twin: false, ..made }
}

/// Sends the same requests to the kernel's own echo, and to weir's on the same kind of net. The kernel
/// answers on the CPU of the asker, wherever another one would be.
fn kernels() -> Group {
    let ways = [HostKind::Lo, HostKind::Veth, HostKind::DaemonOnVeth].into_iter();
    let shapes =
        ways.flat_map(|way| [1, WINDOW].map(|window| EchoShape { window, ..EchoShape::of(way) }));
    let cases = shapes.map(|shape| echo_case(shape, "")).collect();
    let made = group("icmp, the kernel", Sides::Two, cases);
    Group { twin: false, processes: ROUGH, standard: vec![Placement::SameCpu], ..made }
}

fn under_way(window: u64) -> String {
    if window == 1 { String::new() } else { format!(", {window} under way") }
}

/// Makes a group that is compared with its first case, both sides on one CPU.
fn beside_the_first(name: String, cases: Vec<Case>) -> Group {
    Group { standard: vec![Placement::SameCpu], ..compared(name, Sides::Two, cases) }
}

fn echo_case(shape: EchoShape, what: &str) -> Case {
    let EchoShape { way, window, copies, watched } = shape;
    let params = Params {
        chunk_bytes: Some(PAYLOAD_BYTES as u64),
        parties: Some(copies),
        logging: Some(watched.logging().unwrap_or(way.logging()).into()),
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
    let before = host.cpu();
    let begun = Instant::now();
    asker.stream(count)?;
    let elapsed_ns = elapsed_ns(begun);
    let after = host.cpu();
    let each = |ns: f64| ns / count as f64;
    let mut values = vec![count as f64 / elapsed_ns * 1e9, each(elapsed_ns)];
    let used = before.zip(after).map(|(before, after)| after.since(before));
    values.extend(used.into_iter().flatten().map(|ns| each(ns as f64)));
    Ok(Batch { elapsed_ns, values })
}

/// Starts further askers of the same host; they are stopped between batches.
fn copies(site: &Site, host: &EchoHost, count: u64) -> Result<Background, CaseError> {
    let asking = |_| -> Result<Child, CaseError> {
        let mut asker = Asker::new(host.address, 1)?;
        // It may be stopped for longer than a reply is allowed to take.
        asker.set_patience(None)?;
        endless(|| site.go_here(), || asker.turnarounds(1).map(drop))
    };
    Background::new((0..count).map(asking).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its figures on one CPU stood beside those across CPUs, where it is on no other one.
    #[test]
    fn the_kernel_answers_on_the_cpu_of_who_asks() {
        assert_eq!(kernels().standard, [Placement::SameCpu]);
    }
}
