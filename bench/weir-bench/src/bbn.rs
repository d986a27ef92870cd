//! `bbn-pipe`, `bbn-port`, `bbn-loaded`: the experiments of BBN Report 3970 (1978) with a writer
//! and a reader. Blocks have 2 to 4096 bytes, and on to 1 MiB. The quantities are real, user and
//! system time, the share of a CPU, and throughput.
//!
//! The programs of the report (t.pipe1, t.port1) are lost; its text describes what they did.

mod loaded;
mod one_pool;
mod pool;
mod port;

pub use loaded::suite as loaded;
pub use port::suite as port;

use crate::tools::channel::Mechanism;
use crate::tools::own::PipeSettings;
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use crate::tools::stream::OneWay;
use std::time::Instant;
use weir_measure::sys::usage::Usage;

/// 2, 4, 8, ... 4096 as in the report, then on in steps of four.
pub const BLOCK_BYTES: [u64; 16] =
    [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16_384, 65_536, 262_144, 1_048_576];
/// The mechanisms that are compared with the kernel's pipe of its default size.
const BESIDE: [(&str, Mechanism); 3] = [
    ("pipe of 1 MiB", Mechanism::Pipe(1 << 20)),
    ("unix stream", Mechanism::UnixStream),
    ("weir pipe", Mechanism::WeirPipe(PipeSettings::DEFAULT)),
];
/// The mechanisms whose real, user and system time are measured.
const COSTED: [(&str, Mechanism); 2] =
    [("pipe", Mechanism::Pipe(0)), ("weir pipe", Mechanism::WeirPipe(PipeSettings::DEFAULT))];
/// Length of a batch in which user and system time are told apart: many ticks of the kernel's
/// clock.
const COST_BATCH_NS: u64 = 60_000_000;
const COST_WEIGHT: f64 = 6.0;

/// The quantities of the report's tables, for one block and for the whole.
pub const COSTS: [Measure; 5] = [
    Measure::new("real", Unit::Ns),
    Measure::by_ticks("user", Unit::Ns),
    Measure::by_ticks("system", Unit::Ns),
    Measure::new("cpu", Unit::Percent),
    Measure::THROUGHPUT,
];

/// Real and system time of a block for each pair of `bbn-loaded`.
const LOADED_COSTS: [Measure; 5] = [
    Measure::THROUGHPUT,
    Measure::new("real", Unit::Ns),
    Measure::by_ticks("system", Unit::Ns),
    Measure::new("real of the second", Unit::Ns),
    Measure::by_ticks("system of the second", Unit::Ns),
];

pub fn pipe() -> Suite {
    let (mut costs, mut pools, mut throughputs) = (Vec::new(), Vec::new(), Vec::new());
    for bytes in BLOCK_BYTES {
        let params = Params { chunk_bytes: Some(bytes), ..moving("kernel-pipe", "one-way") };
        for (title, mechanism) in COSTED {
            let params = Params {
                mechanism: Some(mechanism.name().into()),
                // As streams have none, the two are not taken for one curve.
                operation: Some("blocks".into()),
                ..params.clone()
            };
            let make = move |site: &Site| blocks(site, mechanism, bytes as usize);
            let name = format!("{title}, blocks of {}", size(bytes));
            costs.push(costly(case(name, params, Measure::TIME, make)));
        }
        // The reported sizes, since a pool's rules are compared with the report's systems.
        for rule in pool::RULES.into_iter().filter(|_| bytes <= 4096) {
            pools.push(pool::rule_case(pool::Through::Stream, rule, bytes, &params));
        }
        let name = format!("pipe, stream of {}", size(bytes));
        let standard = matches!(bytes, 64 | 512 | 4096 | 65_536);
        let make = move |site: &Site| OneWay::throughput(site, Mechanism::Pipe(0), bytes);
        let stream = case(name, params.clone(), Measure::THROUGHPUT, make);
        throughputs.push(Case { standard, normalise: Normalise::OnOneCpu, ..stream });
        // Moves bytes through the largest kernel pipe, a socket, and weir's pipe as well.
        for (title, mechanism) in BESIDE {
            let params = Params {
                mechanism: Some(mechanism.name().into()),
                pipe_bytes: mechanism.pipe_bytes(),
                ..params.clone()
            };
            let name = format!("{title}, stream of {}", size(bytes));
            let make = move |site: &Site| OneWay::throughput(site, mechanism, bytes);
            let standard = bytes == 65_536 && matches!(mechanism, Mechanism::WeirPipe(_));
            let stream = case(name, params, Measure::THROUGHPUT, make);
            throughputs.push(Case { standard, normalise: Normalise::OnOneCpu, ..stream });
        }
    }
    Suite {
        name: "bbn-pipe",
        about: "Blocks sent from one process to another through a pipe: throughput, time and CPU time of each.",
        source: "BBN Report 3970 (M. Kranc, November 1978), tables 1 and 2, t.pipe1",
        groups: vec![
            group("stream", Sides::Two, throughputs),
            group("t.pipe1", Sides::Two, costs),
            Group { twin: false, processes: 10, ..group("rules", Sides::Two, pools) },
        ],
    }
}

/// Turns a case into one that gives the quantities of the report.
pub fn costly(case: Case) -> Case {
    Case {
        measures: COSTS.to_vec(),
        size: BatchSize::Time { ns: COST_BATCH_NS },
        weight: COST_WEIGHT,
        // Across CPUs the two wake each other.
        normalise: Normalise::OnOneCpu,
        standard: false,
        ..case
    }
}

/// Sends blocks to the other side and measures what both sides used.
fn blocks(site: &Site, mechanism: Mechanism, bytes: usize) -> MadeWork {
    let mut stream = OneWay::start(site, mechanism, bytes)?;
    work(move |count| {
        let meter = Meter::start(stream.peer());
        stream.send(count)?;
        Ok(meter.stop(stream.peer(), count, bytes as u64))
    })
}

pub struct Meter {
    begun: Instant,
    own: Usage,
    other: (u64, u64),
}

impl Meter {
    pub fn start(peer: &PeerProcess) -> Meter {
        Meter { own: Usage::of_self(), other: peer.cpu_ns(), begun: Instant::now() }
    }

    /// Returns [`COSTS`] for `count` blocks of `bytes`. The peer must have reported.
    pub fn stop(&self, peer: &PeerProcess, count: u64, bytes: u64) -> Batch {
        let elapsed_ns = elapsed_ns(self.begun);
        let (own, other) = (Usage::of_self(), peer.cpu_ns());
        let user = own.user_ns - self.own.user_ns + other.0.saturating_sub(self.other.0);
        let system = own.system_ns - self.own.system_ns + other.1.saturating_sub(self.other.1);
        batch(elapsed_ns, (user, system), count, bytes)
    }
}

/// Returns [`COSTS`] of `count` blocks that took this time, and this user and system time.
fn batch(elapsed_ns: f64, (user, system): (u64, u64), count: u64, bytes: u64) -> Batch {
    let each = |ns: f64| ns / count as f64;
    let values = vec![
        each(elapsed_ns),
        each(user as f64),
        each(system as f64),
        (user + system) as f64 / elapsed_ns * 100.0,
        megabytes_per_s(count * bytes, elapsed_ns),
    ];
    Batch { elapsed_ns, values }
}
