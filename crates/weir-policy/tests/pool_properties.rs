//! Any events in any order: no byte of a pool is lost, reordered or doubled, memory stays within the
//! budget, and the pool continues.

use proptest::prelude::*;
use std::collections::VecDeque;
use weir_policy::pool::{Action, PoolEvent, PoolPolicy, PoolSettings, Rule};

/// The content of a block: its stream, and its number there.
type Content = Option<(u32, u64)>;

#[derive(Clone, Debug)]
enum Step {
    /// A writer wants to append this many blocks.
    Write(u32, u32),
    /// A reader wants its block, and reads it.
    Read(u32),
    /// A reader looks at its block and goes away again.
    Peek(u32),
    /// A reader asks for its block, and does not come back when the block is there.
    Leave(u32),
    /// A transfer ends, the nth of those under way; with an error.
    End(usize, bool),
    /// Time passes.
    Pass(u32),
    /// A writer gets a frame and fills it later, or not at all.
    Hesitate(u32),
    /// A writer withdraws its wish.
    Withdraw(u32),
    /// A stream is closed, and another opened.
    Close(u32),
}

#[derive(Debug, Default)]
struct Ends {
    appending: bool,
    hesitates: bool,
    granted: Option<u32>,
    written: u64,
    wanting: bool,
    peeks: bool,
    away: bool,
    read: u64,
}

/// Streams as plain queues, and memory and file as plain tables.
struct Naive {
    pool: PoolPolicy,
    frames: Vec<Content>,
    file: Vec<Content>,
    ends: Vec<Ends>,
    under_way: VecDeque<u32>,
    /// The content of the frames of a write when it began.
    written: Vec<(u32, Vec<Content>)>,
    now_ns: u64,
}

impl Naive {
    fn new(settings: PoolSettings, streams: u32) -> Naive {
        let mut pool = PoolPolicy::new(settings).expect("memory");
        (0..streams).for_each(|_| _ = pool.open(0));
        let frames = vec![None; pool.settings().frames as usize];
        let file = vec![None; settings.slots as usize];
        let ends = (0..streams).map(|_| Ends::default()).collect();
        let (under_way, written) = (VecDeque::new(), Vec::new());
        Naive { pool, frames, file, ends, under_way, written, now_ns: 0 }
    }

    fn on(&mut self, event: PoolEvent) {
        self.pool.on(self.now_ns, event);
        while let Some(action) = self.pool.action() {
            self.act(action);
        }
        let (used, _) = self.pool.frames_used();
        assert!(used <= self.pool.settings().frames);
        assert!(self.pool.slots_used().0 <= self.pool.settings().slots);
        if event == PoolEvent::Tick {
            // Otherwise a waiter for the next one would not wait.
            let due = self.pool.deadline_ns();
            assert!(due.is_none_or(|due_ns| due_ns > self.now_ns), "{due:?} is past");
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Grant { stream, frame } => {
                let ends = &mut self.ends[stream as usize];
                assert!(std::mem::take(&mut ends.appending), "a frame nobody asked for");
                ends.granted = Some(frame);
                if !std::mem::take(&mut ends.hesitates) {
                    self.seal(stream);
                }
            }
            Action::Show { stream, frame, .. } => {
                let ends = &mut self.ends[stream as usize];
                assert!(std::mem::take(&mut ends.wanting), "a block nobody asked for");
                assert_eq!(self.frames[frame as usize], Some((stream, ends.read)));
                if std::mem::take(&mut ends.peeks) {
                    self.on(PoolEvent::Release(stream));
                } else {
                    ends.read += 1;
                    self.on(PoolEvent::Consumed(stream));
                }
            }
            Action::Ready(stream) => {
                let ends = &mut self.ends[stream as usize];
                assert!(ends.wanting, "a block nobody asked for");
                if ends.away {
                    ends.wanting = false;
                } else {
                    self.on(PoolEvent::Want(stream));
                    assert!(!self.ends[stream as usize].wanting, "it is ready, but not shown");
                }
            }
            Action::Fail { stream, .. } => {
                assert!(std::mem::take(&mut self.ends[stream as usize].wanting));
            }
            Action::Begin(transfer) => {
                let of = *self.pool.transfer(transfer);
                let places = of.slot as usize..of.slot as usize + of.frames().len();
                assert!(places.end <= self.file.len());
                if of.writes {
                    let frames = of.frames().iter().map(|frame| self.frames[*frame as usize]);
                    self.written.push((transfer, frames.collect()));
                } else {
                    // Garbage until the read has ended.
                    of.frames().iter().for_each(|frame| self.frames[*frame as usize] = None);
                }
                self.under_way.push_back(transfer);
            }
            Action::Trouble(_) => {}
        }
    }

    fn seal(&mut self, stream: u32) {
        let ends = &mut self.ends[stream as usize];
        if let Some(frame) = ends.granted.take() {
            self.frames[frame as usize] = Some((stream, ends.written));
            ends.written += 1;
            self.on(PoolEvent::Seal(stream));
        }
    }

    fn withdraw(&mut self, stream: u32) {
        let ends = &mut self.ends[stream as usize];
        let empty = ends.granted.take().is_some();
        (ends.appending, ends.hesitates) = (false, false);
        self.on(PoolEvent::Withdraw { stream, empty });
    }

    fn end(&mut self, nth: usize, fails: bool) {
        if self.under_way.is_empty() {
            return;
        }
        let nth = nth % self.under_way.len();
        let transfer = self.under_way.remove(nth).expect("under way");
        let of = *self.pool.transfer(transfer);
        let slot = of.slot as usize;
        if of.writes {
            let at = self.written.iter().position(|(of, _)| *of == transfer).expect("begun");
            let (_, began) = self.written.swap_remove(at);
            let now: Vec<_> =
                of.frames().iter().map(|frame| self.frames[*frame as usize]).collect();
            assert_eq!(began, now, "a frame was used again while it was written");
            if !fails {
                self.file[slot..slot + now.len()].copy_from_slice(&now);
            }
        } else if !fails {
            for (place, &frame) in of.frames().iter().enumerate() {
                self.frames[frame as usize] = self.file[slot + place];
            }
        }
        self.on(PoolEvent::Done { transfer, fault: fails.then_some(5) });
    }

    fn step(&mut self, step: &Step) {
        let count = self.ends.len() as u32;
        self.now_ns += 1_000;
        match *step {
            Step::Write(stream, blocks) => {
                (0..blocks).for_each(|_| self.write(stream % count));
            }
            Step::Read(stream) => self.want(stream % count, false),
            Step::Peek(stream) => self.want(stream % count, true),
            Step::Leave(stream) => {
                self.want(stream % count, true);
                self.ends[(stream % count) as usize].away = true;
            }
            Step::End(nth, fails) => self.end(nth, fails),
            Step::Pass(ms) => {
                self.now_ns += u64::from(ms) * 1_000_000;
                self.on(PoolEvent::Tick);
            }
            Step::Hesitate(stream) => {
                let ends = &mut self.ends[(stream % count) as usize];
                ends.hesitates |= ends.granted.is_none() && !ends.appending;
                if ends.hesitates {
                    self.write(stream % count);
                }
            }
            Step::Withdraw(stream) => self.withdraw(stream % count),
            Step::Close(stream) => {
                let stream = stream % count;
                self.on(PoolEvent::Abandon(stream));
                self.on(PoolEvent::Close(stream));
                let again = self.pool.open(self.now_ns);
                assert_eq!(again, stream);
                self.ends[stream as usize] = Ends::default();
            }
        }
    }

    fn write(&mut self, stream: u32) {
        self.seal(stream);
        let ends = &mut self.ends[stream as usize];
        if !std::mem::replace(&mut ends.appending, true) {
            self.on(PoolEvent::Append(stream));
        }
    }

    fn want(&mut self, stream: u32, peeks: bool) {
        let ends = &mut self.ends[stream as usize];
        if ends.read < ends.written && !std::mem::replace(&mut ends.wanting, true) {
            (ends.peeks, ends.away) = (peeks, false);
            self.on(PoolEvent::Want(stream));
        }
    }

    /// Reads everything, with a disk that works again: one stream after another, while nobody is at
    /// the others. A pool that no reader left waiting continues within two ticks.
    fn drain(&mut self) {
        let streams = self.ends.len() as u32;
        (0..streams).for_each(|stream| self.withdraw(stream));
        for stream in 0..streams {
            self.ends.iter_mut().for_each(|ends| ends.away = true);
            let mut stands = 0;
            while self.ends[stream as usize].read < self.ends[stream as usize].written {
                let read = self.ends[stream as usize].read;
                self.want(stream, false);
                let ends = &mut self.ends[stream as usize];
                (ends.peeks, ends.away) = (false, false);
                while !self.under_way.is_empty() {
                    self.end(0, false);
                }
                let due_ns = self.pool.deadline_ns().unwrap_or(self.now_ns);
                self.now_ns = due_ns.max(self.now_ns);
                self.on(PoolEvent::Tick);
                stands = if self.ends[stream as usize].read > read { 0 } else { stands + 1 };
                assert!(stands <= 2 * streams, "it stands still");
            }
        }
        while !self.under_way.is_empty() {
            self.end(0, false);
        }
    }

    fn check_all_is_back(&self) {
        assert_eq!(self.pool.frames_used().0, 0);
        assert_eq!(self.pool.slots_used().0, 0);
        let counts = self.pool.counts();
        assert_eq!(counts.appended, counts.consumed);
        assert_eq!(counts.delayed, counts.cancelled + counts.spilled);
    }
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (any::<u32>(), 1_u32..30).prop_map(|(stream, blocks)| Step::Write(stream, blocks)),
        4 => any::<u32>().prop_map(Step::Read),
        1 => any::<u32>().prop_map(Step::Peek),
        1 => any::<u32>().prop_map(Step::Leave),
        4 => (any::<usize>(), prop::bool::weighted(0.2)).prop_map(|(n, f)| Step::End(n, f)),
        1 => (0_u32..50).prop_map(Step::Pass),
        1 => any::<u32>().prop_map(Step::Hesitate),
        1 => any::<u32>().prop_map(Step::Withdraw),
        1 => prop::bool::weighted(0.1).prop_flat_map(|close| if close {
            any::<u32>().prop_map(Step::Close).boxed()
        } else {
            any::<u32>().prop_map(|stream| Step::Write(stream, 3)).boxed()
        }),
    ];
    prop::collection::vec(step, 0..most)
}

fn settings() -> impl Strategy<Value = PoolSettings> {
    let rule = prop::sample::select(Rule::ALL.to_vec());
    // Small pools have clusters of one block.
    let frames = prop_oneof![4_u32..8, 4_u32..40, 200_u32..700];
    let slots = prop_oneof![0_u32..20, 0_u32..900];
    (frames, slots, 1_u32..8, 1_u32..6, rule).prop_map(
        |(frames, slots, cluster, transfers, rule)| PoolSettings {
            frames,
            slots,
            cluster,
            transfers,
            rule,
        },
    )
}

/// Sequences of events a run.
const CASES: u32 = 300;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_it_continues(
        settings in settings(),
        streams in 1_u32..6,
        steps in steps(600),
    ) {
        let mut naive = Naive::new(settings, streams);
        for step in &steps {
            naive.step(step);
        }
        naive.drain();
        naive.check_all_is_back();
    }

    #[test]
    fn a_dead_disk_loses_nothing_that_memory_holds(
        settings in settings(),
        streams in 1_u32..6,
        steps in steps(300),
    ) {
        let mut naive = Naive::new(settings, streams);
        for step in &steps {
            match step {
                Step::End(nth, _) => naive.step(&Step::End(*nth, true)),
                step => naive.step(step),
            }
        }
        // All writes have failed: everything is in memory, and readers get it without the disk.
        let streams = naive.ends.len() as u32;
        for _ in 0..=settings.frames + streams {
            for stream in 0..streams {
                naive.ends[stream as usize].peeks = false;
                naive.ends[stream as usize].away = false;
                naive.want(stream, false);
            }
        }
        let unread = naive.ends.iter().filter(|ends| ends.read < ends.written).count();
        prop_assert_eq!(unread, 0);
        while !naive.under_way.is_empty() {
            naive.end(0, true);
        }
        naive.drain();
        naive.check_all_is_back();
    }
}
