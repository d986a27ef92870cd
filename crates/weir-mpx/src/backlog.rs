//! The backlog of a channel: frames that were moved from a full lane to a pool.
//!
//! Each frame has 8 bytes before it: its length, its kind and flags. A frame that does not fit into
//! the rest of a block of the pool is cut: the parts say so, and are put together again as far as
//! they are there. A pool without room can stop a move in the middle of a frame. Then the rest of
//! that frame stays in the lane.

use crate::memory::LinkMap;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use weir::parts::{Backlog, backlog_with, counts_of, state_of, try_reserve};
use weir::{BacklogReader, BacklogWriter, Error, ErrorKind, Pool, Result};
use weir_ring::lane::{FrameKind, LaneFrame, LaneReader};

/// The bytes before a frame.
const HEAD_BYTES: usize = 8;
/// The flag of a frame that the sender continues in the next one.
const MORE: u8 = 1;
/// The flag of a part whose rest follows.
const CUT: u8 = 2;

/// The first frame of a backlog.
#[derive(Clone, Copy, Debug)]
pub struct KeptFrame {
    pub kind: FrameKind,
    /// The sender continues it in the next frame.
    pub more: bool,
    /// It is a part of a frame, and the rest follows.
    pub is_cut: bool,
    /// Bytes of it that have not been taken.
    pub left: usize,
}

/// The result of a look at a backlog.
#[derive(Debug)]
pub enum Kept {
    Frame(KeptFrame),
    /// The next bytes have to be read back from the file.
    Waiting,
    /// The backlog is empty: the lane is next.
    Nothing,
}

#[derive(Debug)]
pub struct FrameBacklog {
    writer: BacklogWriter,
    reader: BacklogReader,
    begun: Option<KeptFrame>,
}

impl FrameBacklog {
    /// Makes a backlog in a pool. The bell rings when something was read back.
    pub fn new(pool: &Pool, bell: &Arc<OwnedFd>) -> Result<FrameBacklog> {
        let (writer, reader) = backlog_with(pool, bell)?;
        Ok(FrameBacklog { writer, reader, begun: None })
    }

    /// Whether a frame can be kept: it is a record of the user.
    pub fn keeps(frame: &LaneFrame) -> bool {
        match frame.kind {
            FrameKind::Data => true,
            FrameKind::End => frame.left == 0,
            FrameKind::Signal => frame.left == 4,
            _ => false,
        }
    }

    /// Moves the frame at which the lane's reader looks, or a part of it: how many bytes of the
    /// backlog that took. `None` if the pool has no room.
    pub fn put(
        &mut self,
        (reader, map): (&mut LaneReader, &LinkMap),
        frame: &LaneFrame,
    ) -> Result<Option<usize>> {
        let Some(space) = try_reserve(&mut self.writer)? else { return Ok(None) };
        let least = if frame.kind == FrameKind::Data { frame.left.min(1) } else { frame.left };
        if space.len() < HEAD_BYTES + least {
            // A frame begins in the next block.
            let bytes = space.len();
            space.fill(0);
            self.writer.commit(bytes);
            return Ok(Some(bytes));
        }
        let count = frame.left.min(space.len() - HEAD_BYTES);
        let is_cut = count < frame.left;
        let flags = if frame.more { MORE } else { 0 } | if is_cut { CUT } else { 0 };
        let length = (count as u32).to_le_bytes();
        space[..4].copy_from_slice(&length);
        space[4..HEAD_BYTES].copy_from_slice(&[frame.kind as u8, flags, 0, 0]);
        reader.take(map, &mut space[HEAD_BYTES..HEAD_BYTES + count]);
        self.writer.commit(HEAD_BYTES + count);
        Ok(Some(HEAD_BYTES + count))
    }

    /// Looks at the first frame.
    ///
    /// # Errors
    /// It could not be read back; the next call tries again.
    pub fn next_frame(&mut self) -> Result<Kept> {
        loop {
            if let Some(frame) = self.begun {
                return self.peek_frame(frame);
            }
            let has_bytes = self.reader.backlog_bytes() > 0;
            let bytes = match self.reader.peek() {
                Ok(bytes) if !bytes.is_empty() => bytes,
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ if has_bytes => return Ok(Kept::Waiting),
                _ => return Ok(Kept::Nothing),
            };
            let kind = match bytes.get(4) {
                Some(4) => FrameKind::Data,
                Some(5) => FrameKind::End,
                Some(6) => FrameKind::Signal,
                // The rest of a block, in which no frame begins.
                _ => {
                    let rest = bytes.len();
                    self.reader.consume(rest);
                    continue;
                }
            };
            let (Some(length), Some(flags)) = (bytes.first_chunk(), bytes.get(5)) else {
                return Err(Error::new(ErrorKind::Corrupt, "read", "a backlog", "it is cut off"));
            };
            let (left, more, is_cut) =
                (u32::from_le_bytes(*length) as usize, flags & MORE != 0, flags & CUT != 0);
            self.reader.consume(HEAD_BYTES);
            self.begun = Some(KeptFrame { kind, more, is_cut, left });
            if left == 0 {
                return Ok(Kept::Frame(KeptFrame { kind, more, is_cut, left }));
            }
        }
    }

    /// Looks at a frame whose head was taken. Its block may have gone to others since.
    fn peek_frame(&mut self, frame: KeptFrame) -> Result<Kept> {
        match self.reader.peek() {
            _ if frame.left == 0 => Ok(Kept::Frame(frame)),
            Ok(bytes) if !bytes.is_empty() => Ok(Kept::Frame(frame)),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(Kept::Waiting),
        }
    }

    /// Copies as much as fits of the first frame, and takes none of it.
    pub fn peek(&mut self, to: &mut [u8]) -> usize {
        let count = self.begun.map_or(0, |frame| frame.left.min(to.len()));
        match self.reader.peek() {
            Ok(bytes) if count > 0 => {
                let count = count.min(bytes.len());
                to[..count].copy_from_slice(&bytes[..count]);
                count
            }
            _ => 0,
        }
    }

    /// Takes bytes of the first frame. The last bytes end it.
    pub fn pass(&mut self, count: usize) {
        let Some(frame) = &mut self.begun else { return };
        let count = count.min(frame.left);
        frame.left -= count;
        if frame.left == 0 {
            self.begun = None;
        }
        if count > 0 {
            self.reader.consume(count);
        }
    }

    /// Bytes that wait to be received, with 8 for each frame.
    pub fn bytes(&self) -> u64 {
        self.reader.backlog_bytes()
    }

    /// Bytes that were delayed, cancelled, spilled and read back.
    pub fn counts(&self) -> [u64; 4] {
        counts_of(&self.reader)
    }

    /// Where to wait for room.
    pub fn shared(&self) -> Arc<Backlog> {
        state_of(&self.writer)
    }
}
