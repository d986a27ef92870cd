//! `franke-pipeflex`: c processes and c/2 pipes, of which two processes share each: one writes chunks
//! all the time, the other reads as much as one read gives, at most a chunk, and then computes for a
//! time drawn evenly from 0.5 r to 1.5 r microseconds.
//!
//! The program of the report is lost; this follows its description in the text.

use super::REPORTED_CHUNK_BYTES as CHUNK_BYTES;
use crate::engine::reference;
use crate::tools::channel::{BenchChannel, Mechanism};
use crate::tools::crew::Crew;
use crate::tools::own::ChannelSide;
use crate::tools::pattern::Pattern;
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use std::hint::black_box;
use std::time::Instant;
use weir_policy::random::Random;

/// Pipes of the kernel: those of the report, and Linux's default.
const PIPE_BYTES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// r: the mean time that a reader computes per read. The report's is the second.
const COMPUTE_US: [u64; 2] = [50, 500];
/// c/2.
const PAIRS: [u64; 2] = [1, 2];
/// Reads of a batch, at least: their times are drawn, so that a few tell little.
const READS: u64 = 60;
/// Length of a batch. `--budget` gives more of them, up to the report's 20 s for each case.
const BATCH_NS: u64 = 8_000_000;

pub fn suite() -> Suite {
    let mut groups = Vec::new();
    for pairs in PAIRS {
        for compute_us in COMPUTE_US {
            groups.extend(CHUNK_BYTES.map(|chunk| flex(chunk, pairs, compute_us)));
        }
    }
    groups.push(super::first_byte::first_byte());
    Suite {
        name: "franke-pipeflex",
        about: "Pairs of a writer and a reader that computes between reads: what larger pipes and wake-ups gain.",
        source: "H. Franke, October 2001, Pipeflex",
        groups,
    }
}

/// The title of a group, with which its cases' names begin.
pub fn title(pairs: u64, compute_us: u64, chunk: u64) -> String {
    format!("{} processes, {compute_us} us, chunk {}", 2 * pairs, size(chunk))
}

/// Sends one load through all pipes.
fn flex(chunk: u64, pairs: u64, compute_us: u64) -> Group {
    let title = title(pairs, compute_us, chunk);
    let kernel = PIPE_BYTES.map(|bytes| (Mechanism::Pipe(bytes), size(bytes)));
    let cases = kernel.into_iter().chain(super::reported()).map(|(mechanism, pipe)| {
        let params = Params {
            parties: Some(2 * pairs),
            compute: Some(compute_us as f64),
            ..super::through(mechanism, chunk)
        };
        let make = move |site: &Site| share(site, chunk as usize, mechanism, pairs, compute_us);
        Case {
            standard: false,
            // The readers compute for a stated time, whatever the CPU's speed.
            normalise: Normalise::Never,
            size: BatchSize::Time { ns: BATCH_NS.max(READS * compute_us * 1_000) },
            weight: if compute_us > 100 { 4.0 } else { 1.0 },
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

/// Reads chunks by calls that return what is there, and checks them.
struct FlexReader {
    expected: Pattern,
    /// The chunk that is being put together, and how much of it is there.
    chunk: Vec<u8>,
    filled: usize,
    read: Vec<u8>,
    done: u64,
}

impl FlexReader {
    fn new(bytes: usize) -> FlexReader {
        let (chunk, read) = (vec![0; bytes], vec![0; bytes]);
        FlexReader { expected: Pattern::new(bytes), chunk, filled: 0, read, done: 0 }
    }

    /// Reads once. Returns whether a chunk is whole: at most one, since a read is not longer.
    fn read(&mut self, channel: &BenchChannel) -> Result<bool, CaseError> {
        let got = channel.receive_some(&mut self.read)?;
        let head = got.min(self.chunk.len() - self.filled);
        self.chunk[self.filled..self.filled + head].copy_from_slice(&self.read[..head]);
        self.filled += head;
        if self.filled < self.chunk.len() {
            return Ok(false);
        }
        self.expected.check(&self.chunk)?;
        self.filled = got - head;
        self.chunk[..self.filled].copy_from_slice(&self.read[head..got]);
        self.done += 1;
        Ok(true)
    }
}

/// This process writes to the first pipe, and children to the others. A pair is on the two CPUs, and
/// the writers of two pairs are not on the same one.
fn share(site: &Site, chunk: usize, mechanism: Mechanism, pairs: u64, compute_us: u64) -> MadeWork {
    let steps_per_us = 1_000.0 / reference::step_ns();
    let mut channels = Vec::new();
    let mut peers = Vec::new();
    for pair in 0..pairs {
        let channel = BenchChannel::new(mechanism, chunk)?;
        peers.push(PeerProcess::start(site, |control| {
            if pair % 2 == 1 {
                site.go_here()?;
            }
            channel.only(ChannelSide::Receives);
            let mut reader = FlexReader::new(chunk);
            let mut random = Random::new(pair);
            loop {
                let whole = reader.read(&channel)?;
                let share = 0.5 + random.below(1_000) as f64 / 1_000.0;
                let steps = (share * compute_us as f64 * steps_per_us) as u64;
                black_box(reference::chains(black_box(steps)));
                if whole {
                    control.report(reader.done)?;
                }
            }
        })?);
        channels.push(channel);
    }
    let crew = Crew::start(pairs - 1, |number| {
        if number % 2 == 0 {
            site.go_there()?
        } else {
            site.go_here()?
        }
        let (channel, mut sent) = (&channels[number as usize + 1], Pattern::new(chunk));
        channel.only(ChannelSide::Sends);
        Ok(move || channel.send_next(&mut sent))
    })?;
    let first = channels.swap_remove(0);
    // The other pipes belong to children; an end that stayed here would hide that one died.
    drop(channels);
    first.only(ChannelSide::Sends);
    let mut sent = Pattern::new(chunk);
    work(move |count| {
        let each = count.div_ceil(pairs);
        peers.iter_mut().for_each(|peer| peer.more(each));
        crew.send(each)?;
        let begun = Instant::now();
        for _ in 0..each {
            first.send_next(&mut sent)?;
        }
        for peer in &peers {
            crew.wait(peer)?;
        }
        Ok(Batch::throughput(elapsed_ns(begun), each * pairs * chunk as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read may return the end of one chunk and the beginning of the next.
    #[test]
    fn chunks_are_put_together_from_what_reads_return() {
        let channel = BenchChannel::new(Mechanism::Pipe(1 << 20), 6000).expect("a pipe");
        let (mut sent, mut reader) = (Pattern::new(6000), FlexReader::new(6000));
        let stream: Vec<u8> = (0..20).flat_map(|_| sent.next_chunk().to_vec()).collect();
        let mut wholes = 0;
        for part in stream.chunks(4096) {
            channel.send(part).expect("sent");
            wholes += u64::from(reader.read(&channel).expect("as sent"));
        }
        assert_eq!((wholes, reader.done, reader.filled), (20, 20, 0));
        channel.send(&stream[..6000]).expect("sent");
        assert!(reader.read(&channel).is_err(), "this chunk came before");
    }
}
