//! The table of this process, and the state of each thread that counts in it.
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
//! Each word has one writer: a thread's table its owner (which releases the table to the next
//! owner), words 16 and 17 whoever switches. All accesses are relaxed unless a comment says
//! otherwise: a reader takes two snapshots of monotonic counts and concludes nothing from one about
//! another.

use super::clock::{self, SpanClock};
use super::layout::{
    CALLS, OWN, OWNERS_AT, ROW_WORDS, SINCE_AT, SYSTEM, TABLE_WORDS, TABLES_AT, THREADS,
    THREADS_LOST_AT, TOGETHER_AT, UNTIL_AT, USER, WAIT, WANTED_AT, WORDS,
};
use super::share::share;
use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering;
use weir_sys::cpu::{counter, thread_ns};
use weir_sys::forks;
use weir_sys::overlay::Overlay;

pub static TABLE: Overlay<WORDS> = Overlay::new();
/// Stands for a table that could not be assigned.
const NO_TABLE: u32 = u32::MAX;

/// Most long times that share one reading of the CPU clock.
const MOST_LONG: usize = 64;

/// The state of a thread. All zeros means that it has entered no span yet.
///
/// A program mostly counts just after a system call or another process has used the caches. So what
/// each count needs lies in the first cache line.
#[repr(C, align(64))]
struct ThreadState {
    /// The process it belongs to, as [`forks::epoch`] counts them.
    epoch: Cell<u32>,
    table: Cell<u32>,
    /// First word of the current row.
    row: Cell<u32>,
    depth: Cell<u32>,
    /// The longest time that counts as CPU time without reading the CPU clock, in ticks, and that
    /// for a system call that may wait. 0 until it has a table, and where no counter is the clock.
    limits: Cell<[u32; 2]>,
    in_call: Cell<bool>,
    /// Whether the last thing that it counted was the end of a span or a call.
    ended: Cell<bool>,
    /// When it last read the clock.
    last: Cell<u64>,
    /// When it last read its CPU clock.
    looked: Cell<u64>,
    /// Set once it has a table.
    clock: Cell<Option<&'static SpanClock>>,
    /// Long times since then: how many, their sum, and each.
    longs: Cell<usize>,
    long_ticks: Cell<u64>,
    /// What the CPU clock said when it was last read.
    cpu_ns: Cell<u64>,
    long: [Cell<Passed>; MOST_LONG],
}

/// A time that has passed.
#[derive(Clone, Copy)]
struct Passed {
    /// First word of the row of the subroutine.
    row: u32,
    /// The system call, if it was one.
    call: OpenCall,
    ticks: u64,
}

thread_local! {
    // No destructor: it is plain memory, without a check at each use.
    static STATE: ThreadState = const {
        ThreadState {
            epoch: Cell::new(0),
            table: Cell::new(0),
            row: Cell::new(0),
            depth: Cell::new(0),
            limits: Cell::new([0; 2]),
            in_call: Cell::new(false),
            ended: Cell::new(false),
            last: Cell::new(0),
            looked: Cell::new(0),
            clock: Cell::new(None),
            longs: Cell::new(0),
            long_ticks: Cell::new(0),
            cpu_ns: Cell::new(0),
            long: [const { Cell::new(Passed::NONE) }; MOST_LONG],
        }
    };
    static RELEASE: Release = const { Release };
}

/// Returns this thread's state, reset after a fork: the parent's table is not here.
#[inline]
fn with_state<T>(f: impl FnOnce(&ThreadState) -> T) -> T {
    STATE.with(|state| {
        if state.epoch.get() != forks::epoch() {
            state.epoch.set(forks::epoch());
            state.table.set(0);
            state.row.set(0);
            state.depth.set(0);
            state.in_call.set(false);
            state.ended.set(false);
            state.longs.set(0);
            state.long_ticks.set(0);
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
            let table = state.table.replace(NO_TABLE);
            if table != NO_TABLE && table != 0 {
                let slot = (table as usize - TABLES_AT) / TABLE_WORDS;
                // Release: pairs with the Acquire of the thread that takes the table next.
                TABLE.word(OWNERS_AT + slot).store(0, Ordering::Release);
            }
        });
    }
}

/// Prepares everything that must exist before the first count.
pub fn ready() -> io::Result<()> {
    clock::clock();
    TABLE.keep_from_children()
}

/// Whether calls are counted.
#[inline]
pub fn is_on() -> bool {
    TABLE.word(UNTIL_AT).load(Ordering::Relaxed) != 0
}

/// Whether the profile is on at this time. An expired lease ends it, unless this process wants it
/// on.
fn is_on_at(now: u64) -> bool {
    let word = TABLE.word(UNTIL_AT);
    let wanted = TABLE.word(WANTED_AT).load(Ordering::Relaxed) != 0;
    let next = if wanted { u64::MAX } else { 0 };
    let renewed = |until: u64| if until <= now { Some(next) } else { None };
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, renewed);
    word.load(Ordering::Relaxed) > now
}

/// Switches on or off for this process itself. Observers may keep it on.
pub fn want(on: bool, published: bool) {
    let clock = clock::clock();
    let now = clock.now();
    TABLE.word(WANTED_AT).store(u64::from(on), Ordering::Relaxed);
    let until = TABLE.word(UNTIL_AT);
    if on {
        if until.load(Ordering::Relaxed) <= now {
            TABLE.word(SINCE_AT).store(now, Ordering::Relaxed);
        }
        until.store(u64::MAX, Ordering::Relaxed);
    } else if published {
        until.fetch_min(now + clock.ticks(super::layout::LEASE_NS), Ordering::Relaxed);
    } else {
        until.store(0, Ordering::Relaxed);
    }
}

#[inline]
fn add(word: usize, amount: u64) {
    let word = TABLE.word(word);
    word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

impl ThreadState {
    /// Returns its table, and takes one if it has none. `None` where nothing is counted: no table
    /// is left, the profile was never on, or the thread is in a system call or at its end.
    #[inline]
    fn table(&self) -> Option<u32> {
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

    /// Reads the clock, and adds the time since it last did, or since the profile was switched on,
    /// to the current row; and to the row of the system call that ends, if one does. Returns false
    /// where the profile is off.
    ///
    /// Never inlined: each count passes here, and one copy stays in the caches. Every call in it is
    /// its last act, so that it saves no registers.
    #[inline(never)]
    fn charge(&self, call: OpenCall) -> bool {
        let until = TABLE.word(UNTIL_AT).load(Ordering::Relaxed);
        let limit = self.limits.get()[usize::from(call.waits)];
        if until == 0 {
            return false;
        }
        let (1.., Some(now)) = (limit, counter()) else { return self.charge_by_other(call) };
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        if now >= until || self.looked.get() <= since {
            return self.charge_first(call, now);
        }
        self.charge_until(call, u64::from(limit), now, since)
    }

    /// As `charge`, where no counter is the clock, or no table was taken.
    #[cold]
    #[inline(never)]
    fn charge_by_other(&self, call: OpenCall) -> bool {
        self.clock.get().is_some_and(|clock| self.charge_first(call, clock.now()))
    }

    /// As `charge`, where the lease has expired or the clock is read first since the profile is on.
    #[cold]
    #[inline(never)]
    fn charge_first(&self, call: OpenCall, now: u64) -> bool {
        let Some(clock) = self.clock.get().filter(|_| is_on_at(now)) else { return false };
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        if self.looked.get() <= since {
            self.begin_with(now);
        }
        self.charge_until(call, clock.limits[usize::from(call.waits)], now, since)
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
        self.looked.set(now);
        self.cpu_ns.set(thread_ns());
        self.longs.set(0);
        self.long_ticks.set(0);
    }

    /// Adds the time up to a start to the current row. Returns false where nothing is counted.
    #[inline]
    fn begins(&self, begin: Begin) -> bool {
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
    ///
    /// Their sum is exact, but each single share is unknown: the missing time is taken off the
    /// waits first, so that each keeps the same CPU time, or all of a shorter one.
    #[cold]
    #[inline(never)]
    fn settle(&self) {
        let (Some(clock), count @ 1..) = (self.clock.get(), self.longs.replace(0)) else { return };
        let longs = &self.long[..count];
        let (now, looked, cpu_ns) = (self.last.get(), self.looked.get(), thread_ns());
        let after = clock.now();
        let used = clock.cpu_ticks(self.cpu_ns.replace(cpu_ns), cpu_ns);
        let lacked = now.saturating_sub(looked).saturating_sub(used);
        self.looked.set(after);
        self.last.set(after);
        let all = self.long_ticks.replace(0);
        let mut waits: [u64; MOST_LONG] = [0; MOST_LONG];
        let mut waiting = 0;
        for long in longs.iter().map(Cell::get).filter(|long| long.call.waits) {
            waits[waiting] = long.ticks;
            waiting += 1;
        }
        let waits = &mut waits[..waiting];
        let of_waits: u64 = waits.iter().sum();
        let cpu_each = share(waits, of_waits.saturating_sub(lacked));
        // Missing time that exceeds the waits was lost by the other times, to other threads.
        let (others, lost) = (all - of_waits, lacked.saturating_sub(of_waits));
        let part_lost = lost as f64 / others as f64;
        for long in longs.iter().map(Cell::get) {
            let off_cpu = match long.call.waits {
                true => long.ticks.saturating_sub(cpu_each),
                false if lost >= others => long.ticks,
                false => (long.ticks as f64 * part_lost) as u64,
            };
            long.add_cpu(long.ticks - off_cpu);
            long.add_wait(off_cpu);
        }
        if count > 1 {
            TABLE.word(TOGETHER_AT).fetch_add(count as u64, Ordering::Relaxed);
        }
        let own = self.table.get() as usize + OWN * ROW_WORDS;
        add(own + CALLS, 1);
        // A thread that lost its CPU just here did not spend all that time reading.
        add(own + SYSTEM, (after - now).min(4 * clock.ask_ticks));
    }
}

impl Passed {
    const NONE: Passed = Passed { row: 0, call: OpenCall::NONE, ticks: 0 };

    #[inline]
    fn add_cpu(self, ticks: u64) {
        if self.call.row == 0 {
            add(self.row as usize + USER, ticks);
        } else {
            add(self.row as usize + SYSTEM, ticks);
            add(self.call.row as usize + SYSTEM, ticks);
        }
    }

    fn add_wait(self, ticks: u64) {
        add(self.row as usize + WAIT, ticks);
        if self.call.row != 0 {
            add(self.call.row as usize + WAIT, ticks);
        }
    }
}

/// Settles the times that this thread has kept back.
pub fn settle() {
    with_state(|state| {
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        if state.longs.get() == 0 || state.in_call.get() || state.looked.get() <= since {
            return;
        }
        if state.charge(OpenCall::NONE) {
            state.settle();
        }
    });
}

/// The start of a span or a system call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Now: reads the clock.
    Now,
    /// The last reading: where the previous span or call ended.
    Next,
}

/// Begins a span; returns the previous row and its depth, which is 0 where nothing is counted.
pub fn enter(row: u32, begin: Begin) -> (u32, u32) {
    with_state(|state| {
        let Some(table) = state.table() else { return (0, 0) };
        if !state.begins(begin) {
            return (0, 0);
        }
        let before = state.row.get();
        let here = table + row * ROW_WORDS as u32;
        add(here as usize + CALLS, 1);
        state.row.set(here);
        let depth = state.depth.get() + 1;
        state.depth.set(depth);
        (before, depth)
    })
}

pub fn look() {
    with_state(|state| {
        if state.table().is_some() {
            state.begins(Begin::Now);
        }
    });
}

/// The end of a span.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SpanEnd {
    /// Now: reads the clock.
    Now,
    /// The last reading, if that was the end of a span or a call within this one. Otherwise now.
    Last,
}

pub fn leave(before: u32, depth: u32, end: SpanEnd) {
    with_state(|state| {
        // Already ended, by an enclosing span that ended first or by a fork.
        if state.depth.get() < depth {
            return;
        }
        let at_last = end == SpanEnd::Last && state.ended.get();
        if !at_last {
            state.charge(OpenCall::NONE);
        }
        state.ended.set(true);
        state.row.set(before);
        state.depth.set(depth - 1);
    });
}

/// A system call.
#[derive(Clone, Copy, Debug)]
pub struct OpenCall {
    /// First word of its row; 0 for none.
    row: u32,
    /// Whether it may wait by intention.
    waits: bool,
}

impl OpenCall {
    const NONE: OpenCall = OpenCall { row: 0, waits: false };
}

/// Begins a system call; `None` where nothing is counted.
pub fn begin_call(row: u32, waits: bool, begin: Begin) -> Option<OpenCall> {
    with_state(|state| {
        let table = state.table()?;
        if !state.begins(begin) {
            return None;
        }
        let row = table + row * ROW_WORDS as u32;
        add(row as usize + CALLS, 1);
        state.in_call.set(true);
        Some(OpenCall { row, waits })
    })
}

pub fn end_call(call: OpenCall) {
    with_state(|state| {
        if !state.in_call.replace(false) {
            return;
        }
        state.ended.set(true);
        state.charge(call);
    });
}
