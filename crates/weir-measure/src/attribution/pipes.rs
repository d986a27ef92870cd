//! How full a pipe is, and enlarging it while it is used.
//!
//! weir keeps no end of a pipe: a reader's or writer's death must be seen by the other side. An
//! end is borrowed from its owner with `pidfd_getfd(2)` for the microseconds of one look.

use crate::proc::{Descriptor, pidfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};
use std::os::fd::OwnedFd;
use weir_doctor::facts::Pipe;
use weir_doctor::sizing::Sizing;
use weir_sys::Pid;

/// What one look at a pipe shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Bytes in it.
    pub bytes: u64,
    /// Its capacity.
    pub capacity_bytes: u64,
    /// Whether nothing more can be written: a pipe counts pages, so it may be full with fewer
    /// bytes in it than its capacity.
    pub full: bool,
}

/// A borrowed end: whose, and which descriptor of it.
#[derive(Debug)]
struct End {
    pidfd: OwnedFd,
    fd: i32,
}

/// Watches one pipe.
#[derive(Debug)]
pub struct PipeWatch {
    /// The pipe.
    pub identity: Descriptor,
    writer: Option<End>,
    reader: Option<End>,
    sizing: Option<Sizing>,
    /// Capacity that it is to be given at the next look, if it has less.
    wanted_bytes: Option<u64>,
    /// Totals of the looks so far.
    pub totals: PipeTotals,
    /// What the last look showed.
    pub now: Option<Fill>,
}

/// Sums over the looks at a pipe, weighted by time.
#[derive(Clone, Copy, Debug, Default)]
pub struct PipeTotals {
    /// Time looked at.
    pub watched_ns: u64,
    /// The record of it, all but its place and what is worked out from these sums.
    pub seen: Pipe,
    /// Sum of fill as a share of the capacity, times nanoseconds.
    pub fill_ns: f64,
    /// Time found full.
    pub full_ns: u64,
    /// Time found empty.
    pub empty_ns: u64,
    /// Bytes that were put in between two looks at least: by so much there were more.
    pub filled_bytes: u64,
    /// Bytes that were taken out between two looks at least.
    pub drained_bytes: u64,
    last_bytes: u64,
    full_since_ns: u64,
    empty_since_ns: u64,
    turn: Turn,
}

/// A time full and the time empty after it. Either lasts until the pipe is found to be the other:
/// a reader that takes a piece, before the writer has filled the gap, ends nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    full_ns: u64,
    empty_ns: u64,
    /// Since it was last found full or empty.
    neither_ns: u64,
}

impl Turn {
    fn add(&mut self, full: bool, empty: bool, weight_ns: u64) {
        let weight_ns = weight_ns.max(1);
        let since_ns = self.neither_ns + weight_ns;
        let longer = |ns: u64| if ns > 0 { ns + since_ns } else { weight_ns };
        if full {
            let went_on = self.empty_ns == 0;
            let full_ns = if went_on { longer(self.full_ns) } else { weight_ns };
            *self = Turn { full_ns, ..Turn::default() };
        } else if empty {
            *self = Turn { empty_ns: longer(self.empty_ns), neither_ns: 0, ..*self };
        } else {
            self.neither_ns = since_ns;
        }
    }
}

impl PipeWatch {
    /// A pipe neither of whose ends is known yet.
    pub fn new(identity: Descriptor, sizing: Option<Sizing>) -> PipeWatch {
        let totals = PipeTotals::default();
        let (writer, reader, wanted_bytes, now) = (None, None, None, None);
        PipeWatch { identity, writer, reader, sizing, wanted_bytes, totals, now }
    }

    /// A pipe that somebody else made, to be enlarged to `wanted_bytes`.
    pub fn found(identity: Descriptor, wanted_bytes: u64) -> PipeWatch {
        PipeWatch { wanted_bytes: Some(wanted_bytes), ..PipeWatch::new(identity, None) }
    }

    /// What was seen of it, as the pipe between two stages.
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

    /// Process `pid` has the writing end as its descriptor `fd`.
    pub fn set_writer(&mut self, pid: Pid, fd: i32) {
        self.writer = pidfd(pid).map(|pidfd| End { pidfd, fd });
    }

    /// Process `pid` has the reading end as its descriptor `fd`.
    pub fn set_reader(&mut self, pid: Pid, fd: i32) {
        self.reader = pidfd(pid).map(|pidfd| End { pidfd, fd });
    }

    /// Whether a process is known that has the writing end.
    pub fn has_writer(&self) -> bool {
        self.writer.is_some()
    }

    /// Whether a process is known that has the reading end.
    pub fn has_reader(&self) -> bool {
        self.reader.is_some()
    }

    /// Whether some process has its writing end open, asked of its reader; `None` when the reader
    /// is gone or may not be looked into.
    pub fn has_writers(&self) -> Option<bool> {
        let reader = self.reader.as_ref()?.borrow(&self.identity)?;
        Some(!polled(&reader, PollFlags::IN).contains(PollFlags::HUP))
    }

    /// Looks at the pipe and adds what it shows, standing for `weight_ns`; grows it when its
    /// sizing says so. `None` when neither end can be had any more.
    pub fn look(&mut self, weight_ns: u64) -> Option<Fill> {
        let writer = self.writer.as_ref().and_then(|end| end.borrow(&self.identity));
        let reader = match writer {
            Some(_) => None,
            None => self.reader.as_ref().and_then(|end| end.borrow(&self.identity)),
        };
        let end = writer.as_ref().or(reader.as_ref())?;
        if let Some(wanted) = self.wanted_bytes.take()
            && fcntl_getpipe_size(end).is_ok_and(|size| (size as u64) < wanted)
        {
            // Refused, it stays as its maker wanted it.
            let _ = fcntl_setpipe_size(end, wanted as usize);
        }
        // Stages enlarge their pipes themselves, at any time. The bytes first: they fitted then.
        let bytes = ioctl_fionread(end).ok()?;
        let capacity_bytes = fcntl_getpipe_size(end).ok()? as u64;
        let full = match &writer {
            Some(writer) => !writable(writer),
            None => bytes >= capacity_bytes,
        };
        let fill = Fill { bytes, capacity_bytes, full };
        self.totals.filled_bytes += bytes.saturating_sub(self.totals.last_bytes);
        self.totals.drained_bytes += self.totals.last_bytes.saturating_sub(bytes);
        self.totals.last_bytes = bytes;
        self.now = Some(fill);
        // Once the writer has closed, emptiness keeps nobody waiting: what counts is the time in
        // which both ends were open.
        if writer.is_some() || self.writer.is_none() {
            self.totals.add(&fill, weight_ns);
        }
        if let Some(sizing) = &mut self.sizing
            && let Some(larger) = sizing.sample(capacity_bytes, full, bytes == 0)
        {
            match fcntl_setpipe_size(end, larger as usize) {
                Ok(_) => self.totals.seen.capacity_bytes = larger,
                Err(_) => sizing.refuse(),
            }
        }
        Some(fill)
    }
}

impl PipeTotals {
    fn add(&mut self, fill: &Fill, weight_ns: u64) {
        self.watched_ns += weight_ns;
        self.seen.samples += 1;
        self.seen.capacity_bytes = fill.capacity_bytes;
        self.seen.max_bytes = self.seen.max_bytes.max(fill.bytes);
        let share = fill.bytes as f64 / fill.capacity_bytes.max(fill.bytes).max(1) as f64;
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
        self.seen.longest_turn_ns =
            self.seen.longest_turn_ns.max(self.turn.full_ns.min(self.turn.empty_ns));
    }

    /// Adds the looks at another pipe, as if both had been one.
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
        mine.max_bytes = mine.max_bytes.max(theirs.max_bytes);
        mine.longest_full_ns = mine.longest_full_ns.max(theirs.longest_full_ns);
        mine.longest_empty_ns = mine.longest_empty_ns.max(theirs.longest_empty_ns);
        mine.longest_turn_ns = mine.longest_turn_ns.max(theirs.longest_turn_ns);
        mine.times_full += theirs.times_full;
        mine.times_empty += theirs.times_empty;
    }

    /// Mean fill as a share of the capacity.
    pub fn mean_fill(&self) -> Option<f64> {
        (self.watched_ns > 0).then(|| self.fill_ns / self.watched_ns as f64)
    }

    /// A time as a share of the time watched.
    pub fn share(&self, time_ns: u64) -> Option<f64> {
        (self.watched_ns > 0).then(|| time_ns as f64 / self.watched_ns as f64)
    }
}

impl End {
    /// The end itself, if it still is an end of `pipe`.
    fn borrow(&self, pipe: &Descriptor) -> Option<OwnedFd> {
        let fd = pidfd_getfd(&self.pidfd, self.fd, PidfdGetfdFlags::empty()).ok()?;
        (Descriptor::of(&fd)? == *pipe).then_some(fd)
    }
}

fn writable(end: &OwnedFd) -> bool {
    !polled(end, PollFlags::OUT).is_empty()
}

/// What `poll` says of an end now.
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

    fn watch(sizing: Option<Sizing>) -> (PipeWatch, OwnedFd, OwnedFd) {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let mut watch = PipeWatch::new(Descriptor::of(&reader).expect("known"), sizing);
        let me = std::process::id() as Pid;
        watch.set_writer(me, writer.as_raw_fd());
        watch.set_reader(me, reader.as_raw_fd());
        (watch, reader, writer)
    }

    #[test]
    fn tells_fill_and_full_by_pages_not_bytes() {
        let (mut watch, _reader, writer) = watch(None);
        assert_eq!(watch.look(10).expect("seen").bytes, 0);
        rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).expect("non-blocking");
        // 4,095 bytes do not fit behind 4,095: each such write takes a page of its own.
        while rustix::io::write(&writer, &[7; 4095]).is_ok_and(|n| n == 4095) {}
        let fill = watch.look(30).expect("seen");
        assert!(fill.full && fill.bytes < fill.capacity_bytes);
        assert_eq!((watch.totals.full_ns, watch.totals.empty_ns), (30, 10));
        assert_eq!((watch.totals.seen.times_full, watch.totals.seen.times_empty), (1, 1));
    }

    #[test]
    fn grows_a_pipe_that_is_full_and_empty_in_turn() {
        let (mut watch, reader, writer) = watch(Some(Sizing::new(1 << 20)));
        let mut buffer = vec![0; 65_536];
        for _ in 0..10 {
            rustix::io::write(&writer, &buffer).expect("room");
            watch.look(1);
            rustix::io::read(&reader, &mut buffer).expect("data");
            watch.look(1);
        }
        assert_eq!(watch.look(1).expect("seen").capacity_bytes, 131_072);
    }

    #[test]
    fn a_pipe_that_a_stage_enlarged_is_never_fuller_than_full() {
        let (mut watch, _reader, writer) = watch(None);
        assert_eq!(watch.look(10).expect("seen").capacity_bytes, 65_536);
        fcntl_setpipe_size(&writer, 1 << 20).expect("enlarged");
        rustix::io::write(&writer, &vec![7; 1 << 19]).expect("room");
        let fill = watch.look(10).expect("seen");
        assert_eq!((fill.bytes, fill.capacity_bytes, fill.full), (1 << 19, 1 << 20, false));
        assert_eq!(
            (watch.totals.mean_fill(), watch.totals.seen.capacity_bytes),
            (Some(0.25), 1 << 20)
        );
    }

    /// The longest turn of looks of 10 ns each: F full, e empty, - neither.
    fn longest_turn_ns(looks: &str) -> u64 {
        let mut totals = PipeTotals::default();
        for look in looks.chars() {
            let bytes = if look == 'e' { 0 } else { 1 };
            totals.add(&Fill { bytes, capacity_bytes: 2, full: look == 'F' }, 10);
        }
        totals.seen.longest_turn_ns
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
        assert_eq!(watch.look(1), None);
    }
}
