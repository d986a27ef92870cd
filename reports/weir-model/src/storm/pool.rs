//! Storms: random loads and faults over the pool's decisions, in virtual time.
//!
//! Writers append, readers read, transfers fail, come late or out of order, the clock jumps, ends
//! die. Whatever happens, a reader sees the blocks of its stream in their order, none twice, none
//! missing; memory stays within its budget; and as long as readers read, everybody gets on.

use super::{Ended, Trace};
use crate::heap::EventHeap;
use weir_policy::pool::{Action, PoolEvent, PoolPolicy, PoolSettings, Rule};
use weir_policy::random::Random;

/// What is in a frame or in a place of the file: the stream, which of its lives, and the block.
type Content = Option<(u32, u32, u64)>;

/// The error of a failed transfer (EIO).
const FAULT: i32 = 5;
/// Steps of the ends in a storm.
const STEPS: u64 = 400;

#[derive(Clone, Copy, Debug)]
enum StormEvent {
    Writer(u32),
    Reader(u32),
    Transfer(u32),
    Tick,
}

#[derive(Clone, Copy, Debug, Default)]
struct StreamEnds {
    /// Counts the streams that had this number.
    life: u32,
    alive: bool,
    writer_gone: bool,
    appending: bool,
    written: u64,
    read: u64,
    wanting: bool,
}

struct Storm {
    pool: PoolPolicy,
    frames: Vec<Content>,
    file: Vec<Content>,
    ends: Vec<StreamEnds>,
    heap: EventHeap<StormEvent>,
    random: Random,
    now_ns: u64,
    left: u64,
    /// One transfer in so many fails; 0 for none.
    faulty: u64,
    handled: u64,
    trace: Trace<Traced>,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "it is read by being printed")]
enum Traced {
    Event(u64, StormEvent),
    Action(Action),
}

/// Runs the storm of a seed.
pub(super) fn storm(seed: u64) -> Ended {
    let mut storm = Storm::new(seed);
    match storm.run() {
        Ok(()) => Ok(storm.handled),
        Err(why) => Err((why, storm.trace.words())),
    }
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let mut random = Random::new(seed);
        let settings = PoolSettings {
            frames: 4 + random.below(40) as u32,
            slots: [0, 8, 60, 400][random.below(4) as usize],
            cluster: 1 + random.below(8) as u32,
            transfers: 1 + random.below(6) as u32,
            rule: Rule::ALL[random.below(Rule::ALL.len() as u64) as usize],
        };
        let streams = 1 + random.below(6) as u32;
        let faulty = [0, 0, 3, 20][random.below(4) as usize];
        let Ok(mut pool) = PoolPolicy::new(settings) else {
            unreachable!("memory for a small pool")
        };
        let mut heap = EventHeap::default();
        let mut ends = Vec::new();
        for _ in 0..streams {
            let stream = pool.open(0);
            heap.push(random.below(1000), StormEvent::Writer(stream));
            heap.push(random.below(100_000), StormEvent::Reader(stream));
            ends.push(StreamEnds { alive: true, ..StreamEnds::default() });
        }
        Storm {
            frames: vec![None; pool.settings().frames as usize],
            file: vec![None; settings.slots as usize],
            pool,
            ends,
            heap,
            random,
            now_ns: 0,
            left: STEPS,
            faulty,
            handled: 0,
            trace: Trace::new(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        while let Some((at_ns, what)) = self.heap.pop() {
            self.handled += 1;
            // The clock never goes back, but it may jump.
            let jump_ns =
                if self.random.once_in(200) { self.random.below(5_000_000_000) } else { 0 };
            self.now_ns = self.now_ns.max(at_ns) + jump_ns;
            self.trace.push(Traced::Event(self.now_ns, what));
            match what {
                StormEvent::Writer(stream) => self.write(stream)?,
                StormEvent::Reader(stream) => self.read(stream)?,
                StormEvent::Transfer(transfer) => self.transfer(transfer)?,
                StormEvent::Tick => self.on(PoolEvent::Tick)?,
            }
            if self.handled > 100 * STEPS {
                return Err(String::from("no end: the same happens again and again"));
            }
        }
        self.at_rest()
    }

    /// Nothing is under way any more: nobody may be left waiting, and nothing may be left behind.
    fn at_rest(&self) -> Result<(), String> {
        for (stream, ends) in self.ends.iter().enumerate().filter(|(_, ends)| ends.alive) {
            if ends.wanting && ends.read < ends.written {
                return Err(format!("the reader of stream {stream} waits for ever"));
            }
        }
        Ok(())
    }

    fn write(&mut self, stream: u32) -> Result<(), String> {
        let ends = &mut self.ends[stream as usize];
        if !ends.alive || ends.writer_gone || self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        if self.random.once_in(100) {
            ends.writer_gone = true;
            ends.appending = false;
            return self.on(PoolEvent::Withdraw { stream, empty: false });
        }
        if !ends.appending {
            ends.appending = true;
            self.on(PoolEvent::Append(stream))?;
        }
        Ok(())
    }

    fn read(&mut self, stream: u32) -> Result<(), String> {
        let ends = &mut self.ends[stream as usize];
        if !ends.alive {
            return Ok(());
        }
        if self.random.once_in(300) {
            // Both ends die; another stream begins, perhaps with the same number.
            ends.alive = false;
            ends.life += 1;
            self.on(PoolEvent::Withdraw { stream, empty: false })?;
            self.on(PoolEvent::Abandon(stream))?;
            self.on(PoolEvent::Close(stream))?;
            let opened = self.pool.open(self.now_ns);
            let life = self.ends.get(opened as usize).map_or(0, |ends| ends.life);
            if opened as usize >= self.ends.len() {
                self.ends.push(StreamEnds::default());
            }
            self.ends[opened as usize] = StreamEnds { life, alive: true, ..StreamEnds::default() };
            self.heap.push(self.now_ns + 10, StormEvent::Writer(opened));
            self.heap.push(self.now_ns + 1000, StormEvent::Reader(opened));
            return Ok(());
        }
        if ends.read < ends.written && !ends.wanting {
            ends.wanting = true;
            self.on(PoolEvent::Want(stream))?;
        } else if self.left > 0 && !ends.wanting {
            let later_ns = 1 + self.random.below(200_000);
            self.heap.push(self.now_ns + later_ns, StormEvent::Reader(stream));
        }
        Ok(())
    }

    fn transfer(&mut self, number: u32) -> Result<(), String> {
        let fails = self.faulty > 0 && self.left > 0 && self.random.once_in(self.faulty);
        let of = *self.pool.transfer(number);
        for (index, &frame) in of.frames().iter().enumerate() {
            // A torn transfer has moved a part of its blocks.
            let is_moved = !fails || self.random.once_in(2);
            let place = of.slot as usize + index;
            if is_moved && of.writes {
                self.file[place] = self.frames[frame as usize];
            } else if is_moved {
                self.frames[frame as usize] = self.file[place];
            }
        }
        self.on(PoolEvent::Done { transfer: number, fault: fails.then_some(FAULT) })
    }

    fn on(&mut self, event: PoolEvent) -> Result<(), String> {
        self.pool.on(self.now_ns, event);
        while let Some(action) = self.pool.action() {
            self.act(action)?;
        }
        let (used, most) = self.pool.frames_used();
        let budget = self.pool.settings().frames;
        if used > budget || most > budget {
            return Err(format!("{used} frames of {budget} are in use, {most} were"));
        }
        if let Some(at_ns) = self.pool.deadline_ns() {
            self.heap.push(at_ns.max(self.now_ns + 1_000_000), StormEvent::Tick);
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        self.trace.push(Traced::Action(action));
        match action {
            Action::Grant { stream, frame } => {
                let ends = &mut self.ends[stream as usize];
                if !ends.alive || !ends.appending {
                    return Err(format!("stream {stream} was granted a frame it did not ask for"));
                }
                self.frames[frame as usize] = Some((stream, ends.life, ends.written));
                ends.written += 1;
                ends.appending = false;
                self.pool.on(self.now_ns, PoolEvent::Seal(stream));
                let pause_ns = 1 + self.random.below(30_000);
                self.heap.push(self.now_ns + pause_ns, StormEvent::Writer(stream));
                if !self.ends[stream as usize].wanting {
                    self.heap.push(self.now_ns + 2 * pause_ns, StormEvent::Reader(stream));
                }
            }
            Action::Show { stream, frame, .. } => {
                let ends = &mut self.ends[stream as usize];
                let (found, wanted) = (self.frames[frame as usize], (stream, ends.life, ends.read));
                if !ends.wanting || found != Some(wanted) {
                    return Err(format!("the reader wants {wanted:?} and is shown {found:?}"));
                }
                ends.read += 1;
                ends.wanting = false;
                self.frames[frame as usize] = None;
                self.pool.on(self.now_ns, PoolEvent::Consumed(stream));
                let pause_ns = 1 + self.random.below(60_000);
                self.heap.push(self.now_ns + pause_ns, StormEvent::Reader(stream));
            }
            Action::Ready(stream) => {
                // Some readers come at once, some late or only when they are asked.
                self.ends[stream as usize].wanting = false;
                let pause_ns = if self.random.once_in(8) { 200_000_000 } else { 2_000 };
                self.heap.push(
                    self.now_ns + 1 + self.random.below(pause_ns),
                    StormEvent::Reader(stream),
                );
            }
            Action::Begin(transfer) => {
                // Some come late, and so out of order.
                let slow = if self.random.once_in(10) { 100 } else { 1 };
                let takes_ns = slow * (1000 + self.random.below(50_000));
                self.heap.push(self.now_ns + takes_ns, StormEvent::Transfer(transfer));
            }
            Action::Fail { stream, fault } => {
                if fault != FAULT {
                    return Err(format!("stream {stream} failed with {fault}"));
                }
                self.ends[stream as usize].wanting = false;
                self.heap.push(self.now_ns + 1000, StormEvent::Reader(stream));
            }
            Action::Trouble(fault) if fault != FAULT => {
                return Err(format!("the pool reports error {fault}"));
            }
            Action::Trouble(_) => {}
        }
        Ok(())
    }
}
