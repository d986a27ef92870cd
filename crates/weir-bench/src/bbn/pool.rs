//! The same program under BBN's two systems, and a third: blocks go through a small pool from one
//! thread to another, and a file system's file lies behind the pool.
//!
//! The pool stands for the buffers of 1978. Under the standard rule a block is written to the file as
//! soon as its last byte has come. Under the improved one the write is delayed, the reader cancels it,
//! and dirty blocks are given away last. Under the synchronous one the writer waits for the disk.

use crate::tools::own::trouble;
use crate::tools::pattern::Pattern;
use crate::tools::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use weir::{BacklogReader, BacklogWriter, Pool, PoolOptions, PoolRule};
use weir_measure_sys::usage::Usage;

/// A buffer, and how many there are: the Sixth Edition came with 15 of 512 bytes.
const FRAME_BYTES: u64 = 4_096;
const FRAMES: u64 = 16;

/// The rules, by the names that cases have.
pub const RULES: [(&str, PoolRule); 3] = [
    ("standard", PoolRule::WriteThrough),
    ("improved", PoolRule::Delayed),
    ("synchronous", PoolRule::Synchronous),
];

/// Both ends of a stream in a pool, of which a thread has the reader's.
struct PooledPair {
    writer: BacklogWriter,
    sent: Pattern,
    goals: Sender<u64>,
    reached: Receiver<Result<(), CaseError>>,
    _reading: JoinHandle<()>,
}

impl PooledPair {
    fn start(site: &Site, rule: PoolRule, bytes: usize) -> Result<PooledPair, CaseError> {
        let options = PoolOptions::new()
            .memory_bytes(FRAMES * FRAME_BYTES)
            .frame_bytes(FRAME_BYTES)
            .cluster_bytes(FRAME_BYTES)
            .limit_bytes(64 << 20)
            .spill_directory(&site.directory)
            .rule(rule);
        let pool = Pool::new(&options).map_err(trouble)?;
        let (writer, mut reader) = pool.backlog().map_err(trouble)?;
        let (goals, wanted) = channel::<u64>();
        let (say, reached) = channel();
        let site = site.clone();
        let reading = std::thread::spawn(move || {
            let placed = site.go_there();
            let (mut expected, mut buffer) = (Pattern::new(bytes), vec![0; bytes]);
            for count in wanted {
                let read =
                    |_| next(&mut reader, &mut buffer).and_then(|()| expected.check(&buffer));
                let result = placed.clone().and_then(|()| (0..count).try_for_each(read));
                if say.send(result).is_err() {
                    return;
                }
            }
        });
        Ok(PooledPair { writer, sent: Pattern::new(bytes), goals, reached, _reading: reading })
    }

    /// Sends blocks and waits until they were read and checked.
    fn send(&mut self, count: u64) -> Result<(), CaseError> {
        let ended = || CaseError::failed("the reading thread ended");
        self.goals.send(count).map_err(|_| ended())?;
        for _ in 0..count {
            self.writer.write(self.sent.next_chunk()).map_err(trouble)?;
        }
        self.reached.recv().map_err(|_| ended())?
    }
}

/// Fills `block`.
fn next(reader: &mut BacklogReader, block: &mut [u8]) -> Result<(), CaseError> {
    let mut filled = 0;
    while filled < block.len() {
        match reader.read(&mut block[filled..]).map_err(trouble)? {
            0 => return Err(CaseError::failed("the stream ended")),
            read => filled += read,
        }
    }
    Ok(())
}

/// Blocks through a pool: real, user and system time, share of the CPU, throughput.
pub fn blocks(site: &Site, rule: PoolRule, bytes: usize) -> MadeWork {
    let site = site.clone();
    // Made on first use: a process with a pool has threads and must not be forked.
    let mut made: Option<PooledPair> = None;
    work(move |count| {
        let pair = match &mut made {
            Some(pair) => pair,
            None => made.insert(PooledPair::start(&site, rule, bytes)?),
        };
        let (before, begun) = (Usage::of_self(), Instant::now());
        pair.send(count)?;
        let (elapsed_ns, after) = (elapsed_ns(begun), Usage::of_self());
        let used = (after.user_ns - before.user_ns, after.system_ns - before.system_ns);
        Ok(super::batch(elapsed_ns, used, count, bytes as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::bench::params::{Load, Placement};

    #[test]
    fn blocks_of_any_size_come_as_they_were_sent_under_each_rule() {
        let site = Site {
            placement: Placement::Free,
            cpus: Vec::new(),
            load: Load::None,
            directory: std::env::temp_dir(),
        };
        for (name, rule) in RULES {
            for bytes in [2, 512, 4096, 10_000] {
                let mut pair = PooledPair::start(&site, rule, bytes).expect(name);
                for count in [1, 50, 3] {
                    pair.send(count).unwrap_or_else(|trouble| panic!("{name}: {}", trouble.text));
                }
            }
        }
    }
}
