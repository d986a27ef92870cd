//! `franke-pipe`, `franke-grep`, `franke-pipeflex`: the experiments of H. Franke (October 2001) on
//! larger Linux pipes.

mod first_byte;
mod grep;
mod pipeflex;

pub use grep::suite as grep;
pub use pipeflex::suite as pipeflex;

use crate::tools::channel::Mechanism;
use crate::tools::own::PipeSettings;
use crate::tools::prelude::*;
use crate::tools::stream::OneWay;

/// Transfer sizes of the report, and larger ones.
const CHUNK_BYTES: [u64; 11] = [
    2 << 10,
    4 << 10,
    6 << 10,
    8 << 10,
    12 << 10,
    16 << 10,
    24 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];
/// Pipes of the report (4 to 32 KiB), Linux's default (64 KiB), and larger ones.
const PIPE_BYTES: [u64; 7] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20];

/// The pipes and transfers of the report's tables.
const REPORTED_BYTES: [u64; 4] = [4 << 10, 8 << 10, 16 << 10, 32 << 10];
pub const REPORTED_CHUNK_BYTES: [u64; 8] =
    [2 << 10, 4 << 10, 6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10];
/// The segment of his (A)+(B), whatever the pipe.
pub const REPORTED_SEGMENT_BYTES: u64 = 4 << 10;

/// Capacities of weir's pipe.
const WEIR_BYTES: [u64; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Shifts from capacity to segment: one segment, and eight.
const SHIFTS: [u32; 2] = [0, 3];

/// A pipe of weir with one of the two sizes of a segment, and its title.
fn own(capacity_bytes: u64, segment_bytes: u64) -> (Mechanism, String) {
    let shape = PipeSettings { capacity_bytes, segment_bytes, ..PipeSettings::DEFAULT };
    let title = format!("weir's {} by {}", size(capacity_bytes), size(segment_bytes));
    (Mechanism::WeirPipe(shape), title)
}

/// Returns the pipes of the report's tables as pipes of weir: (A) larger pipes whose ends wake each
/// other once a call, and (A)+(B) the same with segments of 4 KiB. At 4 KiB they are one.
fn reported() -> Vec<(Mechanism, String)> {
    let larger = REPORTED_BYTES.into_iter().map(|bytes| own(bytes, bytes));
    let both = REPORTED_BYTES[1..].iter().map(|bytes| own(*bytes, REPORTED_SEGMENT_BYTES));
    larger.chain(both).collect()
}

/// Returns the kernel's pipes of these sizes, then weir's of its capacities and segments, each with
/// its title.
fn pipes(kernel_bytes: &[u64]) -> Vec<(Mechanism, String)> {
    let kernel = kernel_bytes.iter().map(|bytes| (Mechanism::Pipe(*bytes), size(*bytes)));
    let weir = WEIR_BYTES
        .into_iter()
        .flat_map(|capacity| SHIFTS.map(|shift| own(capacity, capacity >> shift)));
    kernel.chain(weir).collect()
}

/// Returns the parameters of chunks that go one way through a pipe.
fn through(mechanism: Mechanism, chunk: u64) -> Params {
    Params {
        chunk_bytes: Some(chunk),
        pipe_bytes: mechanism.pipe_bytes(),
        segment_bytes: mechanism.segment_bytes(),
        ..moving(mechanism.name(), "one-way")
    }
}

pub fn pipe() -> Suite {
    Suite {
        name: "franke-pipe",
        about: "How much a pipe carries, by its capacity and by the bytes of each write.",
        source: "H. Franke, October 2001, lmbench's bw_pipe over larger pipes",
        groups: CHUNK_BYTES.map(by_pipe_size).into(),
    }
}

/// Sends one chunk size through all pipes, which are thus compared in pairs.
fn by_pipe_size(chunk: u64) -> Group {
    const STANDARD: [Mechanism; 3] =
        [Mechanism::Pipe(4 << 10), Mechanism::Pipe(64 << 10), Mechanism::Pipe(1 << 20)];
    let reported = if chunk <= 32 << 10 { reported() } else { Vec::new() };
    let cases = pipes(&PIPE_BYTES).into_iter().chain(reported).map(|(mechanism, title)| {
        let name = format!("chunk {} through {title}", size(chunk));
        let make = move |site: &Site| OneWay::throughput(site, mechanism, chunk);
        let standard = chunk == 64 << 10 && STANDARD.contains(&mechanism);
        let stream = case(name, through(mechanism, chunk), Measure::THROUGHPUT, make);
        Case { standard, normalise: Normalise::OnOneCpu, ..stream }
    });
    Group {
        baseline: Some(format!("chunk {} through {}", size(chunk), size(64 << 10))),
        ..group(format!("chunk {}", size(chunk)), Sides::Two, cases.collect())
    }
}
