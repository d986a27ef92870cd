//! Sampling a pipe's fill, and enlarging the pipe while it is in use.
//!
//! weir keeps no end of a pipe open: a reader's or writer's death must reach the other side. It
//! borrows an end from its owner with `pidfd_getfd(2)` for the microseconds of one look.

use crate::pipe_room::resize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_getpipe_size;
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};
use std::os::fd::OwnedFd;
use weir_doctor::facts::Pipe;
use weir_doctor::sizing::Sizing;
use weir_sys::Pid;
use weir_sys::proc::{Descriptor, pidfd};

/// The result of one look at a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Bytes in it.
    pub bytes: u64,
    /// Its capacity.
    pub capacity_bytes: u64,
    /// Whether it is full: a pipe counts pages, so it may be full with fewer bytes than its
    /// capacity.
    pub full: bool,
    /// Whether somebody who may write to it is known.
    pub fed: bool,
}

/// A borrowed end: its owner, and the descriptor there.
#[derive(Debug)]
struct BorrowedEnd {
    pidfd: OwnedFd,
    fd: i32,
}

/// Watches one pipe.
#[derive(Debug)]
pub struct PipeWatch {
    /// The pipe.
    pub identity: Descriptor,
    writer: Option<BorrowedEnd>,
    reader: Option<BorrowedEnd>,
    sizing: Option<Sizing>,
    /// Least capacity to set at the next look.
    wanted_bytes: Option<u64>,
    /// Totals of the looks so far.
    pub totals: PipeTotals,
    /// The result of the last look.
    pub now: Option<Fill>,
    /// Whether a process is known to wait for room in it.
    pub is_wanted: bool,
}

/// Sums over the samples of a pipe, weighted by time.
#[derive(Clone, Copy, Debug, Default)]
pub struct PipeTotals {
    /// Time sampled.
    pub watched_ns: u64,
    /// The record of the pipe, without its stages and the figures computed from these sums.
    pub seen: Pipe,
    /// Sum of fill as a share of the capacity, times nanoseconds.
    pub fill_ns: f64,
    /// Time found full.
    pub full_ns: u64,
    /// Time found empty.
    pub empty_ns: u64,
    /// Bytes that were written between two looks, at least: the increases in fill.
    pub filled_bytes: u64,
    /// Bytes that were read between two looks, at least.
    pub drained_bytes: u64,
    last_bytes: u64,
    /// The capacity that weir gave to the pipe, or found at the first look.
    set_bytes: Option<u64>,
    full_since_ns: u64,
    empty_since_ns: u64,
    turn: PipeTurn,
    /// How long the present turn is so far.
    turn_ns: u64,
}

/// A time full and the time empty after it. Each lasts until the pipe is found in the other state:
/// a reader that takes a piece, before the writer has filled the gap, ends nothing.
#[derive(Clone, Copy, Debug, Default)]
struct PipeTurn {
    full_ns: u64,
    empty_ns: u64,
    /// When it was last found full or empty.
    neither_ns: u64,
}

impl PipeTurn {
    fn add(&mut self, full: bool, empty: bool, weight_ns: u64) {
        let weight_ns = weight_ns.max(1);
        let since_ns = self.neither_ns + weight_ns;
        let longer = |ns: u64| if ns > 0 { ns + since_ns } else { weight_ns };
        if full {
            let went_on = self.empty_ns == 0;
            let full_ns = if went_on { longer(self.full_ns) } else { weight_ns };
            *self = PipeTurn { full_ns, ..PipeTurn::default() };
        } else if empty {
            *self = PipeTurn { empty_ns: longer(self.empty_ns), neither_ns: 0, ..*self };
        } else {
            self.neither_ns = since_ns;
        }
    }
}

impl PipeWatch {
    /// Creates a watch on a pipe, neither of whose ends is known yet.
    pub fn new(identity: Descriptor, sizing: Option<Sizing>) -> PipeWatch {
        let totals = PipeTotals::default();
        let (writer, reader, wanted_bytes, now) = (None, None, None, None);
        let is_wanted = false;
        PipeWatch { identity, writer, reader, sizing, wanted_bytes, totals, now, is_wanted }
    }

    /// Creates a watch on a pipe of another maker, to be enlarged to `wanted_bytes`.
    pub fn found(identity: Descriptor, wanted_bytes: u64) -> PipeWatch {
        PipeWatch { wanted_bytes: Some(wanted_bytes), ..PipeWatch::new(identity, None) }
    }

    /// Returns the record of the pipe between two stages.
    pub fn record(&self, from: usize, to: usize, limit_bytes: u64) -> Pipe {
        let totals = &self.totals;
        Pipe {
            from,
            to,
            limit_bytes,
            mean_fill: totals.mean_fill(),
            full_share: totals.share(totals.full_ns),
            empty_share: totals.share(totals.empty_ns),
            ..totals.seen
        }
    }

    /// Records that process `pid` has the writing end as its descriptor `fd`.
    pub fn set_writer(&mut self, pid: Pid, fd: i32) {
        self.writer = pidfd(pid).map(|pidfd| BorrowedEnd { pidfd, fd });
    }

    /// Records that process `pid` has the reading end as its descriptor `fd`.
    pub fn set_reader(&mut self, pid: Pid, fd: i32) {
        self.reader = pidfd(pid).map(|pidfd| BorrowedEnd { pidfd, fd });
    }

    /// Whether a process is known that still has the writing end.
    pub fn has_writer(&self) -> bool {
        self.writer.as_ref().is_some_and(|end| end.borrow(&self.identity).is_some())
    }

    /// Whether a process is known that still has the reading end.
    pub fn has_reader(&self) -> bool {
        self.reader.as_ref().is_some_and(|end| end.borrow(&self.identity).is_some())
    }

    /// Whether some process has its writing end open, as its reader's descriptor shows; `None` when
    /// the reader has ended or access is denied.
    pub fn has_writers(&self) -> Option<bool> {
        let reader = self.reader.as_ref()?.borrow(&self.identity)?;
        Some(!polled(&reader, PollFlags::IN).contains(PollFlags::HUP))
    }

    /// Samples the pipe with weight `weight_ns`, and grows it when its sizing decides so. `None`
    /// when neither end can be borrowed any more.
    pub fn sample(&mut self, weight_ns: u64) -> Option<Fill> {
        let writer = self.writer.as_ref().and_then(|end| end.borrow(&self.identity));
        let reader = match writer {
            Some(_) => None,
            None => self.reader.as_ref().and_then(|end| end.borrow(&self.identity)),
        };
        let Some(end) = writer.as_ref().or(reader.as_ref()) else {
            // Both have ended. Another process may still come and have an end.
            (self.writer, self.reader) = (None, None);
            return None;
        };
        if let Some(wanted) = self.wanted_bytes.take()
            && fcntl_getpipe_size(end).is_ok_and(|size| (size as u64) < wanted)
        {
            // If refused, it keeps its maker's capacity.
            let _ = resize(end, wanted);
        }
        // Stages may enlarge their pipes at any time. So the bytes are read first: they fitted
        // then.
        let bytes = ioctl_fionread(end).ok()?;
        let capacity_bytes = fcntl_getpipe_size(end).ok()? as u64;
        self.totals.note_capacity(capacity_bytes);
        let stands = self.now.is_some_and(|before| before.bytes == bytes);
        let full = match &writer {
            // A pipe counts pages, and one that holds few bytes may be full all the same: of
            // packets, or behind a reader that has taken a part of a page. Mostly two pages written
            // in turn hold more than one, since what fits is added to the last. (Once a pipe was
            // polled, each write to it wakes readers, also where it was not empty.)
            Some(writer)
                if bytes > 0
                    && bytes < capacity_bytes
                    && (self.is_wanted || stands || bytes >= capacity_bytes / 2) =>
            {
                !writable(writer)
            }
            _ => bytes >= capacity_bytes,
        };
        let fill = Fill { bytes, capacity_bytes, full, fed: writer.is_some() };
        self.totals.filled_bytes += bytes.saturating_sub(self.totals.last_bytes);
        self.totals.drained_bytes += self.totals.last_bytes.saturating_sub(bytes);
        self.totals.last_bytes = bytes;
        self.now = Some(fill);
        // Once the writer has closed, an empty pipe blocks nobody: only the time with both ends
        // open counts.
        if writer.is_some() || self.writer.is_none() {
            self.totals.add(&fill, weight_ns);
        }
        if let Some(sizing) = &mut self.sizing
            && let Some(larger) = sizing.sample(capacity_bytes, full, bytes == 0)
        {
            match resize(end, larger) {
                Ok(_) => {
                    self.totals.seen.capacity_bytes = larger;
                    self.totals.set_bytes = Some(larger);
                }
                Err(_) => sizing.refuse(),
            }
        }
        Some(fill)
    }
}

impl PipeTotals {
    /// Creates the totals of a pipe that weir made, with this capacity.
    pub fn made(capacity_bytes: u64) -> PipeTotals {
        let seen = Pipe { capacity_bytes, given_bytes: Some(capacity_bytes), ..Pipe::default() };
        PipeTotals { seen, set_bytes: Some(capacity_bytes), ..PipeTotals::default() }
    }

    /// Notes the present capacity: if it is not what weir gave, somebody else changed it.
    fn note_capacity(&mut self, capacity_bytes: u64) {
        let set_bytes = *self.set_bytes.get_or_insert(capacity_bytes);
        if capacity_bytes != set_bytes {
            self.seen.resized_bytes = Some(capacity_bytes);
            self.seen.capacity_bytes = capacity_bytes;
        }
    }

    fn add(&mut self, fill: &Fill, weight_ns: u64) {
        self.watched_ns += weight_ns;
        self.seen.samples += 1;
        self.seen.capacity_bytes = fill.capacity_bytes;
        let share = fill.bytes as f64 / fill.capacity_bytes.max(fill.bytes).max(1) as f64;
        self.seen.max_fill = self.seen.max_fill.max(share);
        self.fill_ns += share * weight_ns as f64;
        let (was_full, was_empty) = (self.full_since_ns > 0, self.empty_since_ns > 0);
        let empty = fill.bytes == 0;
        self.full_since_ns = if fill.full { self.full_since_ns + weight_ns.max(1) } else { 0 };
        self.empty_since_ns = if empty { self.empty_since_ns + weight_ns.max(1) } else { 0 };
        self.full_ns += if fill.full { weight_ns } else { 0 };
        self.empty_ns += if empty { weight_ns } else { 0 };
        self.seen.times_full += u64::from(fill.full && !was_full);
        self.seen.times_empty += u64::from(empty && !was_empty);
        self.seen.longest_full_ns = self.seen.longest_full_ns.max(self.full_since_ns);
        self.seen.longest_empty_ns = self.seen.longest_empty_ns.max(self.empty_since_ns);
        self.turn.add(fill.full, empty, weight_ns);
        let turn_ns = self.turn.full_ns.min(self.turn.empty_ns);
        let long = |ns: u64| if ns < Pipe::LONG_TURN_NS { 0 } else { ns };
        let known_ns = if turn_ns < self.turn_ns { 0 } else { long(self.turn_ns) };
        self.seen.long_turns_ns += long(turn_ns) - known_ns;
        self.turn_ns = turn_ns;
        self.seen.longest_turn_ns = self.seen.longest_turn_ns.max(turn_ns);
    }

    /// Returns how many bytes crossed the pipe at least.
    pub fn moved(&self) -> u64 {
        self.filled_bytes.max(self.drained_bytes)
    }

    /// Merges the samples of another pipe, as if both had been one.
    pub fn merge(&mut self, other: &PipeTotals) {
        self.watched_ns += other.watched_ns;
        self.fill_ns += other.fill_ns;
        self.full_ns += other.full_ns;
        self.empty_ns += other.empty_ns;
        self.filled_bytes += other.filled_bytes;
        self.drained_bytes += other.drained_bytes;
        let (mine, theirs) = (&mut self.seen, &other.seen);
        mine.samples += theirs.samples;
        mine.capacity_bytes = mine.capacity_bytes.max(theirs.capacity_bytes);
        mine.max_fill = mine.max_fill.max(theirs.max_fill);
        mine.longest_full_ns = mine.longest_full_ns.max(theirs.longest_full_ns);
        mine.longest_empty_ns = mine.longest_empty_ns.max(theirs.longest_empty_ns);
        mine.longest_turn_ns = mine.longest_turn_ns.max(theirs.longest_turn_ns);
        mine.long_turns_ns += theirs.long_turns_ns;
        mine.times_full += theirs.times_full;
        mine.times_empty += theirs.times_empty;
    }

    /// Returns the mean fill as a share of the capacity.
    pub fn mean_fill(&self) -> Option<f64> {
        (self.watched_ns > 0).then(|| self.fill_ns / self.watched_ns as f64)
    }

    /// Returns a time as a share of the time sampled.
    pub fn share(&self, time_ns: u64) -> Option<f64> {
        (self.watched_ns > 0).then(|| time_ns as f64 / self.watched_ns as f64)
    }
}

impl BorrowedEnd {
    /// Borrows the end, if it still belongs to `pipe`.
    fn borrow(&self, pipe: &Descriptor) -> Option<OwnedFd> {
        let fd = pidfd_getfd(&self.pidfd, self.fd, PidfdGetfdFlags::empty()).ok()?;
        (Descriptor::of(&fd)? == *pipe).then_some(fd)
    }
}

fn writable(end: &OwnedFd) -> bool {
    !polled(end, PollFlags::OUT).is_empty()
}

/// Returns what `poll` reports of an end now.
fn polled(end: &OwnedFd, wanted: PollFlags) -> PollFlags {
    let mut set = [PollFd::new(end, wanted)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut set, Some(&now)).is_ok_and(|n| n > 0) {
        set[0].revents()
    } else {
        PollFlags::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;
    use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

    fn watch(sizing: Option<Sizing>) -> (PipeWatch, OwnedFd, OwnedFd) {
        watch_with(sizing, PipeFlags::empty())
    }

    fn watch_with(sizing: Option<Sizing>, flags: PipeFlags) -> (PipeWatch, OwnedFd, OwnedFd) {
        let (reader, writer) = pipe_with(flags).expect("a pipe");
        let mut watch = PipeWatch::new(Descriptor::of(&reader).expect("known"), sizing);
        let me = std::process::id() as Pid;
        watch.set_writer(me, writer.as_raw_fd());
        watch.set_reader(me, reader.as_raw_fd());
        (watch, reader, writer)
    }

    #[test]
    fn tells_fill_and_full_by_pages_not_bytes() {
        let (mut watch, _reader, writer) = watch(None);
        assert_eq!(watch.sample(10).expect("seen").bytes, 0);
        rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).expect("non-blocking");
        // 4,095 bytes do not fit behind 4,095: each such write takes a page of its own.
        while rustix::io::write(&writer, &[7; 4095]).is_ok_and(|n| n == 4095) {}
        let fill = watch.sample(30).expect("seen");
        assert!(fill.full && fill.bytes < fill.capacity_bytes);
        assert_eq!((watch.totals.full_ns, watch.totals.empty_ns), (30, 10));
        assert_eq!((watch.totals.seen.times_full, watch.totals.seen.times_empty), (1, 1));
    }

    /// A pipe of 16 packets of a byte, whose writer waited for room, was 0.02 % full and not full.
    #[test]
    fn a_pipe_that_holds_few_bytes_is_full_when_it_takes_no_more() {
        let (mut watch, _reader, writer) =
            watch_with(None, PipeFlags::DIRECT | PipeFlags::NONBLOCK);
        while rustix::io::write(&writer, b"x").is_ok() {}
        assert!(!watch.sample(1).expect("seen").full, "one look says too little to poll it");
        let fill = watch.sample(1).expect("seen");
        assert!(fill.full && fill.bytes < fill.capacity_bytes / 1000, "{fill:?}");
        let (mut wanted, _reader, writer) =
            watch_with(None, PipeFlags::DIRECT | PipeFlags::NONBLOCK);
        while rustix::io::write(&writer, b"x").is_ok() {}
        wanted.is_wanted = true;
        assert!(wanted.sample(1).expect("seen").full, "its writer waits");
    }

    #[test]
    fn grows_a_pipe_that_is_full_and_empty_in_turn() {
        let (mut watch, reader, writer) = watch(Some(Sizing::new(1 << 20)));
        let mut buffer = vec![0; 65_536];
        for _ in 0..10 {
            rustix::io::write(&writer, &buffer).expect("room");
            watch.sample(1);
            rustix::io::read(&reader, &mut buffer).expect("data");
            watch.sample(1);
        }
        assert_eq!(watch.sample(1).expect("seen").capacity_bytes, 131_072);
        assert_eq!(watch.totals.seen.resized_bytes, None, "weir did it");
    }

    #[test]
    fn a_pipe_that_a_stage_enlarged_is_never_fuller_than_full() {
        let (mut watch, _reader, writer) = watch(None);
        assert_eq!(watch.sample(10).expect("seen").capacity_bytes, 65_536);
        fcntl_setpipe_size(&writer, 1 << 20).expect("enlarged");
        rustix::io::write(&writer, &vec![7; 1 << 19]).expect("room");
        assert_eq!(watch.totals.seen.resized_bytes, None);
        let fill = watch.sample(10).expect("seen");
        assert_eq!(watch.totals.seen.resized_bytes, Some(1 << 20));
        assert_eq!((fill.bytes, fill.capacity_bytes, fill.full), (1 << 19, 1 << 20, false));
        assert_eq!(
            (watch.totals.mean_fill(), watch.totals.seen.capacity_bytes),
            (Some(0.25), 1 << 20)
        );
    }

    /// A stage took its full pipe empty and made it small: its largest fill was 1600 %.
    #[test]
    fn a_pipe_that_a_stage_made_smaller_was_never_fuller_than_full() {
        let (mut watch, reader, writer) = watch(None);
        rustix::io::write(&writer, &[7; 65_536]).expect("room");
        watch.sample(10);
        rustix::io::read(&reader, &mut [0; 65_536]).expect("data");
        fcntl_setpipe_size(&writer, 4096).expect("made smaller");
        watch.sample(10);
        let seen = watch.record(0, 1, 1 << 20);
        assert_eq!((seen.max_fill, seen.capacity_bytes), (1.0, 4096));
    }

    /// What looks of so many ns each show: F full, e empty, - neither.
    fn seen(looks: &str, weight_ns: u64) -> Pipe {
        let mut totals = PipeTotals::default();
        for look in looks.chars() {
            let bytes = if look == 'e' { 0 } else { 1 };
            let fill = Fill { bytes, capacity_bytes: 2, full: look == 'F', fed: true };
            totals.add(&fill, weight_ns);
        }
        totals.seen
    }

    fn longest_turn_ns(looks: &str) -> u64 {
        seen(looks, 10).longest_turn_ns
    }

    #[test]
    fn long_turns_add_up_and_short_ones_do_not_count() {
        let ms = |looks: &str| seen(looks, 10_000_000).long_turns_ns / 1_000_000;
        assert_eq!(ms("FFFFFFFeeeeeeFFFFFFeeeeee"), 120);
        assert_eq!(ms("FFFFFFFeeeeeeFeFeFeFeFFee"), 60);
        assert_eq!(ms("FFFFFFFFFeeeeFFFFeeeeeeee"), 0);
    }

    #[test]
    fn a_turn_is_full_and_then_empty() {
        assert_eq!(longest_turn_ns("eeeeFFFFFF"), 0, "a slow start, then a slow reader");
        assert_eq!(longest_turn_ns("eeFFFeeee"), 30);
        assert_eq!(longest_turn_ns("FFFeeFFFFFFeeeeFeFe"), 40);
        assert_eq!(longest_turn_ns("F-F--F-F-e-ee"), 40, "gaps within a time end nothing");
        assert_eq!(longest_turn_ns("FeFeFeFeFeFe"), 10);
        assert_eq!(longest_turn_ns("-----e-"), 0);
    }

    #[test]
    fn an_end_that_became_another_file_is_not_looked_at() {
        let (mut watch, _reader, _writer) = watch(None);
        let (other, _other_writer) = rustix::pipe::pipe().expect("a pipe");
        watch.identity = Descriptor::of(&other).expect("known");
        assert_eq!(watch.sample(1), None);
    }
}
