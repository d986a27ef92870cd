//! `franke-pipeflex`: a writer that serves c readers in turn, each through a pipe of its own. Each
//! reader computes between two reads for a time drawn evenly from 0.5 r to 1.5 r microseconds.
//!
//! The program of the report is lost; this follows its description in the text.

use crate::tools::channel::{BenchChannel, Mechanism};
use crate::tools::own::ChannelSide;
use crate::tools::pattern::Pattern;
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use std::hint::black_box;
use std::time::Instant;
use weir_measure::bench::reference;
use weir_measure::random::Random;

const CHUNK_BYTES: [u64; 8] =
    [2 << 10, 4 << 10, 6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10];
const PIPE_BYTES: [u64; 6] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10];
/// r: the mean time that a reader computes per read.
const COMPUTE_US: [u64; 2] = [5, 50];
const READERS: [u64; 2] = [1, 4];

pub fn suite() -> Suite {
    let mut groups = Vec::new();
    for readers in READERS {
        for compute_us in COMPUTE_US {
            groups.extend(CHUNK_BYTES.map(|chunk| flex(chunk, readers, compute_us)));
        }
    }
    groups.push(super::first_byte::first_byte());
    Suite {
        name: "franke-pipeflex",
        about: "Readers that compute between reads, after one writer: what larger pipes and wake-ups gain.",
        source: "H. Franke, October 2001, Pipeflex",
        groups,
    }
}

/// Sends one load through all pipes.
fn flex(chunk: u64, readers: u64, compute_us: u64) -> Group {
    let title = format!("{readers} readers, {compute_us} us, chunk {}", size(chunk));
    let cases = super::pipes(&PIPE_BYTES).into_iter().map(|(mechanism, pipe)| {
        let params = Params {
            parties: Some(readers),
            compute: Some(compute_us as f64),
            ..super::through(mechanism, chunk)
        };
        let make = move |site: &Site| serve(site, chunk as usize, mechanism, readers, compute_us);
        Case {
            standard: false,
            size: BatchSize::Time { ns: 8_000_000 },
            ..case(format!("{title} through {pipe}"), params, Measure::THROUGHPUT, make)
        }
    });
    let cases = cases.collect();
    Group {
        baseline: Some(format!("{title} through {}", size(4 << 10))),
        standard: vec![Placement::OtherCpu],
        twin: chunk == CHUNK_BYTES[0],
        ..group(title, Sides::Two, cases)
    }
}

fn serve(
    site: &Site,
    chunk: usize,
    mechanism: Mechanism,
    readers: u64,
    compute_us: u64,
) -> MadeWork {
    let steps_per_us = 1_000.0 / reference::step_ns();
    let mut channels = Vec::new();
    let mut peers = Vec::new();
    for index in 0..readers {
        let channel = BenchChannel::new(mechanism, chunk)?;
        peers.push(PeerProcess::start(site, |control| {
            channel.only(ChannelSide::Receives);
            let (mut expected, mut buffer) = (Pattern::new(chunk), vec![0; chunk]);
            let mut random = Random::new(index);
            control.serve(|| {
                channel.receive_next(&mut expected, &mut buffer)?;
                let share = 0.5 + random.below(1_000) as f64 / 1_000.0;
                let steps = (share * compute_us as f64 * steps_per_us) as u64;
                black_box(reference::chains(black_box(steps)));
                Ok(())
            })
        })?);
        channel.only(ChannelSide::Sends);
        channels.push((channel, Pattern::new(chunk)));
    }
    work(move |count| {
        let rounds = count.div_ceil(readers);
        peers.iter_mut().for_each(|peer| peer.more(rounds));
        let begun = Instant::now();
        for _ in 0..rounds {
            for (channel, pattern) in &mut channels {
                channel.send_next(pattern)?;
            }
        }
        peers.iter().try_for_each(PeerProcess::wait)?;
        Ok(Batch::throughput(elapsed_ns(begun), rounds * readers * chunk as u64))
    })
}
