//! The table of this process, and what a thread does in it.
//!
//! A thread knows the row it is in and when it last looked at the clock. At each beginning and end
//! of a span it looks again and adds what has passed to the row it was in, so that a row gets self
//! time only, and one that runs for long is seen meanwhile.
//!
//! Where that was long, the thread's CPU clock says how much of it was on a CPU. A look at that
//! clock costs as much as 20 spans, so long times are kept back until there are [`MOST_LONG`] or
//! they come to [`clock::Clock::settle`]; then one look divides them all into CPU time and waiting.
//!
//! Every word is stored by one thread: that of a thread's table by its owner (who released it is
//! seen by who takes it), word 16 and 17 by whoever switches. All is relaxed where nothing else
//! is said: a reader takes two looks at monotonic counts and concludes nothing from one about
//! another.

use super::clock;
use super::layout::{
    CALLS, OWN, OWNERS_AT, ROW_WORDS, SINCE_AT, SYSTEM, TABLE_WORDS, TABLES_AT, THREADS,
    THREADS_LOST_AT, TOGETHER_AT, UNTIL_AT, USER, WAIT, WANTED_AT, WORDS,
};
use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering;
use weir_sys::cpu::thread_ns;
use weir_sys::forks;
use weir_sys::overlay::Overlay;

/// The table.
pub static TABLE: Overlay<WORDS> = Overlay::new();
/// What stands in place of a table that could not be had.
const NO_TABLE: u32 = u32::MAX;

/// Long times that are settled by one look at the CPU clock, at most.
const MOST_LONG: usize = 16;

/// What a thread knows. All zero is a thread that was not yet in a span.
struct State {
    /// Which process it is of, as [`forks::epoch`] counts them.
    epoch: Cell<u32>,
    /// First word of its table.
    table: Cell<u32>,
    /// First word of the row it is in.
    row: Cell<u32>,
    /// Spans around it.
    depth: Cell<u32>,
    /// It is in a system call.
    in_call: Cell<bool>,
    /// When it last looked at the clock.
    last: Cell<u64>,
    /// When it last looked at its CPU clock, and what that said.
    looked: Cell<u64>,
    cpu_ns: Cell<u64>,
    /// The long times since then: how many, their sum, and each.
    longs: Cell<usize>,
    long_ticks: Cell<u64>,
    long: [Cell<Long>; MOST_LONG],
}

/// A time that was too long to be taken for CPU time.
#[derive(Clone, Copy)]
struct Long {
    /// The columns it goes to: of the subroutine and, or, of the system call.
    row: u32,
    call: u32,
    /// It may have waited by intention.
    waits: bool,
    ticks: u64,
}

thread_local! {
    // No destructor: then it is plain memory, without a test at each use.
    static STATE: State = const {
        State {
            epoch: Cell::new(0),
            table: Cell::new(0),
            row: Cell::new(0),
            depth: Cell::new(0),
            in_call: Cell::new(false),
            last: Cell::new(0),
            looked: Cell::new(0),
            cpu_ns: Cell::new(0),
            longs: Cell::new(0),
            long_ticks: Cell::new(0),
            long: [const { Cell::new(Long::NONE) }; MOST_LONG],
        }
    };
    static RELEASE: Release = const { Release };
}

/// What this thread knows; nothing of what it knew in the process this one was forked from, whose
/// table is not here.
#[inline]
fn with_state<T>(f: impl FnOnce(&State) -> T) -> T {
    STATE.with(|state| {
        if state.epoch.get() != forks::epoch() {
            state.epoch.set(forks::epoch());
            state.table.set(0);
            state.row.set(0);
            state.depth.set(0);
            state.in_call.set(false);
            state.longs.set(0);
            state.long_ticks.set(0);
        }
        f(state)
    })
}

/// Gives a thread's table free at its end.
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        settle();
        with_state(|state| {
            // What is still open here ends without a word: the table is another's then.
            state.depth.set(0);
            state.in_call.set(false);
            let table = state.table.replace(NO_TABLE);
            if table != NO_TABLE && table != 0 {
                let slot = (table as usize - TABLES_AT) / TABLE_WORDS;
                // Release: with the Acquire of who takes the table next.
                TABLE.word(OWNERS_AT + slot).store(0, Ordering::Release);
            }
        });
    }
}

/// Makes ready what has to be there before anything is counted.
pub fn ready() -> io::Result<()> {
    clock::clock();
    TABLE.keep_from_children()
}

/// Whether calls are counted.
#[inline]
pub fn is_on() -> bool {
    TABLE.word(UNTIL_AT).load(Ordering::Relaxed) != 0
}

/// The time, if calls are counted.
#[inline]
fn now() -> Option<u64> {
    let until = TABLE.word(UNTIL_AT).load(Ordering::Relaxed);
    if until == 0 {
        return None;
    }
    let now = clock::made()?.now();
    if now < until { Some(now) } else { expired(now) }
}

/// No observer has renewed: off, unless this process wants it on.
#[cold]
fn expired(now: u64) -> Option<u64> {
    let word = TABLE.word(UNTIL_AT);
    let wanted = TABLE.word(WANTED_AT).load(Ordering::Relaxed) != 0;
    let next = if wanted { u64::MAX } else { 0 };
    let renewed = |until: u64| if until <= now { Some(next) } else { None };
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, renewed);
    (word.load(Ordering::Relaxed) > now).then_some(now)
}

/// Switches on or off for this process itself. What observers see, they may still want.
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

impl State {
    /// Its table, taken if it has none; `None` where nothing is counted: no table is left, or the
    /// thread is in a system call or at its end.
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
    fn take_table(&self) -> Option<u32> {
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        let free = (0..THREADS).find(|slot| {
            let owner = TABLE.word(OWNERS_AT + slot);
            // Acquire: with the Release of who gave it free, whose counts are gone on with.
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

    /// What has passed since it last looked, or since the profile was switched on.
    #[inline]
    fn passed(&self, now: u64) -> u64 {
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        if self.looked.get() <= since {
            self.begin_with(now);
        }
        now.saturating_sub(self.last.replace(now).max(since))
    }

    /// The first look since the profile is on. What was kept back before is of no interval.
    #[cold]
    fn begin_with(&self, now: u64) {
        self.looked.set(now);
        self.cpu_ns.set(thread_ns());
        self.longs.set(0);
        self.long_ticks.set(0);
    }

    /// Adds what has passed to the row it is in. A time of at most `most` is taken to have been on
    /// a CPU.
    #[inline]
    fn charge(&self, now: u64) {
        let most = clock::made().map_or(0, |clock| clock.long);
        let (ticks, row) = (self.passed(now), self.row.get());
        if ticks <= most {
            add(row as usize + USER, ticks);
        } else {
            self.keep(now, Long { row, call: 0, waits: false, ticks });
        }
    }

    /// What has passed till a beginning goes to the row it is in. False where nothing is counted.
    #[inline]
    fn begins(&self, begin: Begin) -> bool {
        // Where it has not looked since the profile is on, there is no end to begin at.
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        if begin == Begin::Next && self.last.get() > since {
            return true;
        }
        let Some(now) = now() else { return false };
        self.charge(now);
        true
    }

    /// Keeps a long time back.
    #[cold]
    fn keep(&self, now: u64, long: Long) {
        let count = self.longs.get();
        self.long[count].set(long);
        self.longs.set(count + 1);
        self.long_ticks.set(self.long_ticks.get() + long.ticks);
        let settle = clock::made().map_or(0, |clock| clock.settle);
        if count + 1 == MOST_LONG || self.long_ticks.get() >= settle {
            self.settle(now);
        }
    }

    /// Asks the CPU clock, and divides the long times since it was last asked into CPU time and
    /// waiting. All that it lacks is in them, as each other time was too short to matter.
    ///
    /// Their sum is exact. Of each by itself it is not known: what was lacking is taken off the
    /// waits first, so that each is left with the same CPU time, or with all of a shorter one.
    fn settle(&self, now: u64) {
        let (Some(clock), count @ 1..) = (clock::made(), self.longs.replace(0)) else { return };
        let longs = &self.long[..count];
        let (cpu_ns, looked) = (thread_ns(), self.looked.get());
        let after = clock.now();
        let used = clock.cpu_ticks(self.cpu_ns.replace(cpu_ns), cpu_ns);
        let lacked = now.saturating_sub(looked).saturating_sub(used);
        self.looked.set(after);
        self.last.set(after);
        let all = self.long_ticks.replace(0);
        let mut waits: [u64; MOST_LONG] = [0; MOST_LONG];
        let mut waiting = 0;
        for long in longs.iter().map(Cell::get).filter(|long| long.waits) {
            waits[waiting] = long.ticks;
            waiting += 1;
        }
        let waits = &mut waits[..waiting];
        let of_waits: u64 = waits.iter().sum();
        let cpu_each = share(waits, of_waits.saturating_sub(lacked));
        // What waits cannot have lacked was taken from the others, by other threads.
        let (others, lost) = (all - of_waits, lacked.saturating_sub(of_waits));
        for long in longs.iter().map(Cell::get) {
            let off_cpu = match long.waits {
                true => long.ticks.saturating_sub(cpu_each),
                false if lost >= others => long.ticks,
                false => (u128::from(long.ticks) * u128::from(lost) / u128::from(others)) as u64,
            };
            long.add(long.ticks - off_cpu, off_cpu);
        }
        if count > 1 {
            TABLE.word(TOGETHER_AT).fetch_add(count as u64, Ordering::Relaxed);
        }
        let own = self.table.get() as usize + OWN * ROW_WORDS;
        add(own + CALLS, 1);
        // A thread that lost its CPU just here was not asking for all that time.
        add(own + SYSTEM, (after - now).min(4 * clock.ask_ticks));
    }
}

impl Long {
    const NONE: Long = Long { row: 0, call: 0, waits: false, ticks: 0 };

    fn add(self, on_cpu: u64, off_cpu: u64) {
        let column = if self.call == 0 { USER } else { SYSTEM };
        for row in [self.row, self.call].into_iter().filter(|row| *row != 0) {
            add(row as usize + column, on_cpu);
            add(row as usize + WAIT, off_cpu);
        }
    }
}

/// The most that each of these may have so that together they have `sum`; who has less keeps it.
pub fn share(each: &mut [u64], mut sum: u64) -> u64 {
    each.sort_unstable();
    for (index, ticks) in each.iter().enumerate() {
        let equal = sum / (each.len() - index) as u64;
        if *ticks > equal {
            return equal;
        }
        sum -= ticks;
    }
    u64::MAX
}

/// Settles what this thread has kept back.
pub fn settle() {
    with_state(|state| {
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        if state.longs.get() == 0 || state.in_call.get() || state.looked.get() <= since {
            return;
        }
        if let Some(now) = now() {
            state.charge(now);
            state.settle(now);
        }
    });
}

/// Where a span or a system call begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Now, which takes a look at the clock.
    Now,
    /// Where the thread last looked: where the span or call before it ended.
    Next,
}

/// Begins a span: the row before and its depth, which is 0 where nothing is counted.
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

/// What has passed goes to the row that the thread is in.
pub fn look() {
    with_state(|state| {
        if state.table().is_some() {
            state.begins(Begin::Now);
        }
    });
}

/// Ends a span.
pub fn leave(before: u32, depth: u32) {
    with_state(|state| {
        // Ended already, by one around it that ended first or by a fork.
        if state.depth.get() < depth {
            return;
        }
        if let Some(now) = now() {
            state.charge(now);
        }
        state.row.set(before);
        state.depth.set(depth - 1);
    });
}

/// A system call under way.
#[derive(Clone, Copy)]
pub struct Call {
    row: u32,
    waits: bool,
}

/// Begins a system call; `None` where nothing is counted.
pub fn begin_call(row: u32, waits: bool, begin: Begin) -> Option<Call> {
    with_state(|state| {
        let table = state.table()?;
        if !state.begins(begin) {
            return None;
        }
        let row = table + row * ROW_WORDS as u32;
        add(row as usize + CALLS, 1);
        state.in_call.set(true);
        Some(Call { row, waits })
    })
}

/// Ends a system call.
pub fn end_call(call: Call) {
    with_state(|state| {
        if !state.in_call.replace(false) {
            return;
        }
        let (Some(now), Some(clock)) = (now(), clock::made()) else { return };
        let most = if call.waits { clock.waits } else { clock.long };
        let (ticks, row) = (state.passed(now), state.row.get());
        if ticks <= most {
            add(row as usize + SYSTEM, ticks);
            add(call.row as usize + SYSTEM, ticks);
        } else {
            state.keep(now, Long { row, call: call.row, waits: call.waits, ticks });
        }
    });
}
