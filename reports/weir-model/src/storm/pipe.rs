//! Random loads over a pipe's decisions: sizes, wake-ups, wishes from outside, and how long to look.
//!
//! The pipe never holds more than its capacity, a short write appears whole, and no end sleeps for
//! ever while the other one can get on, whatever capacity is wished for, whenever wake-ups come for
//! nothing. All wishes together take a bounded amount of memory, and no end looks for longer than
//! looking may cost.

use super::{Ended, Trace};
use weir_policy::pipe::{
    Backoff, CapacityWishes, Fencing, MOST_BYTES, MOST_SHIFT, PeerCpu, PipeShape, Spin,
};
use weir_policy::random::Random;

const STEPS: u64 = 250;
const PAGE_BYTES: u64 = 4096;
/// The most that an end looks where it does not know the other's CPU.
const BLIND_LOOK_NS: u64 = 5_000;
/// The most that an end looks at all: a sleep that is no longer short.
const LONG_LOOK_NS: u64 = 200_000;

#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "it is read by being printed")]
enum Traced {
    Begun { whole: u64 },
    Wrote { bytes: u64, left: u64 },
    WriterSleeps { wanted: u64 },
    WriterWoken { room: u64 },
    Read { bytes: u64 },
    ReaderSleeps,
    Wished { bytes: u64, granted: bool },
    Looks { peer: PeerCpu, ns: u64 },
}

struct Storm {
    shape: PipeShape,
    wishes: CapacityWishes,
    /// The largest single wish, and what was granted so far.
    bound_bytes: u64,
    granted_bytes: u64,
    written: u64,
    read: u64,
    /// The write under way: its bytes, and those that are left.
    whole: u64,
    left: u64,
    /// The room that a sleeping writer wants.
    writer_wants: Option<u64>,
    reader_sleeps: bool,
    spin: Spin,
    fencing: Fencing,
    has_duty: bool,
    backoff: Backoff,
    random: Random,
    trace: Trace<Traced>,
}

/// Runs the storm of a seed.
pub(super) fn storm(seed: u64) -> Ended {
    let mut random = Random::new(seed ^ 0x919e);
    let capacity = 1 << random.below(17);
    let shape = match shape(&mut random, capacity) {
        Ok(shape) => shape,
        Err(why) => return Err((why, Vec::new())),
    };
    let most = random.once_in(2).then(|| random.below(MOST_BYTES));
    let wishes = CapacityWishes::new(shape.capacity_bytes(), PAGE_BYTES, most);
    let mut storm = Storm {
        shape,
        bound_bytes: wishes.most_bytes(),
        wishes,
        granted_bytes: 0,
        written: 0,
        read: 0,
        whole: 0,
        left: 0,
        writer_wants: None,
        reader_sleeps: false,
        spin: Spin::default(),
        fencing: Fencing::default(),
        has_duty: false,
        backoff: Backoff::new(1000),
        random,
        trace: Trace::new(),
    };
    let ran = storm.run();
    storm.trace.ended(ran)
}

/// A pipe of this capacity, of which segment and atomic bound are within their ranges.
fn shape(random: &mut Random, capacity: u64) -> Result<PipeShape, String> {
    let real = capacity.max(PAGE_BYTES).next_power_of_two();
    let segment =
        random.once_in(2).then(|| (real >> random.below(u64::from(MOST_SHIFT) + 1)).max(64));
    let atomic = random.once_in(2).then(|| 1 + random.below(real));
    PipeShape::new(PAGE_BYTES, capacity, segment, atomic)
        .map_err(|why| format!("{why:?}, and all is within its range"))
}

impl Storm {
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            match self.random.below(8) {
                0..=3 => self.write()?,
                4..=6 => self.read()?,
                _ => self.disturb()?,
            }
        }
        // The reader reads on until the write that is under way is over.
        let mut turns = 0;
        while self.left > 0 || self.read < self.written {
            self.write_on()?;
            self.read()?;
            turns += 1;
            if turns > 200_000 {
                return Err(format!("{} bytes of a write are left for ever", self.left));
            }
            if self.writer_wants.is_some() && self.reader_sleeps {
                return Err(String::from("both ends sleep"));
            }
        }
        Ok(())
    }

    fn room(&self) -> u64 {
        self.shape.capacity_bytes().saturating_sub(self.written - self.read)
    }

    fn write(&mut self) -> Result<(), String> {
        if self.left == 0 && self.writer_wants.is_none() {
            self.whole = 1 + self.random.below(2 * self.shape.capacity_bytes());
            self.left = self.whole;
            self.trace.push(Traced::Begun { whole: self.whole });
        }
        self.write_on()
    }

    fn write_on(&mut self) -> Result<(), String> {
        if self.left == 0 || self.writer_wants.is_some() {
            return Ok(());
        }
        let room = self.room();
        let bytes = self.shape.step_bytes(self.whole, self.left, room);
        if bytes > room || bytes > self.left {
            return Err(format!("{bytes} bytes go into {room}, of {} that are left", self.left));
        }
        if bytes == 0 {
            let wanted = self.shape.wanted_bytes(self.whole, self.left);
            // Both ends look once more before they sleep.
            if self.shape.wakes_writer(room, wanted) {
                return Err(format!("{room} bytes of room wake a writer, and it cannot go on"));
            }
            self.writer_wants = Some(wanted);
            self.trace.push(Traced::WriterSleeps { wanted });
            return self.look();
        }
        let is_short = self.whole <= self.shape.atomic_bytes();
        if is_short && bytes != self.whole {
            return Err(format!("{bytes} of a short write of {} bytes appear", self.whole));
        }
        self.written += bytes;
        self.left -= bytes;
        self.trace.push(Traced::Wrote { bytes, left: self.left });
        if self.written - self.read > self.shape.capacity_bytes() {
            return Err(String::from("the pipe holds more than its capacity"));
        }
        self.reader_sleeps = false;
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        let there = self.written - self.read;
        if there == 0 {
            return self.reader_dry();
        }
        let mut left = there.min(1 + self.random.below(self.shape.capacity_bytes()));
        while left > 0 {
            let bytes = self.shape.read_step_bytes(left);
            if bytes == 0 || bytes > left {
                return Err(format!("a read of {left} bytes takes {bytes}"));
            }
            self.read += bytes;
            left -= bytes;
            self.trace.push(Traced::Read { bytes });
            self.wake_writer();
        }
        let took = self.fencing.moved(1 + self.random.below(300) as u32);
        if took && self.has_duty {
            return Err(String::from("a reader takes a duty that it has"));
        }
        self.has_duty |= took;
        Ok(())
    }

    fn wake_writer(&mut self) {
        let room = self.room();
        if self.writer_wants.is_some_and(|wanted| self.shape.wakes_writer(room, wanted)) {
            self.writer_wants = None;
            self.trace.push(Traced::WriterWoken { room });
        }
    }

    fn reader_dry(&mut self) -> Result<(), String> {
        // With nothing in the pipe there is room for whatever a writer can want.
        if let Some(wanted) = self.writer_wants {
            return Err(format!("the pipe is empty, and the writer sleeps for {wanted} bytes"));
        }
        let (records, lanes) = (self.random.below(40) as u32, self.random.below(20) as u32);
        let ns = match lanes {
            0 => self.backoff.on_dry(records),
            lanes => self.backoff.on_all_dry(records, lanes),
        };
        if ns > 32_000 {
            return Err(format!("a reader of {lanes} lanes that ran dry waits for {ns} ns"));
        }
        if self.random.once_in(10) {
            self.backoff.on_pause();
            if self.backoff.on_dry(1) != 0 {
                return Err(String::from("a reader backs off at once after a pause"));
            }
        }
        if self.fencing.sleeps() != std::mem::take(&mut self.has_duty) {
            return Err(String::from("a reader gives back a duty that it does not have"));
        }
        self.reader_sleeps = true;
        self.trace.push(Traced::ReaderSleeps);
        self.look()
    }

    /// An end looks, and then sleeps.
    fn look(&mut self) -> Result<(), String> {
        let peers = [PeerCpu::SameCpu, PeerCpu::OtherCpu, PeerCpu::Unknown];
        let peer = peers[self.random.below(3) as usize];
        self.spin.begins();
        let ns = self.spin.budget_ns(peer);
        self.trace.push(Traced::Looks { peer, ns });
        let most = match peer {
            PeerCpu::SameCpu => 0,
            PeerCpu::OtherCpu => LONG_LOOK_NS,
            PeerCpu::Unknown => BLIND_LOOK_NS,
        };
        if ns > most {
            return Err(format!("an end looks for {ns} ns, and {most} is the most"));
        }
        let came = self.random.once_in(2);
        self.spin.learn(came);
        if !came {
            // Clocks jump, now and then very far.
            let far = if self.random.once_in(20) { u64::MAX } else { 400_000 };
            self.spin.slept(self.random.below(far));
        }
        Ok(())
    }

    /// A wake-up for nothing, or a wish from outside.
    fn disturb(&mut self) -> Result<(), String> {
        if self.random.once_in(2) {
            (self.writer_wants, self.reader_sleeps) = (None, false);
            return Ok(());
        }
        let bytes = match self.random.below(4) {
            0 => u64::MAX - self.random.below(3),
            1 => self.random.below(3),
            _ => 1 << self.random.below(24),
        };
        let now = self.shape.sizes();
        let asked = (None, None);
        let keeps = (Some(now.segment_bytes), Some(now.atomic_bytes));
        let fitted = PipeShape::fitted(PAGE_BYTES, bytes, asked, keeps);
        let most = self.wishes.most_bytes();
        let shape = fitted.ok().filter(|shape| shape.capacity_bytes() <= most);
        self.trace.push(Traced::Wished { bytes, granted: shape.is_some() });
        let Some(shape) = shape else { return Ok(()) };
        self.wishes.grant(shape.capacity_bytes());
        self.granted_bytes += shape.capacity_bytes();
        if self.granted_bytes > 4 * self.bound_bytes {
            return Err(format!("wishes took {} bytes in all", self.granted_bytes));
        }
        // The writer moves to the new memory between two writes, once the old one is read.
        if self.left == 0 && self.read == self.written {
            self.shape = shape;
        }
        Ok(())
    }
}
