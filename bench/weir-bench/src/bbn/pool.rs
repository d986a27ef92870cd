//! The same program under BBN's two systems, and a third: blocks go through a small pool from one
//! thread to another, as a stream or through a port, and a file system's file is behind the pool.
//!
//! The pool stands for the buffers of 1978. Under the standard rule a block is written to the file as
//! soon as its last byte has come. Under the improved one the write is delayed, the reader cancels it,
//! and dirty blocks are given away last. Under the synchronous one the writer waits for the disk.

use crate::tools::own::trouble;
use crate::tools::pattern::Pattern;
use crate::tools::place::PortDirectory;
use crate::tools::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use weir::{Event, Pool, PoolOptions, PoolRule, Port, PortOptions, PortWriter, PortWriterOptions};
use weir_measure::sys::usage::Usage;

/// A buffer, and how many there are: the Sixth Edition came with 15 of 512 bytes.
pub const FRAME_BYTES: u64 = 4_096;
const FRAMES: u64 = 16;

/// The rules, by the names that cases have.
pub const RULES: [(&str, PoolRule); 3] = [
    ("standard", PoolRule::WriteThrough),
    ("improved", PoolRule::Bbn),
    ("synchronous", PoolRule::Synchronous),
];

/// The ring of a port's writer: the least that takes the report's largest block in one piece.
const RING_BYTES: u64 = 32_768;
/// How far the writer to a port gets ahead before the reader continues: what does not fit into the
/// ring has three quarters of the pool.
const AHEAD_BYTES: u64 = RING_BYTES + FRAMES * FRAME_BYTES / 4 * 3;
/// Bytes of a message's header in a ring.
const HEADER_BYTES: u64 = 8;

/// What blocks go through on their way to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// A stream of a pool, in place of a pipe.
    Stream,
    /// A port whose writers have backlogs in a pool. Only what does not fit into the writer's ring gets
    /// there, so the writer sends in rounds and the reader receives after each.
    Port,
}

type WriteBlock = Box<dyn FnMut(&[u8]) -> Result<(), CaseError> + Send>;
/// Fills a block.
type ReadBlock = Box<dyn FnMut(&mut [u8]) -> Result<(), CaseError> + Send>;

/// Both ends of a stream or port in a pool. A thread has the reader's.
pub struct PooledPair {
    write: WriteBlock,
    sent: Pattern,
    goals: Sender<u64>,
    /// The system time that the reading thread used.
    reached: Receiver<Result<u64, CaseError>>,
    /// The blocks of a round after which the reader continues. Without, it reads while they come.
    round: Option<u64>,
    _reading: JoinHandle<()>,
}

impl PooledPair {
    /// Starts the reading thread. The writer's end is used where this value is.
    pub fn start(
        site: &Site,
        pool: &Pool,
        through: Through,
        bytes: usize,
    ) -> Result<PooledPair, CaseError> {
        let (write, mut read) = match through {
            Through::Stream => stream(pool)?,
            Through::Port => port(pool)?,
        };
        let (goals, wanted) = channel::<u64>();
        let (say, reached) = channel();
        let site = site.clone();
        let reading = std::thread::spawn(move || {
            let placed = site.go_there();
            let (mut expected, mut buffer) = (Pattern::new(bytes), vec![0; bytes]);
            for count in wanted {
                let before = Usage::of_thread().system_ns;
                let next = |_| read(&mut buffer).and_then(|()| expected.check(&buffer));
                let result = placed.clone().and_then(|()| (0..count).try_for_each(next));
                let used = || Usage::of_thread().system_ns - before;
                if say.send(result.map(|()| used())).is_err() {
                    return;
                }
            }
        });
        let round = (through == Through::Port)
            .then(|| AHEAD_BYTES / (bytes as u64 + HEADER_BYTES).next_multiple_of(HEADER_BYTES));
        Ok(PooledPair {
            write,
            sent: Pattern::new(bytes),
            goals,
            reached,
            round,
            _reading: reading,
        })
    }

    /// Sends blocks and waits until they were read and checked. Returns the system time of the thread that
    /// reads.
    pub fn send(&mut self, count: u64) -> Result<u64, CaseError> {
        let ended = || CaseError::failed("the reading thread ended");
        let (mut left, mut used_ns) = (count, 0);
        while left > 0 {
            let round = self.round.unwrap_or(left).min(left);
            if self.round.is_none() {
                self.goals.send(round).map_err(|_| ended())?;
            }
            for _ in 0..round {
                (self.write)(self.sent.next_chunk())?;
            }
            if self.round.is_some() {
                self.goals.send(round).map_err(|_| ended())?;
            }
            used_ns += self.reached.recv().map_err(|_| ended())??;
            left -= round;
        }
        Ok(used_ns)
    }
}

/// Makes a pool of frames as small as the report's buffers, with its file in the directory of the site.
pub fn pool(site: &Site, rule: PoolRule, frames: u64) -> Result<Pool, CaseError> {
    let options = PoolOptions::new()
        .memory_bytes(frames * FRAME_BYTES)
        .frame_bytes(FRAME_BYTES)
        .cluster_bytes(FRAME_BYTES)
        .limit_bytes(64 << 20)
        .spill_directory(&site.directory)
        .rule(rule);
    Pool::new(&options).map_err(trouble)
}

/// Returns both ends of a stream in this pool.
fn stream(pool: &Pool) -> Result<(WriteBlock, ReadBlock), CaseError> {
    let (mut writer, mut reader) = pool.backlog().map_err(trouble)?;
    let write = move |block: &[u8]| writer.write(block).map(drop).map_err(trouble);
    let read = move |block: &mut [u8]| {
        let mut filled = 0;
        while filled < block.len() {
            match reader.read(&mut block[filled..]).map_err(trouble)? {
                0 => return Err(CaseError::failed("the stream ended")),
                read => filled += read,
            }
        }
        Ok(())
    };
    Ok((Box::new(write), Box::new(read)))
}

/// Returns the writer's and the reader's end of a port with a backlog in this pool.
fn port(pool: &Pool) -> Result<(WriteBlock, ReadBlock), CaseError> {
    let place = PortDirectory::new()?;
    let port = Port::create(place.name(), &PortOptions::new()).map_err(trouble)?;
    let mut port = port.elastic(pool).map_err(trouble)?;
    let options = PortWriterOptions::new().capacity_bytes(RING_BYTES);
    let mut writer = PortWriter::connect(place.name(), &options).map_err(trouble)?;
    let write = move |block: &[u8]| writer.send(block).map_err(trouble);
    let read = move |block: &mut [u8]| match port.receive(block).map_err(trouble)?.event {
        Event::Message { bytes } if bytes == block.len() => Ok(()),
        _ => Err(CaseError::failed("a message arrived with a wrong length, or the writer ended")),
    };
    Ok((Box::new(write), Box::new(read)))
}

/// Blocks through a pool: real, user and system time, share of the CPU, throughput. The reader checks
/// all bytes.
pub fn blocks(site: &Site, through: Through, rule: PoolRule, bytes: usize) -> MadeWork {
    let site = site.clone();
    // Made on first use: a process with a pool has threads and must not be forked.
    let mut made: Option<PooledPair> = None;
    work(move |count| {
        let pair = match &mut made {
            Some(pair) => pair,
            None => {
                let pool = pool(&site, rule, FRAMES)?;
                made.insert(PooledPair::start(&site, &pool, through, bytes)?)
            }
        };
        let (before, begun) = (Usage::of_self(), Instant::now());
        pair.send(count)?;
        let (elapsed_ns, after) = (elapsed_ns(begun), Usage::of_self());
        let used = (after.user_ns - before.user_ns, after.system_ns - before.system_ns);
        Ok(super::batch(elapsed_ns, used, count, bytes as u64))
    })
}

/// Returns the case of a rule with blocks of `bytes`. `params` say what moves them otherwise.
pub fn rule_case(
    through: Through,
    (name, rule): (&'static str, PoolRule),
    bytes: u64,
    params: &Params,
) -> Case {
    let (title, mechanism) = match through {
        Through::Stream => (format!("pool, {name} rule, blocks of"), format!("pool-{name}")),
        Through::Port => {
            (format!("weir-port in a pool, {name} rule, check,"), format!("port-in-pool-{name}"))
        }
    };
    let params = Params { mechanism: Some(mechanism), ..params.clone() };
    let make = move |site: &Site| blocks(site, through, rule, bytes as usize);
    let name = format!("{title} {}", size(bytes));
    let case = super::costly(case(name, params, Measure::TIME, make));
    Case { normalise: Normalise::Never, ..case }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::params::{Load, Placement};

    #[test]
    fn blocks_of_any_size_come_as_they_were_sent_under_each_rule() {
        let site = Site {
            placement: Placement::Free,
            cpus: Vec::new(),
            load: Load::None,
            directory: std::env::temp_dir(),
        };
        let all = RULES.map(|rule| (Through::Stream, rule)).into_iter();
        for (through, (name, rule)) in all.chain(RULES.map(|rule| (Through::Port, rule))) {
            for bytes in [2, 512, 4096, 10_000] {
                // A message may have a quarter of the ring.
                if through == Through::Port && bytes > RING_BYTES as usize / 4 {
                    continue;
                }
                let pool = pool(&site, rule, FRAMES).expect(name);
                let mut pair = PooledPair::start(&site, &pool, through, bytes).expect(name);
                for count in [1, 50, 3] {
                    pair.send(count).unwrap_or_else(|trouble| panic!("{name}: {}", trouble.text));
                }
            }
        }
    }
}
