//! The state of each thread that counts, and how it tells its times apart.
//!
//! A thread records the row it is in and when it last read the clock. At each start and end of a
//! span it reads the clock again and adds the time passed to the row it was in. So a row gets self
//! time only, and a long-running span shows meanwhile.
//!
//! For a long time, the thread's CPU clock tells how much of it was spent on a CPU. A reading of
//! that clock costs as much as 20 spans, so long times are kept back until there are [`MOST_LONG`]
//! or they come to [`SpanClock::settle`]; then one reading divides them all into CPU time and
//! waiting.
//!
//! A thread that counts often reads the clock for a part of the time only. It times a *stretch* of
//! [`STRETCH_LOOKS`] looks in a row. A *gap* follows, in which it continues counting without
//! reading the clock, for so many counts that looks are [`SpanClock::apart`] apart on average. The
//! CPU clock, read at the start and the end of a gap, says what the thread used meanwhile. (M.
//! Hirzel and T. Chilimbi, "Bursty Tracing: A Framework for Low-Overhead Temporal Profiling",
//! 2001.)

use super::clock::{self, LONG_NS, SpanClock};
use super::layout::{
    CALLS, GAP_CPU_NS, GAP_MOST_NS, OWN, OWNERS_AT, SINCE_AT, SYSTEM, TABLE_WORDS, TABLES_AT,
    THREADS, THREADS_LOST_AT, TOGETHER_AT, UNTIL_AT, UNTIMED, USER, WAIT,
};
use super::passed::{MOST_LONG, OpenCall, Passed, divide};
use super::table::{TABLE, add, cell, is_on_at};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use weir_sys::cpu::{counter, thread_ns};
use weir_sys::forks;

/// Stands for a table that could not be assigned.
const NO_TABLE: u32 = u32::MAX;

/// Looks at the clock in a stretch.
const STRETCH_LOOKS: u32 = 128;
/// Most counts of a gap, but for its random part.
const GAP_COUNTS: u32 = 16 * STRETCH_LOOKS;
/// How much more CPU time a gap may use, for each of its counts, than the stretch before it.
const MOST_ALIKE: u64 = 4;
/// Stands for no gap, in place of the end of a lease: no lease ends that late.
const NO_GAP: u64 = u64::MAX;

/// The start of a span or a system call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Now: reads the clock.
    Now,
    /// The last reading: where the previous span or call ended.
    Next,
}

/// The state of a thread.
///
/// A program mostly counts just after a system call or another process has used the caches. So what
/// each count needs is in the first cache line.
#[repr(C, align(64))]
pub struct ThreadState {
    /// The process it belongs to, as [`forks::epoch`] counts them.
    epoch: Cell<u32>,
    table: Cell<u32>,
    /// First word of the current row.
    row: Cell<u32>,
    pub depth: Cell<u32>,
    /// The longest time that counts as CPU time without reading the CPU clock, in ticks, and that
    /// for a system call that may wait. 0 until it has a table, and where no counter is the clock.
    limits: Cell<[u32; 2]>,
    pub in_call: Cell<bool>,
    /// Whether the last thing that it counted was the end of a span or a call.
    pub ended: Cell<bool>,
    /// Looks that are left of a stretch, or counts that are left of a gap.
    left: Cell<u32>,
    /// When it last read the clock.
    last: Cell<u64>,
    /// When it last read its CPU clock. 0 in a gap, as if it had not since the profile is on.
    looked: Cell<u64>,
    /// In a gap, the end of the lease as it was when the gap began; else [`NO_GAP`].
    gap_lease: Cell<u64>,
    longs: Cell<usize>,
    /// Set once it has a table.
    clock: Cell<Option<&'static SpanClock>>,
    /// When the stretch began, and what the CPU clock said when it was last read before.
    stretch_began: Cell<u64>,
    stretch_cpu_ns: Cell<u64>,
    /// Long times since the CPU clock was last read: how many (above), their sum, and each.
    long_ticks: Cell<u64>,
    /// What the CPU clock said when it was last read.
    cpu_ns: Cell<u64>,
    long: [Cell<Passed>; MOST_LONG],
}

thread_local! {
    // No destructor: it is plain memory, without a check at each use.
    pub static STATE: ThreadState = const {
        ThreadState {
            epoch: Cell::new(0),
            table: Cell::new(0),
            row: Cell::new(0),
            depth: Cell::new(0),
            limits: Cell::new([0; 2]),
            in_call: Cell::new(false),
            ended: Cell::new(false),
            left: Cell::new(0),
            last: Cell::new(0),
            looked: Cell::new(0),
            gap_lease: Cell::new(NO_GAP),
            longs: Cell::new(0),
            clock: Cell::new(None),
            stretch_began: Cell::new(0),
            stretch_cpu_ns: Cell::new(0),
            long_ticks: Cell::new(0),
            cpu_ns: Cell::new(0),
            long: [const { Cell::new(Passed::NONE) }; MOST_LONG],
        }
    };
    static RELEASE: Release = const { Release };
}

/// Returns this thread's state, reset after a fork: the parent's table is not here.
#[inline]
pub fn with_state<T>(f: impl FnOnce(&ThreadState) -> T) -> T {
    STATE.with(|state| {
        if state.epoch.get() != forks::epoch() {
            state.epoch.set(forks::epoch());
            state.table.set(0);
            state.row.set(0);
            state.depth.set(0);
            state.in_call.set(false);
            state.ended.set(false);
            state.looked.set(0);
            state.gap_lease.set(NO_GAP);
        }
        f(state)
    })
}

/// Releases a thread's table when the thread ends.
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        settle();
        with_state(|state| {
            // Open spans end uncounted: the table is another thread's by then.
            state.depth.set(0);
            state.in_call.set(false);
            let table = state.table.get();
            if table != NO_TABLE && table != 0 {
                // One that could not be ended: what comes after this is not counted.
                state.forget_gap();
                state.table.set(NO_TABLE);
                let slot = (table as usize - TABLES_AT) / TABLE_WORDS;
                // Release: pairs with the Acquire of the thread that takes the table next.
                TABLE.word(OWNERS_AT + slot).store(0, Ordering::Release);
            }
        });
    }
}

impl ThreadState {
    /// Returns its table, and takes one if it has none. `None` where nothing is counted: no table
    /// is left, the profile was never on, or the thread is in a system call or at its end.
    #[inline]
    pub fn table(&self) -> Option<u32> {
        match self.table.get() {
            0 => self.take_table(),
            NO_TABLE => None,
            table => Some(table),
        }
        .filter(|_| !self.in_call.get())
    }

    #[cold]
    #[inline(never)]
    fn take_table(&self) -> Option<u32> {
        let clock = clock::made()?;
        self.clock.set(Some(clock));
        if clock.counted().is_some() {
            self.limits.set(clock.limits.map(|ticks| u32::try_from(ticks).unwrap_or(u32::MAX)));
        }
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        let free = (0..THREADS).find(|slot| {
            let owner = TABLE.word(OWNERS_AT + slot);
            // Acquire: pairs with the Release of the last owner, whose counts are continued.
            owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
        });
        let released = RELEASE.try_with(|_| ()).is_ok();
        let Some(slot) = free.filter(|_| released) else {
            TABLE.word(THREADS_LOST_AT).fetch_add(1, Ordering::Relaxed);
            self.table.set(NO_TABLE);
            return None;
        };
        let table = (TABLES_AT + slot * TABLE_WORDS) as u32;
        self.table.set(table);
        self.row.set(table);
        Some(table)
    }

    /// Whether it counts without reading the clock, for one more time at least. A lease that
    /// somebody has renewed ends the gap: an observer sees what a thread does that has come to
    /// count seldom.
    #[inline]
    pub fn in_gap(&self) -> bool {
        self.left.get() > 1 && self.gap_lease.get() == TABLE.word(UNTIL_AT).load(Ordering::Relaxed)
    }

    /// Whether it is in a gap where calls are counted; if so, counts one.
    #[inline]
    pub fn counts_in_gap(&self) -> bool {
        let in_gap = self.in_gap() && !self.in_call.get();
        if in_gap {
            self.left.set(self.left.get() - 1);
            self.ended.set(false);
        }
        in_gap
    }

    /// Begins a span.
    #[inline]
    pub fn push(&self, row: u32) -> (u32, u32) {
        let here = self.table.get() + row;
        add(here, CALLS, 1);
        let depth = self.depth.get() + 1;
        self.depth.set(depth);
        (self.row.replace(here), depth)
    }

    /// Ends a span that is not over yet.
    #[inline]
    pub fn pop(&self, before: u32, depth: u32) {
        self.ended.set(true);
        self.row.set(before);
        self.depth.set(depth - 1);
    }

    /// Begins a system call.
    #[inline]
    pub fn call(&self, row: u32, waits: bool) -> OpenCall {
        let row = self.table.get() + row;
        add(row, CALLS, 1);
        self.in_call.set(true);
        OpenCall { row, waits }
    }

    /// Reads the clock, and adds the time since it last did, or since the profile was switched on,
    /// to the current row; and to the row of the system call that ends, if one does. Returns false
    /// where the profile is off.
    ///
    /// Never inlined: each time passes here, and one copy stays in the caches. Every call in it is
    /// its last act, so that it saves no registers.
    #[inline(never)]
    pub fn charge(&self, call: OpenCall) -> bool {
        let until = TABLE.word(UNTIL_AT).load(Ordering::Relaxed);
        let left = self.left.get();
        let limit = self.limits.get()[usize::from(call.waits)];
        if until == 0 {
            return false;
        }
        let (1.., Some(now)) = (limit, counter()) else { return self.charge_by_other(call) };
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        if now >= until || left <= 1 || self.looked.get() <= since {
            return self.charge_rarely(call, now);
        }
        self.left.set(left - 1);
        self.charge_until(call, u64::from(limit), now, since)
    }

    /// As `charge`, where no counter is the clock, or no table was taken.
    #[cold]
    #[inline(never)]
    fn charge_by_other(&self, call: OpenCall) -> bool {
        self.clock.get().is_some_and(|clock| self.charge_rarely(call, clock.now()))
    }

    /// As `charge`, where the lease has expired, the clock is read first since the profile is on,
    /// or a stretch or a gap is over.
    #[cold]
    #[inline(never)]
    fn charge_rarely(&self, call: OpenCall, now: u64) -> bool {
        let Some(clock) = self.clock.get().filter(|_| is_on_at(now)) else { return false };
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        let limit = clock.limits[usize::from(call.waits)];
        if self.last.get() > since && self.gap_lease.get() != NO_GAP {
            self.end_gap(clock, now);
            return true;
        }
        if self.looked.get() <= since {
            self.begin_with(now);
        }
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        let on = self.charge_until(call, limit, now, since);
        if left <= 1 {
            self.end_stretch(clock);
        }
        on
    }

    #[inline(always)]
    fn charge_until(&self, call: OpenCall, limit: u64, now: u64, since: u64) -> bool {
        let ticks = now.saturating_sub(self.last.replace(now).max(since));
        let row = self.row.get();
        if ticks > limit {
            return self.keep(row, call, ticks);
        }
        Passed { row, call, ticks }.add_cpu(ticks);
        true
    }

    /// Handles the first reading since the profile is on: times kept back before belong to no
    /// interval.
    fn begin_with(&self, now: u64) {
        self.cpu_ns.set(thread_ns());
        self.longs.set(0);
        self.long_ticks.set(0);
        self.looked.set(now);
        self.forget_gap();
        self.begin_stretch(now);
    }

    fn begin_stretch(&self, now: u64) {
        self.left.set(STRETCH_LOOKS);
        self.stretch_began.set(now);
        self.stretch_cpu_ns.set(self.cpu_ns.get());
    }

    /// Begins the next stretch, or a gap before it where the looks were less than
    /// [`SpanClock::apart`] apart.
    fn end_stretch(&self, clock: &SpanClock) {
        let (looks, now) = (u64::from(STRETCH_LOOKS), self.last.get());
        let took = now.saturating_sub(self.stretch_began.get());
        let lacks = (looks * clock.apart).saturating_sub(took);
        if lacks == 0 {
            return self.begin_stretch(now);
        }
        self.settle();
        let counts = looks.saturating_mul(lacks) / took.max(1);
        let counts = counts.clamp(1, u64::from(GAP_COUNTS));
        // From half of it to one and a half: the lowest digits of the counter follow no period of
        // the program.
        let counts = counts / 2 + now % counts + 1;
        self.left.set(counts as u32);
        self.looked.set(0);
        self.gap_lease.set(TABLE.word(UNTIL_AT).load(Ordering::Relaxed));
        let cpu_ns = self.cpu_ns.get();
        let used_ns = cpu_ns.saturating_sub(self.stretch_cpu_ns.get());
        let most_ns = used_ns.saturating_mul(MOST_ALIKE * counts) / looks + LONG_NS;
        cell(self.gaps(), GAP_MOST_NS).store(most_ns, Ordering::Relaxed);
        cell(self.gaps(), GAP_CPU_NS).store(cpu_ns, Ordering::Relaxed);
    }

    /// Ends the gap, and says what it used: observers divide that among the rows. CPU time beyond
    /// that of the stretch before it stays unexplained, since something else ran than what was
    /// timed.
    fn end_gap(&self, clock: &SpanClock, now: u64) {
        let cpu_ns = thread_ns();
        let elapsed = now.saturating_sub(self.last.get());
        let used = clock.cpu_ticks(self.cpu_ns.replace(cpu_ns), cpu_ns).min(elapsed);
        let most_ns = cell(self.gaps(), GAP_MOST_NS).load(Ordering::Relaxed);
        // First of all, so that no observer adds it twice.
        self.forget_gap();
        add(self.gaps(), USER, used.min(clock.ticks(most_ns)));
        add(self.gaps(), WAIT, elapsed - used);
        let now = self.asked(clock, now);
        self.looked.set(now);
        self.begin_stretch(now);
    }

    fn forget_gap(&self) {
        self.gap_lease.set(NO_GAP);
        cell(self.gaps(), GAP_CPU_NS).store(0, Ordering::Relaxed);
    }

    /// Returns the row of gaps of its table.
    fn gaps(&self) -> u32 {
        self.table.get() + UNTIMED as u32
    }

    /// Counts a reading of the CPU clock that began at this time, and returns when it ended.
    fn asked(&self, clock: &SpanClock, begun: u64) -> u64 {
        let ended = clock.now();
        let own = self.table.get() + OWN as u32;
        add(own, CALLS, 1);
        // A thread that lost its CPU just here did not spend all that time reading.
        add(own, SYSTEM, ended.saturating_sub(begun).min(4 * clock.ask_ticks));
        self.last.set(ended);
        ended
    }

    /// Adds the time up to a start to the current row. Returns false where nothing is counted.
    #[inline]
    pub fn begins(&self, begin: Begin) -> bool {
        self.ended.set(false);
        // Without a reading since the profile is on, there is no end to begin at.
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        (begin == Begin::Next && self.last.get() > since) || self.charge(OpenCall::NONE)
    }

    /// Keeps back a time that has just passed; true, as `charge` returns.
    #[inline(never)]
    fn keep(&self, row: u32, call: OpenCall, ticks: u64) -> bool {
        let count = self.longs.get();
        self.long[count].set(Passed { row, call, ticks });
        self.longs.set(count + 1);
        self.long_ticks.set(self.long_ticks.get() + ticks);
        let settle = self.clock.get().map_or(0, |clock| clock.settle);
        if count + 1 == MOST_LONG || self.long_ticks.get() >= settle {
            self.settle();
        }
        true
    }

    /// Reads the CPU clock, and divides the long times since its last reading into CPU time and
    /// waiting. All the missing CPU time is in them, as every other time was too short to matter.
    #[cold]
    #[inline(never)]
    fn settle(&self) {
        let Some(clock) = self.clock.get() else { return };
        let count = self.longs.replace(0);
        let longs = &self.long[..count];
        let (now, looked, cpu_ns) = (self.last.get(), self.looked.get(), thread_ns());
        let used = clock.cpu_ticks(self.cpu_ns.replace(cpu_ns), cpu_ns);
        let lacked = now.saturating_sub(looked).saturating_sub(used);
        self.looked.set(self.asked(clock, now));
        let all = self.long_ticks.replace(0);
        divide(longs, all, lacked);
        if count > 1 {
            TABLE.word(TOGETHER_AT).fetch_add(count as u64, Ordering::Relaxed);
        }
    }
}

/// Settles the times that this thread has kept back, and ends its gap.
pub fn settle() {
    with_state(|state| {
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        let Some(clock) = state.clock.get() else { return };
        let has_table = !matches!(state.table.get(), 0 | NO_TABLE);
        if !has_table || state.in_call.get() || state.last.get() <= since {
            return;
        }
        if state.gap_lease.get() != NO_GAP {
            let now = clock.now();
            if is_on_at(now) {
                state.end_gap(clock, now);
            }
        } else if state.longs.get() > 0 && state.charge(OpenCall::NONE) {
            state.settle();
        }
    });
}
