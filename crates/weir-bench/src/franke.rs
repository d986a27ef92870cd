//! `franke-pipe`, `franke-grep`, `franke-pipeflex`: the experiments of H. Franke (October 2001) on
//! larger Linux pipes.

mod first_byte;
mod grep;
mod pipeflex;

pub use grep::suite as grep;
pub use pipeflex::suite as pipeflex;

use crate::tools::channel::Mechanism;
use crate::tools::own::Shape;
use crate::tools::prelude::*;
use crate::tools::stream::Stream;

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
/// Pipes of the report (4 to 32 KiB), Linux's own (64), and larger ones.
pub const PIPE_BYTES: [u64; 7] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Capacities of weir's pipe, and its segments as parts of them.
pub const WEIR_BYTES: [u64; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Shifts from capacity to segment: Franke's B, and without it.
pub const SHIFTS: [u32; 2] = [0, 3];

/// weir's pipes of these capacities and segments.
pub fn weir_shapes() -> impl Iterator<Item = Shape> {
    WEIR_BYTES.into_iter().flat_map(|capacity_bytes| {
        SHIFTS.map(|shift| Shape {
            capacity_bytes,
            segment_bytes: capacity_bytes >> shift,
            ..Shape::DEFAULT
        })
    })
}

/// `franke-pipe`.
pub fn pipe() -> Suite {
    Suite {
        name: "franke-pipe",
        about: "How much a pipe carries, by its capacity and by the bytes of each write.",
        source: "H. Franke, October 2001, lmbench's bw_pipe over larger pipes",
        groups: CHUNK_BYTES.map(by_pipe_size).into(),
    }
}

/// One chunk size through all pipes, which are so compared in pairs.
fn by_pipe_size(chunk: u64) -> Group {
    let cases = PIPE_BYTES.map(|pipe| {
        let params = Params {
            chunk_bytes: Some(chunk),
            pipe_bytes: Some(pipe),
            ..moving("kernel-pipe", "one-way")
        };
        let name = format!("chunk {} through {}", size(chunk), size(pipe));
        Case {
            standard: chunk == 64 << 10 && [4 << 10, 64 << 10, 1 << 20].contains(&pipe),
            ..case(name, params, Measure::THROUGHPUT, move |site| {
                stream(site, Mechanism::Pipe(pipe), chunk)
            })
        }
    });
    let own = weir_shapes().map(|shape| {
        let params = Params {
            chunk_bytes: Some(chunk),
            pipe_bytes: Some(shape.capacity_bytes),
            segment_bytes: Some(shape.segment_bytes),
            ..moving("weir-pipe", "one-way")
        };
        let (whole, part) = (size(shape.capacity_bytes), size(shape.segment_bytes));
        let name = format!("chunk {} through weir's {whole} by {part}", size(chunk));
        let make = move |site: &Site| stream(site, Mechanism::WeirPipe(shape), chunk);
        Case { standard: false, ..case(name, params, Measure::THROUGHPUT, make) }
    });
    let cases: Vec<Case> = cases.into_iter().chain(own).collect();
    Group {
        baseline: Some(format!("chunk {} through {}", size(chunk), size(64 << 10))),
        standard: vec![Placement::SameCpu, Placement::OtherCpu],
        ..group(format!("chunk {}", size(chunk)), Sides::Two, cases)
    }
}

fn stream(site: &Site, mechanism: Mechanism, chunk: u64) -> Result<Box<dyn Work>, Trouble> {
    let mut stream = Stream::start(site, mechanism, chunk as usize)?;
    work(move |count| Ok(Batch::throughput(stream.send(count)?, count * chunk)))
}
