//! How the memory of a pool goes to its borrowers and back.
//!
//! A borrower takes frames of the pool and has memory of its own in their stead. The thread that
//! decides here takes memory back from the one that needs it least (`weir_policy::paging::sharing`)
//! when another or a stream of the pool lacks it. When they thrash, it sends whole ones out in turn
//! (`weir_policy::paging::swapping`).

use super::core::Core;
use super::lending::{Borrower, Member, ShareState};
use crate::error::{Error, Result};
use crate::memory::FrameWriter;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use weir_policy::paging::Run;
use weir_policy::paging::sharing::{self, ShareFacts};
use weir_policy::paging::swapping::{Interval, Rotation, RotationFacts, Thrashing};

/// The time over which faults are counted.
const INTERVAL: Duration = Duration::from_millis(100);
/// Borrowers that are swapped have turns of at least this time.
const TURN: Duration = Duration::from_millis(1000);
/// The least time between two decisions, so that deciding costs little.
const APART: Duration = Duration::from_millis(2);
/// Without a wish for so many intervals, the thread sleeps until there is one.
const RESTS_AFTER: u32 = 20;

/// Asks a borrower for memory from now on, when others of the pool lack it.
pub fn join(core: &Arc<Core>, member: Member) -> Result<()> {
    if core.lending.add(member) {
        let of = Arc::clone(core);
        let started = weir_sys::threads::start("weir-lending", move || Lender::new(&of).run());
        started.map_err(|cause| {
            // The next borrower tries again.
            core.lending.not_started();
            Error::os("start", "the thread of a pool's regions", cause)
        })?;
    }
    Ok(())
}

impl Core {
    /// Lends up to `most` frames, without memory.
    pub fn borrow(&self, most: u32, to: &mut Vec<FrameWriter>) {
        let mut state = self.lock();
        let mut frames = Vec::new();
        self.change(&mut state, |policy, now_ns| {
            policy.lend(now_ns, most, |frame| frames.push(frame));
        });
        for frame in frames {
            let guard = self.frames.writer(frame);
            // A frame that keeps its memory would be counted once and there twice.
            match guard.filter(|guard| guard.release().is_ok()) {
                Some(guard) => to.push(guard),
                None => self.change(&mut state, |policy, now_ns| policy.take_back(now_ns, frame)),
            }
        }
    }

    /// Takes frames back that were lent.
    pub fn take_back(&self, lent: Vec<FrameWriter>) {
        let frames: Vec<u32> = lent.iter().map(FrameWriter::frame).collect();
        drop(lent);
        let mut state = self.lock();
        for frame in frames {
            self.change(&mut state, |policy, now_ns| policy.take_back(now_ns, frame));
        }
    }

    fn free_pages(&self, page_bytes: u64) -> u32 {
        let state = self.lock();
        let free = state.policy.settings().frames - state.policy.frames_used().0;
        (u64::from(free) * self.frames.frame_bytes() as u64 / page_bytes) as u32
    }
}

/// What the thread knows of a member.
struct MemberState {
    state: Arc<ShareState>,
    borrower: Arc<dyn Borrower>,
    faults: u64,
    again: u64,
    waited_ns: u64,
    /// Faults of the last intervals, each with half the weight of the next.
    recent: u64,
    since_ns: u64,
    /// What it had when it went out.
    had: u32,
    set: Vec<Run>,
}

impl MemberState {
    fn new(member: &Member, now_ns: u64) -> MemberState {
        MemberState {
            state: Arc::clone(&member.state),
            borrower: Arc::clone(&member.borrower),
            faults: 0,
            again: 0,
            waited_ns: 0,
            recent: 0,
            since_ns: now_ns,
            had: 0,
            set: Vec::new(),
        }
    }

    fn facts(&self, least: u32) -> ShareFacts {
        let new = self.state.faults.load(Relaxed).saturating_sub(self.faults);
        let frames = if self.state.is_out() { 0 } else { self.state.pages.load(Relaxed) };
        ShareFacts { frames, least, faults: self.recent + new }
    }

    /// Counts an interval into the sum of all.
    fn end_interval(&mut self, sum: &mut Interval) {
        let state = &self.state;
        let news = |now: u64, before: &mut u64| now.saturating_sub(std::mem::replace(before, now));
        let hard = news(state.faults.load(Relaxed), &mut self.faults);
        sum.hard += hard;
        sum.again += news(state.again.load(Relaxed), &mut self.again);
        sum.waited_ns += news(state.waited_ns.load(Relaxed), &mut self.waited_ns);
        sum.threads += u32::from(hard > 0);
        self.recent = self.recent / 2 + hard;
    }
}

/// The thread that decides.
struct Lender<'a> {
    core: &'a Core,
    begun: Instant,
    interval_at: Instant,
    quiet: u32,
    thrashing: Thrashing,
    known: Vec<MemberState>,
}

impl Lender<'_> {
    fn new(core: &Core) -> Lender<'_> {
        let now = Instant::now();
        let (thrashing, known) = (Thrashing::default(), Vec::new());
        Lender { core, begun: now, interval_at: now, quiet: 0, thrashing, known }
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn run(&mut self) {
        weir_sys::signals::block_all();
        loop {
            let rests = self.quiet > RESTS_AFTER && self.known.iter().all(|of| !of.state.is_out());
            let left = INTERVAL.saturating_sub(self.interval_at.elapsed());
            let Some((members, asked)) = self.core.lending.wait((!rests).then_some(left)) else {
                return;
            };
            self.meet(&members);
            if asked {
                self.quiet = 0;
                self.share();
            }
            if self.interval_at.elapsed() >= INTERVAL {
                self.end_interval();
                if self.core.lock().policy.wants_back() {
                    // What could not be given before may be given now.
                    self.core.lending.ask();
                }
            }
            // sleep: so that those who ask all the time do not make this thread run all the time.
            std::thread::sleep(APART);
        }
    }

    fn meet(&mut self, members: &[Member]) {
        let now_ns = self.now_ns();
        let is_member =
            |of: &MemberState| members.iter().any(|one| Arc::ptr_eq(&one.state, &of.state));
        self.known.retain(is_member);
        for member in members {
            if !self.known.iter().any(|of| Arc::ptr_eq(&of.state, &member.state)) {
                self.known.push(MemberState::new(member, now_ns));
            }
        }
    }

    fn least(&self) -> u32 {
        let each = self.core.frames.frame_bytes() as u64 / crate::memory::page_bytes();
        weir_policy::paging::LEAST_FRAMES.next_multiple_of(each as u32)
    }

    fn facts(&self) -> Vec<ShareFacts> {
        let least = self.least();
        self.known.iter().map(|of| of.facts(least)).collect()
    }

    /// Takes from those who have most, for those who ask.
    fn share(&self) {
        let askers: Vec<usize> = (0..self.known.len())
            .filter(|at| self.known[*at].state.wants.swap(false, Relaxed))
            .collect();
        for asker in askers {
            let facts = self.facts();
            if let Some(giver) = sharing::giver(&facts, Some(asker)) {
                let pages = sharing::gives(&facts[giver]);
                self.known[giver].borrower.give(pages);
            }
        }
        // Streams, and borrowers that begin, wait without asking again.
        while self.core.lock().policy.wants_back() || self.core.lending.waiting() > 0 {
            let facts = self.facts();
            let Some(giver) = sharing::giver(&facts, None) else { return };
            let pages = sharing::gives(&facts[giver]);
            if self.known[giver].borrower.give(pages) == 0 {
                return;
            }
            if self.core.lending.waiting() > 0 {
                // It takes what has come back, and asks again.
                return;
            }
        }
    }

    fn end_interval(&mut self) {
        let ns = self.interval_at.elapsed().as_nanos() as u64;
        self.interval_at = Instant::now();
        let mut sum = Interval { ns, ..Interval::default() };
        self.known.iter_mut().for_each(|of| of.end_interval(&mut sum));
        self.quiet = if sum.hard > 0 { 0 } else { self.quiet + 1 };
        let thrashes = self.thrashing.interval(sum) && self.core.lending.swaps.load(Relaxed);
        let facts: Vec<RotationFacts> = self.known.iter().map(MemberState::rotation).collect();
        let now_ns = self.now_ns();
        let free = self.core.free_pages(crate::memory::page_bytes());
        let largest = self.core.lending.swap_largest.load(Relaxed) as usize;
        let rotation = Rotation { turn_ns: TURN.as_nanos() as u64, largest };
        let exchange = rotation.decide(now_ns, thrashes, free, &facts);
        if let Some(of) = exchange.goes.and_then(|at| self.known.get_mut(at)) {
            of.go(now_ns);
        }
        if let Some(at) = exchange.comes {
            self.known[at].come();
            self.known[at].since_ns = self.now_ns();
        }
    }
}

impl MemberState {
    fn rotation(&self) -> RotationFacts {
        let is_out = self.state.is_out();
        let frames = if is_out { self.had } else { self.state.pages.load(Relaxed) };
        RotationFacts { frames, since_ns: self.since_ns, is_out }
    }

    /// Sends the borrower out: it keeps the least, and its threads wait.
    fn go(&mut self, now_ns: u64) {
        self.state.set_out(true);
        self.had = self.state.pages.load(Relaxed);
        self.since_ns = now_ns;
        self.set = self.borrower.go_out();
    }

    /// Lets the borrower in, with what it had.
    fn come(&mut self) {
        let set = std::mem::take(&mut self.set);
        self.borrower.come_in(self.had, &set);
        self.state.set_out(false);
    }
}
