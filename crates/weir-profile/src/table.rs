//! The table of this process, and what a thread does in it.
//!
//! A thread knows the row it is in and when it last looked at the clock. At each beginning and end
//! of a span it looks again and adds what has passed to the row it was in, so that a row gets self
//! time only, and one that runs for long is seen meanwhile. Where that was long, its CPU clock says
//! how much of it was on a CPU.
//!
//! Every word is stored by one thread: that of a thread's table by its owner (who released it is
//! seen by who takes it), word 16 and 17 by whoever switches. All is relaxed where nothing else
//! is said: a reader takes two looks at monotonic counts and concludes nothing from one about
//! another.

use super::clock;
use super::layout::{
    CALLS, FIRST, FIXED, KIND_SPAN, KINDS_AT, NAME_BYTES, NAMES_AT, OWN, OWNERS_AT, ROW_WORDS,
    ROWS, SINCE_AT, SUBROUTINES_LOST_AT, SYSTEM, TABLE_WORDS, TABLES_AT, THREADS, THREADS_LOST_AT,
    UNTIL_AT, USER, WAIT, WORDS,
};
use std::cell::Cell;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use weir_sys::overlay::Overlay;

/// The table.
pub static TABLE: Overlay<WORDS> = Overlay::new();
/// Whether this process itself wants the profile on.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Rows given out.
static GIVEN: AtomicUsize = AtomicUsize::new(FIRST);
/// What they are: kept beside the table for a forked child, whose table is empty.
static NAMES: [OnceLock<(&'static str, u64)>; ROWS] = [const { OnceLock::new() }; ROWS];

/// What stands in place of a row that could not be had.
const NO_ROW: u32 = u32::MAX;
/// What stands in place of a table that could not be had.
const NO_TABLE: u32 = u32::MAX;

/// What a thread knows. All zero is a thread that was not yet in a span.
struct State {
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
}

/// What has passed, in ticks.
#[derive(Clone, Copy)]
struct Passed {
    on_cpu: u64,
    off_cpu: u64,
}

thread_local! {
    // No destructor: then it is plain memory, without a test at each use.
    static STATE: State = const {
        State {
            table: Cell::new(0),
            row: Cell::new(0),
            depth: Cell::new(0),
            in_call: Cell::new(false),
            last: Cell::new(0),
            looked: Cell::new(0),
            cpu_ns: Cell::new(0),
        }
    };
    static RELEASE: Release = const { Release };
}

/// Gives a thread's table free at its end.
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        STATE.with(|state| {
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
    TABLE.keep_from_children(in_child)
}

/// A forked child: its table is zeros, and the threads of its parent are not there.
fn in_child() {
    WANTED.store(false, Ordering::Relaxed);
    STATE.with(|state| {
        state.table.set(0);
        state.row.set(0);
        state.depth.set(0);
        state.in_call.set(false);
    });
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
    let next = if WANTED.load(Ordering::Relaxed) { u64::MAX } else { 0 };
    let renewed = |until: u64| if until <= now { Some(next) } else { None };
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, renewed);
    (word.load(Ordering::Relaxed) > now).then_some(now)
}

/// Switches on or off for this process itself. What observers see, they may still want.
pub fn want(on: bool, published: bool) {
    let clock = clock::clock();
    let now = clock.now();
    WANTED.store(on, Ordering::Relaxed);
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

/// A row for a name; `None` when there are too many. Kept in `place`.
pub fn row_of(place: &AtomicU32, name: &'static str, kind: u64) -> Option<u32> {
    match place.load(Ordering::Relaxed) {
        0 => give_row(place, name, kind),
        NO_ROW => None,
        row => Some(row),
    }
}

#[cold]
fn give_row(place: &AtomicU32, name: &'static str, kind: u64) -> Option<u32> {
    let next = |given: usize| if given < ROWS { Some(given + 1) } else { None };
    let row = GIVEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    let number = row.map_or(NO_ROW, |row| row as u32);
    // Two threads at once: the row of the one that comes second stays empty.
    match place.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        Err(NO_ROW) => return None,
        Err(other) => return Some(other),
    }
    let Ok(row) = row else {
        TABLE.word(SUBROUTINES_LOST_AT).fetch_add(1, Ordering::Relaxed);
        return None;
    };
    let _ = NAMES[row].set((name, kind));
    write_name(row, name, kind);
    Some(number)
}

/// Writes the names of all rows, into a table that may be a new one.
pub fn write_names() {
    for (row, name) in FIXED.iter().enumerate() {
        write_name(row, name, KIND_SPAN);
    }
    for (row, entry) in NAMES.iter().enumerate() {
        if let Some((name, kind)) = entry.get() {
            write_name(row, name, *kind);
        }
    }
}

fn write_name(row: usize, name: &str, kind: u64) {
    write_text(NAMES_AT + row * NAME_BYTES / 8, name);
    // Release: whoever sees the kind sees the name.
    TABLE.word(KINDS_AT + row).store(kind, Ordering::Release);
}

/// Writes a text of at most [`NAME_BYTES`] bytes; a longer one is cut.
pub fn write_text(at: usize, text: &str) {
    let mut bytes = [0; NAME_BYTES];
    let mut length = 0;
    for c in weir_doctor::text::printable(text).chars() {
        if length + c.len_utf8() > NAME_BYTES {
            break;
        }
        length += c.encode_utf8(&mut bytes[length..]).len();
    }
    for (index, eight) in bytes.as_chunks().0.iter().enumerate() {
        TABLE.word(at + index).store(u64::from_ne_bytes(*eight), Ordering::Relaxed);
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

    /// What has passed since it last looked, or since the profile was switched on. A time of at
    /// most `most` is taken to have been on a CPU; for a longer one the CPU clock is asked.
    #[inline]
    fn passed(&self, now: u64, most: u64) -> Passed {
        let since = TABLE.word(SINCE_AT).load(Ordering::Relaxed);
        let passed = now.saturating_sub(self.last.get().max(since));
        self.last.set(now);
        if passed <= most && self.looked.get() > since {
            Passed { on_cpu: passed, off_cpu: 0 }
        } else {
            self.ask(now, passed, since)
        }
    }

    /// Asks the CPU clock how much of what has just passed was on a CPU: all that it lacks since
    /// it was last asked, as what came between was too short to matter.
    #[cold]
    fn ask(&self, now: u64, passed: u64, since: u64) -> Passed {
        let Some(clock) = clock::made() else { return Passed { on_cpu: passed, off_cpu: 0 } };
        let (cpu_ns, looked) = (weir_sys::cpu::thread_ns(), self.looked.get());
        let after = clock.now();
        let used = clock.cpu_ticks(self.cpu_ns.replace(cpu_ns), cpu_ns);
        let lacked = now.saturating_sub(looked).saturating_sub(used).min(passed);
        // What it says from before the profile was on tells nothing.
        let off_cpu = if looked > since { lacked } else { 0 };
        self.looked.set(after);
        self.last.set(after);
        let own = self.table.get() as usize + OWN * ROW_WORDS;
        add(own + CALLS, 1);
        // A thread that lost its CPU just here was not asking for all that time.
        add(own + SYSTEM, (after - now).min(4 * clock.ask_ticks));
        Passed { on_cpu: passed - off_cpu, off_cpu }
    }

    /// Adds what has passed to the row it is in.
    #[inline]
    fn charge(&self, now: u64) {
        let Passed { on_cpu, off_cpu } =
            self.passed(now, clock::made().map_or(0, |clock| clock.long));
        let row = self.row.get() as usize;
        add(row + USER, on_cpu);
        if off_cpu > 0 {
            add(row + WAIT, off_cpu);
        }
    }
}

/// Begins a span: the row before and its depth, which is 0 where nothing is counted.
pub fn enter(row: u32) -> (u32, u32) {
    STATE.with(|state| {
        let Some(table) = state.table() else { return (0, 0) };
        let Some(now) = now() else { return (0, 0) };
        let before = state.row.get();
        state.charge(now);
        let here = table + row * ROW_WORDS as u32;
        add(here as usize + CALLS, 1);
        state.row.set(here);
        let depth = state.depth.get() + 1;
        state.depth.set(depth);
        (before, depth)
    })
}

/// Ends a span.
pub fn leave(before: u32, depth: u32) {
    STATE.with(|state| {
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
pub fn begin_call(row: u32, waits: bool) -> Option<Call> {
    STATE.with(|state| {
        let table = state.table()?;
        state.charge(now()?);
        let row = table + row * ROW_WORDS as u32;
        add(row as usize + CALLS, 1);
        state.in_call.set(true);
        Some(Call { row, waits })
    })
}

/// Ends a system call.
pub fn end_call(call: Call) {
    STATE.with(|state| {
        if !state.in_call.replace(false) {
            return;
        }
        let (Some(now), Some(clock)) = (now(), clock::made()) else { return };
        let most = if call.waits { clock.waits } else { clock.long };
        let Passed { on_cpu, off_cpu } = state.passed(now, most);
        for row in [call.row, state.row.get()] {
            add(row as usize + SYSTEM, on_cpu);
            if off_cpu > 0 {
                add(row as usize + WAIT, off_cpu);
            }
        }
    });
}
