//! The backlog of a ring of records: records that were moved from a full ring to a pool.
//!
//! In the backlog each record has 8 bytes before it: its length and its header. The reader takes
//! records from the backlog before those in the ring, so their order stays. A pool without room can
//! stop a move in the middle of a record. Then that record stays in the ring as well, and its rest
//! comes from there if the reader gets that far first.

use super::{CountedBacklog, Drained};
use crate::error::{ErrorKind, Result};
use crate::pipe::end::End;
use crate::pipe::record::{RecordReader as Reader, give_back, settle};
use crate::pool::{Backlog, BacklogReader, BacklogWriter, Pool};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use weir_ring::primitive::Ordering;
use weir_ring::record::RecordRingReader;
use weir_ring::sleep;

/// The bytes before a record.
const HEAD_BYTES: usize = 8;
/// The most memory that is kept after a long record.
const KEPT_BYTES: usize = 64 << 10;

/// One pass moves this many times a ring's capacity before somebody else has a turn.
const ROUNDS: u64 = 4;

/// A record of the ring whose first bytes are in the backlog.
#[derive(Clone, Copy, Debug)]
struct MovingRecord {
    bytes: usize,
    header: u32,
    /// Bytes that were moved, those of the head included.
    done: usize,
}

impl MovingRecord {
    fn head(&self) -> [u8; HEAD_BYTES] {
        // Fits: a record has at most 1 GiB.
        let number = (self.bytes as u64) << 32 | u64::from(self.header);
        number.to_le_bytes()
    }
}

/// The result of moving one record.
#[derive(Debug)]
enum Move {
    /// A record of this many bytes has left the ring.
    Record(usize),
    /// The ring is empty, or what is there is no record. The reader will find that.
    Nothing,
    /// The pool has no room. This is where to wait for some.
    Full(Arc<Backlog>),
}

/// The first record of a ring with a backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// All of it can be taken: its length and its header.
    Record(usize, u32),
    /// A part of it has to be read back from the file.
    Waiting,
    /// The backlog is empty: the ring is next.
    None,
    /// The ring does not hold what it held before.
    Nonsense,
}

#[derive(Debug)]
pub struct RecordBacklog {
    writer: BacklogWriter,
    reader: BacklogReader,
    moving: Option<MovingRecord>,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// The bytes of the first record, if it does not be in one frame.
    gathered: Vec<u8>,
    /// Bytes before records that are in the pool.
    heads: u64,
    counted: CountedBacklog,
}

impl RecordBacklog {
    /// Moves records from a ring to its backlog, until `stops` says so. The ring gets a backlog when
    /// it first needs one. Returns how many records were moved as well.
    pub fn drain(
        backlog: &mut Option<RecordBacklog>,
        reader: &mut Reader,
        (pool, bell): (&Pool, &Arc<OwnedFd>),
        stops: impl Fn() -> bool,
    ) -> Result<(u64, Drained)> {
        let mut left = ROUNDS * reader.parts()?.0.shape.capacity_bytes();
        let mut records = 0;
        let drained = loop {
            let (end, ring) = reader.parts()?;
            let backlog = match &mut *backlog {
                Some(backlog) => backlog,
                // An empty ring needs no backlog.
                None if !matches!(ring.peek(&*end.map), Ok(Some(_))) => break Drained::Done,
                none => none.insert(RecordBacklog::new(pool, bell)?),
            };
            match backlog.move_one(end, ring)? {
                Move::Nothing => break Drained::Done,
                Move::Full(shared) => break Drained::Full(shared),
                Move::Record(bytes) => {
                    reader.settle(1, bytes)?;
                    records += 1;
                    left = left.saturating_sub(bytes as u64 + 1);
                }
            }
            if left == 0 || stops() {
                break Drained::More;
            }
        };
        let (end, ring) = reader.parts()?;
        if records > 0 {
            give_back(end, ring);
        }
        if let Some(backlog) = backlog {
            backlog.count(end);
        }
        Ok((records, drained))
    }

    /// Whether a ring's writer waits for room.
    pub fn is_pressed(reader: &mut Reader) -> bool {
        // Relaxed: the draining thread has announced itself before, with a fence that pairs with
        // the one in `drain::say_full`.
        reader.parts().is_ok_and(|(end, _)| {
            let word = end.header().writer_sleep.word.load(Ordering::Relaxed);
            word & (sleep::ASLEEP | sleep::POLLING) != 0
        })
    }

    /// Makes a backlog in a pool. The bell rings when something was read back.
    fn new(pool: &Pool, bell: &Arc<OwnedFd>) -> Result<RecordBacklog> {
        let (writer, reader) = pool.backlog_with(bell)?;
        Ok(RecordBacklog {
            writer,
            reader,
            moving: None,
            head: [0; HEAD_BYTES],
            head_bytes: 0,
            gathered: Vec::new(),
            heads: 0,
            counted: CountedBacklog::default(),
        })
    }

    /// Moves the next record from the ring to the backlog.
    fn move_one(&mut self, end: &End, ring: &mut RecordRingReader) -> Result<Move> {
        let Ok(Some(bytes)) = ring.peek(&*end.map) else { return Ok(Move::Nothing) };
        let moving = self.moving.get_or_insert_with(|| MovingRecord {
            bytes,
            header: ring.header(&*end.map),
            done: 0,
        });
        if moving.bytes != bytes {
            return Ok(Move::Nothing);
        }
        let head = moving.head();
        while moving.done < HEAD_BYTES + bytes {
            let Some(space) = self.writer.try_reserve()? else {
                return Ok(Move::Full(self.writer.shared()));
            };
            let step;
            if moving.done < HEAD_BYTES {
                step = space.len().min(HEAD_BYTES - moving.done);
                space[..step].copy_from_slice(&head[moving.done..moving.done + step]);
                self.heads += step as u64;
            } else {
                let offset = moving.done - HEAD_BYTES;
                step = space.len().min(bytes - offset);
                ring.copy_out(&*end.map, bytes, offset, &mut space[..step]);
            }
            self.writer.commit(step);
            moving.done += step;
        }
        self.moving = None;
        ring.consume(bytes);
        Ok(Move::Record(bytes))
    }

    /// Looks at the first record, and gathers it if it does not be in one frame.
    ///
    /// # Errors
    /// It could not be read back; the next call tries again.
    pub fn first(&mut self, end: &mut End, ring: &mut RecordRingReader) -> Result<First> {
        loop {
            if let Some((bytes, header)) = self.known_head()
                && self.gathered.len() == bytes
            {
                return Ok(First::Record(bytes, header));
            }
            let known = self.known_head();
            let peeked = match self.reader.peek() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                peeked => peeked?,
            };
            let Some((bytes, header)) = known else {
                let step = peeked.len().min(HEAD_BYTES - self.head_bytes);
                self.head[self.head_bytes..][..step].copy_from_slice(&peeked[..step]);
                self.head_bytes += step;
                self.heads -= step as u64;
                self.reader.consume(step);
                continue;
            };
            if self.gathered.is_empty() && peeked.len() >= bytes {
                return Ok(First::Record(bytes, header));
            }
            let step = peeked.len().min(bytes - self.gathered.len());
            self.gathered.extend_from_slice(&peeked[..step]);
            self.reader.consume(step);
        }
        if self.reader.backlog_bytes() > 0 {
            return Ok(First::Waiting);
        }
        match self.moving.take() {
            Some(moving) => Ok(self.finish(moving, end, ring)),
            None => Ok(First::None),
        }
    }

    fn known_head(&self) -> Option<(usize, u32)> {
        let number = u64::from_le_bytes(self.head);
        (self.head_bytes == HEAD_BYTES).then_some(((number >> 32) as usize, number as u32))
    }

    /// Takes the rest of a record from the ring, after all that was moved.
    fn finish(
        &mut self,
        moving: MovingRecord,
        end: &mut End,
        ring: &mut RecordRingReader,
    ) -> First {
        if ring.peek(&*end.map) != Ok(Some(moving.bytes)) {
            return First::Nonsense;
        }
        (self.head, self.head_bytes) = (moving.head(), HEAD_BYTES);
        let has = self.gathered.len();
        self.gathered.resize(moving.bytes, 0);
        ring.copy_out(&*end.map, moving.bytes, has, &mut self.gathered[has..]);
        ring.consume(moving.bytes);
        settle(end, ring, 1, moving.bytes);
        First::Record(moving.bytes, moving.header)
    }

    /// Takes the first record, of as many bytes as `to` has, after [`First::Record`].
    pub fn take(&mut self, to: &mut [u8]) -> Result<()> {
        if self.gathered.is_empty() {
            if !to.is_empty() {
                to.copy_from_slice(&self.reader.peek()?[..to.len()]);
                self.reader.consume(to.len());
            }
        } else {
            to.copy_from_slice(&self.gathered);
            self.gathered.clear();
            self.gathered.shrink_to(KEPT_BYTES);
        }
        self.head_bytes = 0;
        Ok(())
    }

    /// Where its reader waits after [`First::Waiting`].
    pub fn shared(&self) -> Arc<Backlog> {
        self.writer.shared()
    }

    /// Brings the account of the ring up to date with its counts.
    pub fn count(&mut self, end: &End) {
        self.counted.enter(self.reader.counts(), end.account_line());
    }

    /// Bytes of records that have left the ring and wait to be received. One of which only a part was
    /// moved is still in the ring.
    pub fn backlog_bytes(&self) -> u64 {
        let part = self.moving.map_or(0, |moving| moving.done.saturating_sub(HEAD_BYTES));
        let all = self.reader.backlog_bytes() - self.heads + self.gathered.len() as u64;
        all.saturating_sub(part as u64)
    }
}
