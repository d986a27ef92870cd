//! `franke-pipe`, `franke-grep`, `franke-pipeflex`: the experiments of H. Franke (October 2001) on
//! larger Linux pipes.

mod grep;
mod pipeflex;

pub use grep::suite as grep;
pub use pipeflex::suite as pipeflex;

use crate::tools::channel::Mechanism;
use crate::tools::stream::Stream;
use crate::tools::{case, group, size, work};
use weir_measure::bench::case::{Batch, Case, Group, Measure, Sides, Site, Suite, Trouble, Work};
use weir_measure::bench::params::{Params, Placement};

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

/// `franke-pipe`.
pub fn pipe() -> Suite {
    Suite {
        name: "franke-pipe",
        about: "throughput of a pipe by its size and by chunk (bw_pipe)",
        source: "H. Franke, October 2001, lmbench's bw_pipe over larger pipes",
        groups: CHUNK_BYTES.map(by_pipe_size).into(),
    }
}

/// One chunk size through all pipes, which are so compared in pairs.
fn by_pipe_size(chunk: u64) -> Group {
    let cases = PIPE_BYTES.map(|pipe| {
        let params = Params {
            mechanism: Some("kernel-pipe".into()),
            direction: Some("one-way".into()),
            chunk_bytes: Some(chunk),
            pipe_bytes: Some(pipe),
            ..Params::default()
        };
        let name = format!("chunk {} through {}", size(chunk), size(pipe));
        Case {
            standard: chunk == 64 << 10 && [4 << 10, 64 << 10, 1 << 20].contains(&pipe),
            ..case(name, params, Measure::THROUGHPUT, move |site| stream(site, pipe, chunk))
        }
    });
    Group {
        baseline: Some(format!("chunk {} through {}", size(chunk), size(64 << 10))),
        standard: vec![Placement::SameCpu, Placement::OtherCpu],
        ..group(format!("chunk {}", size(chunk)), Sides::Two, cases.into())
    }
}

fn stream(site: &Site, pipe: u64, chunk: u64) -> Result<Box<dyn Work>, Trouble> {
    let mut stream = Stream::start(site, Mechanism::Pipe(pipe), chunk as usize)?;
    work(move |count| Ok(Batch::throughput(stream.send(count)?, count * chunk)))
}
