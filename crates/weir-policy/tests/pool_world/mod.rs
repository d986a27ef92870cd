//! A world for the pool in virtual time: streams, a disk that takes its time, and a clock.
//!
//! The policy is the one the library runs; here an event heap takes the place of threads, and
//! frames and file hold the number of a block instead of its bytes.

#![allow(dead_code)]

pub mod loads;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_policy::pool::{Action, BlockCounts, PoolEvent, PoolPolicy, PoolSettings};

/// The content of a frame or a place in the file: the stream, and the block's number in it.
pub type Content = Option<(u32, u64)>;

/// What happens in a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The reader of a stream wants its next block.
    Read(u32),
    /// The writer of a stream has a block.
    Write(u32),
}

/// Steps by their time, in nanoseconds.
pub type Load = Vec<(u64, Step)>;

/// Returns how long the disk takes for a transfer of this many blocks, one after the other.
pub fn disk_ns(writes: bool, blocks: usize) -> u64 {
    let (first_ns, each_ns) = if writes { (15_000, 5_000) } else { (20_000, 10_000) };
    first_ns + each_ns * blocks as u64
}

#[derive(Debug, Default)]
struct Ends {
    /// Blocks that the writer has no frame for.
    to_write: u64,
    appending: bool,
    written: u64,
    /// Blocks that the reader wants and does not have.
    to_read: u64,
    wanting: bool,
    read: u64,
}

/// The pool and what is around it.
pub struct World {
    pub pool: PoolPolicy,
    frames: Vec<Content>,
    file: Vec<Content>,
    ends: Vec<Ends>,
    under_way: BinaryHeap<Reverse<(u64, u32)>>,
    disk_free_ns: u64,
    pub now_ns: u64,
    /// Time that readers waited for blocks that were in the file.
    pub waited_ns: u64,
    wanted_ns: Vec<u64>,
}

impl World {
    pub fn new(settings: PoolSettings, streams: u32) -> World {
        let mut pool = PoolPolicy::new(settings).expect("memory");
        for _ in 0..streams {
            pool.open(0);
        }
        World {
            frames: vec![None; pool.settings().frames as usize],
            file: vec![None; settings.slots as usize],
            pool,
            ends: (0..streams).map(|_| Ends::default()).collect(),
            under_way: BinaryHeap::new(),
            disk_free_ns: 0,
            now_ns: 0,
            waited_ns: 0,
            wanted_ns: vec![0; streams as usize],
        }
    }

    /// Runs a load to its end, and on until the disk rests.
    pub fn run(&mut self, load: &Load) {
        for &(at_ns, step) in load {
            self.pass_until(at_ns);
            self.now_ns = at_ns;
            match step {
                Step::Write(stream) => self.ends[stream as usize].to_write += 1,
                Step::Read(stream) => self.ends[stream as usize].to_read += 1,
            }
            self.go_on(match step {
                Step::Write(stream) | Step::Read(stream) => stream,
            });
        }
        self.pass_until(u64::MAX);
    }

    /// Ends the transfers that are due before this time.
    fn pass_until(&mut self, until_ns: u64) {
        while let Some(&Reverse((at_ns, transfer))) = self.under_way.peek() {
            if at_ns > until_ns {
                return;
            }
            self.under_way.pop();
            self.now_ns = at_ns;
            let of = *self.pool.transfer(transfer);
            for (place, &frame) in of.frames().iter().enumerate() {
                let place = of.slot as usize + place;
                if of.writes {
                    self.file[place] = self.frames[frame as usize];
                } else {
                    self.frames[frame as usize] = self.file[place];
                }
            }
            self.on(PoolEvent::Done { transfer, fault: None });
        }
    }

    fn on(&mut self, event: PoolEvent) {
        self.pool.on(self.now_ns, event);
        while let Some(action) = self.pool.action() {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Grant { stream, frame } => {
                let ends = &mut self.ends[stream as usize];
                self.frames[frame as usize] = Some((stream, ends.written));
                ends.written += 1;
                ends.to_write -= 1;
                ends.appending = false;
                self.on(PoolEvent::Seal(stream));
                self.go_on(stream);
            }
            Action::Show { stream, frame, .. } => {
                let now_ns = self.now_ns;
                let ends = &mut self.ends[stream as usize];
                assert_eq!(self.frames[frame as usize], Some((stream, ends.read)));
                self.waited_ns += now_ns - self.wanted_ns[stream as usize];
                ends.read += 1;
                ends.to_read -= 1;
                ends.wanting = false;
                self.on(PoolEvent::Consumed(stream));
                self.go_on(stream);
            }
            Action::Ready(stream) => self.on(PoolEvent::Want(stream)),
            Action::Begin(transfer) => {
                let of = self.pool.transfer(transfer);
                let begun_ns = self.disk_free_ns.max(self.now_ns);
                self.disk_free_ns = begun_ns + disk_ns(of.writes, of.frames().len());
                self.under_way.push(Reverse((self.disk_free_ns, transfer)));
            }
            Action::Fail { fault, .. } | Action::Trouble(fault) => panic!("fault {fault}"),
        }
    }

    /// Lets the ends of a stream do what they can.
    fn go_on(&mut self, stream: u32) {
        let ends = &mut self.ends[stream as usize];
        if ends.to_write > 0 && !ends.appending {
            ends.appending = true;
            self.on(PoolEvent::Append(stream));
        }
        let ends = &mut self.ends[stream as usize];
        if ends.to_read > 0 && !ends.wanting && ends.read < ends.written {
            ends.wanting = true;
            self.wanted_ns[stream as usize] = self.now_ns;
            self.on(PoolEvent::Want(stream));
        }
    }

    /// Returns the counts, once everything was read.
    pub fn finished(&self) -> BlockCounts {
        let left: u64 = self.ends.iter().map(|ends| ends.written - ends.read).sum();
        let waiting: u64 = self.ends.iter().map(|ends| ends.to_write).sum();
        assert_eq!((left, waiting), (0, 0), "blocks were left");
        let counts = self.pool.counts();
        assert_eq!(counts.appended, counts.consumed);
        assert_eq!(counts.delayed, counts.cancelled + counts.spilled);
        assert_eq!((self.pool.frames_used().0, self.pool.slots_used().0), (0, 0));
        counts
    }
}
