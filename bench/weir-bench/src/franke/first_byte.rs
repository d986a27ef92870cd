//! Franke's question about segments. A reader sleeps until bytes arrive and computes for each
//! piece; a writer writes more than a piece at once. How long does it take until the reader has the
//! first bytes, and until it is done, if the writer wakes it after each segment and if not?

use crate::engine::reference;
use crate::sys::shared::{LINE_BYTES, SharedPages};
use crate::tools::channel::{BenchChannel, Mechanism};
use crate::tools::own::{ChannelSide, PipeSettings};
use crate::tools::pattern::Pattern;
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes of one write: as much as every pipe here holds.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes of the reader's first read, and of each later one.
const FIRST_BYTES: usize = 64;
const PIECE_BYTES: usize = 64 << 10;
/// The time that the reader computes for each piece.
const COMPUTE_US: u64 = 20;
/// The pause between two writes: longer than a reader looks before it sleeps.
const REST: Duration = Duration::from_micros(400);
const WRITES: u64 = 10;
/// The shared words: when the reader had the first bytes, and when it was done.
const FIRST: usize = 0;
const DONE: usize = 1;

pub fn first_byte() -> Group {
    let kernel = Mechanism::Pipe(WRITE_BYTES as u64);
    let own = |shift: u32| {
        let capacity_bytes = WRITE_BYTES as u64;
        let segment_bytes = capacity_bytes >> shift;
        Mechanism::WeirPipe(PipeSettings { capacity_bytes, segment_bytes, ..PipeSettings::DEFAULT })
    };
    let cases = vec![
        one("kernel pipe", kernel),
        one("weir pipe, one segment", own(0)),
        one("weir pipe, 8 segments", own(3)),
    ];
    Group { twin: false, ..compared("first byte", Sides::Two, cases) }
}

fn one(what: &str, mechanism: Mechanism) -> Case {
    let params = Params {
        compute: Some(COMPUTE_US as f64),
        ..super::through(mechanism, WRITE_BYTES as u64)
    };
    let name = format!("write of {} into a {what}", size(WRITE_BYTES as u64));
    let make = move |site: &Site| writes(site, mechanism);
    Case {
        measures: vec![Measure::new("first bytes", Unit::Ns), Measure::new("all done", Unit::Ns)],
        size: BatchSize::Count(WRITES),
        // The reader computes for a stated time, whatever the CPU's speed.
        normalise: Normalise::Never,
        standard: false,
        weight: 4.0,
        ..case(name, params, Measure::TIME, make)
    }
}

fn writes(site: &Site, mechanism: Mechanism) -> MadeWork {
    let channel = BenchChannel::new(mechanism, WRITE_BYTES)?;
    let times = SharedPages::new(2 * LINE_BYTES)?;
    let steps = (COMPUTE_US as f64 * 1_000.0 / reference::step_ns()) as u64;
    let mut peer = PeerProcess::start(site, |control| {
        channel.only(ChannelSide::Receives);
        let (mut expected, mut buffer) = (Pattern::new(WRITE_BYTES), vec![0; WRITE_BYTES]);
        control.serve(|| {
            channel.receive(&mut buffer[..FIRST_BYTES])?;
            times.word(FIRST).store(now_ns(), Ordering::Release);
            let mut at = FIRST_BYTES;
            while at < WRITE_BYTES {
                let end = (at + PIECE_BYTES).min(WRITE_BYTES);
                channel.receive(&mut buffer[at..end])?;
                black_box(reference::chains(black_box(steps)));
                at = end;
            }
            times.word(DONE).store(now_ns(), Ordering::Release);
            expected.check(&buffer)
        })
    })?;
    channel.only(ChannelSide::Sends);
    let (mut sent, mut opened) = (Pattern::new(WRITE_BYTES), false);
    work(move |count| {
        let begun = Instant::now();
        let (mut first_ns, mut all_ns) = (0, 0);
        // The first write of all opens both ends, and is not timed.
        let untimed = u64::from(!std::mem::replace(&mut opened, true));
        for at in 0..count + untimed {
            // The reader should be asleep, as it is when it waits for a slow writer.
            std::thread::sleep(REST);
            peer.more(1);
            let chunk = sent.next_chunk();
            let written_ns = now_ns();
            channel.send(chunk)?;
            peer.wait()?;
            if at < untimed {
                continue;
            }
            // Acquire pairs with the release of the reader, which reported after it.
            let since = |word: usize| times.word(word).load(Ordering::Acquire) - written_ns;
            first_ns += since(FIRST);
            all_ns += since(DONE);
        }
        let values = [first_ns, all_ns].map(|ns| ns as f64 / count as f64);
        Ok(Batch { elapsed_ns: elapsed_ns(begun), values: values.to_vec() })
    })
}
