//! The channels of one participant that have a backlog in its pool while their lanes are full.

use super::backlog::{FrameBacklog, Kept};
use super::home::ParticipantHome;
use super::link_end::LinkEnd;
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::HashMap;
use weir::parts::{Bell, CountedBacklog, Drained};
use weir::{Pool, Result};

/// Bytes that one channel moves to its backlog before another has a turn.
const TURN_BYTES: usize = 256 << 10;

/// The overflow of one channel.
#[derive(Debug)]
struct Overflow {
    /// No more is moved while the backlog has as much.
    most_bytes: u64,
    backlog: Option<FrameBacklog>,
    counted: CountedBacklog,
}

/// The overflows of one participant.
#[derive(Debug)]
pub struct Overflows {
    of: HashMap<u32, Overflow>,
    bell: Bell,
}

impl Overflows {
    pub fn new(bell: Bell) -> Overflows {
        Overflows { of: HashMap::new(), bell }
    }

    /// Gives a channel an overflow, or another limit.
    pub fn begin(&mut self, index: u32, most_bytes: u64) {
        let fresh = Overflow { most_bytes, backlog: None, counted: CountedBacklog::default() };
        self.of.entry(index).or_insert(fresh).most_bytes = most_bytes;
    }

    /// Discards the backlog of a channel that has ended.
    pub fn end(&mut self, index: u32, home: &ParticipantHome) {
        if let Some(mut overflow) = self.of.remove(&index) {
            overflow.count(home);
        }
    }

    pub fn channels(&self) -> Vec<u32> {
        self.of.keys().copied().collect()
    }

    /// The descriptor that is readable once a part of a backlog was read back.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.counter.as_fd()
    }

    /// Takes the ringing back. Returns the channels that may have something now.
    pub fn rung(&self) -> Vec<u32> {
        self.bell.clear();
        let waiting = self.of.iter().filter(|(_, overflow)| overflow.backlog.is_some());
        waiting.map(|(index, _)| *index).collect()
    }

    /// The backlog of a channel, if it has one.
    pub fn backlog(&mut self, index: u32) -> Option<&mut FrameBacklog> {
        self.of.get_mut(&index)?.backlog.as_mut()
    }

    /// Looks at the first frame in a channel's backlog. An empty one is given back to the pool.
    pub fn next_frame(&mut self, index: u32, home: &ParticipantHome) -> Result<Kept> {
        let Some(overflow) = self.of.get_mut(&index) else { return Ok(Kept::Nothing) };
        let Some(backlog) = &mut overflow.backlog else { return Ok(Kept::Nothing) };
        let kept = backlog.next_frame();
        if matches!(kept, Ok(Kept::Nothing)) {
            overflow.count(home);
            (overflow.backlog, overflow.counted) = Default::default();
        }
        kept
    }

    /// Moves frames of a channel whose lane is full to its backlog, until `stops` says so. Returns
    /// whether any were moved as well.
    pub fn drain(
        &mut self,
        (index, number): (u32, u32),
        link: &mut LinkEnd,
        (pool, home): (&Pool, &ParticipantHome),
        stops: impl Fn() -> bool,
    ) -> Result<(bool, Drained)> {
        let Some(overflow) = self.of.get_mut(&index) else { return Ok((false, Drained::Done)) };
        let mut bytes = 0;
        let drained = loop {
            // The reader finds what is invalid there.
            let (reader, map, lane) = link.reading(number);
            let Ok(Some(frame)) = reader.next_frame(map, lane) else { break Drained::Done };
            let kept = overflow.backlog.as_ref().map_or(0, FrameBacklog::bytes);
            if !FrameBacklog::keeps(&frame) || kept >= overflow.most_bytes {
                break Drained::Done;
            }
            if bytes >= TURN_BYTES || stops() {
                break Drained::More;
            }
            let backlog = match &mut overflow.backlog {
                Some(backlog) => backlog,
                none => none.insert(FrameBacklog::new(pool, &self.bell.counter)?),
            };
            match backlog.put((reader, map), &frame)? {
                Some(put) => bytes += put,
                None => break Drained::Full(backlog.shared()),
            }
        };
        overflow.count(home);
        if bytes > 0 {
            link.give_back(number);
        }
        Ok((bytes > 0, drained))
    }

    /// Adds what a channel's backlog has counted since to the account.
    pub fn count(&mut self, index: u32, home: &ParticipantHome) {
        if let Some(overflow) = self.of.get_mut(&index) {
            overflow.count(home);
        }
    }

    /// Bytes in all backlogs.
    pub fn bytes(&self) -> u64 {
        self.of.values().filter_map(|one| one.backlog.as_ref()).map(FrameBacklog::bytes).sum()
    }
}

impl Overflow {
    /// Adds what its backlog has counted since to the account.
    fn count(&mut self, home: &ParticipantHome) {
        let Some(backlog) = &self.backlog else { return };
        let account = home.account();
        let words = [&account.delayed, &account.cancelled, &account.spilled, &account.read_back];
        self.counted.count(backlog.counts(), words);
    }
}
