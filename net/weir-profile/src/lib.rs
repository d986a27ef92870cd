//! A profile with call counts: how often each subroutine was called, and its user, system and
//! waiting time. It works in any program, is always compiled in, and is switched on at run time,
//! also from another process.
//!
//! ```
//! use weir_profile::Subroutine;
//!
//! static VERIFY: Subroutine = Subroutine::new("ip.verify");
//! static SEND: Subroutine = Subroutine::new("tun.write");
//!
//! fn verify(packet: &[u8]) -> bool {
//!     let _span = VERIFY.enter();
//!     packet.iter().fold(0, |sum, byte| sum ^ byte) == 0
//! }
//!
//! # fn main() -> std::io::Result<()> {
//! weir_profile::switch(true)?;
//! if verify(&[1, 1]) {
//!     weir_profile::system(&SEND, || std::thread::yield_now());
//! }
//! weir_profile::switch(false)?;
//! println!("{}", weir_profile::report().expect("it was on").per(1, "packet"));
//! # Ok(())
//! # }
//! ```
//!
//! While off, a span or a system call costs a relaxed load and a branch. While on, it costs two
//! readings of the time-stamp counter, or some ten nanoseconds in a thread that counts often;
//! docs/design/profile.md has the figures. After S. Graham, P. Kessler and M. McKusick, "gprof: a
//! Call Graph Execution Profiler" (1982), but with self times measured at each start and end of a
//! span, and with system calls counted apart.
//!
//! - Every call is counted. Every time is measured in a thread that reads the clock less often than
//!   each 32 us on average. In a thread that would read it more often, only a part of the times is
//!   measured: 128 readings in a row, and none in the gap that follows. What it used in gaps is
//!   divided in the proportions of what was measured, and a report says how much that is.
//! - A time of at most 4 us between two such readings counts as CPU time (2 us in [`wait`]). After
//!   a longer time the thread's CPU clock is read, and the time that it lacks is waiting: for an
//!   event, a lock, or a CPU. [`ProfileReport`] compares the sum with the CPU time that the kernel
//!   counted.
//! - [`publish`] puts the table into a file, where [`Observed`] in another process switches it on,
//!   takes two snapshots, and makes a [`ProfileReport`] of the difference.
//! - At most 125 uses of subroutines, and 32 threads at the same time, are counted; a report states
//!   if there were more.
//! - In a forked child the profile is off, and the child has its own table; it may publish that. If
//!   another thread of the parent was just within [`switch`] or [`report`], which hold a lock, the
//!   child cannot call these.

#![forbid(unsafe_code)]

mod clock;
mod counting;
mod cpu;
mod gaps;
mod layout;
mod names;
mod observe;
mod own;
mod passed;
mod publish;
mod report;
mod row;
mod share;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod thread;

use counting::SpanEnd;
pub use cpu::Cpu;
pub use observe::{Observation, Observed};
pub use own::{report, switch};
use passed::OpenCall;
pub use publish::{Published, publish};
pub use report::{ProfileReport, ReportUnit};
pub use row::ProfileRow;
pub use table::is_on;
use thread::Begin;

use std::fmt;
use std::hint::cold_path;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

/// How long a profile stays on after an observer switches it on or renews it ([`Observed::renew`]).
pub const LEASE: std::time::Duration = std::time::Duration::from_nanos(layout::LEASE_NS);

/// A subroutine, or a system call, counted under a name; a static.
///
/// Subroutines of one name share a row of a report; used as a subroutine and as a system call, a
/// name has a row for each.
pub struct Subroutine {
    name: &'static str,
    /// Its row as a span and as a system call; 0 until it is first used.
    span: AtomicU32,
    call: AtomicU32,
}

impl Subroutine {
    /// Creates it for a static. Reports show the first 32 bytes of the name.
    pub const fn new(name: &'static str) -> Subroutine {
        Subroutine { name, span: AtomicU32::new(0), call: AtomicU32::new(0) }
    }

    /// Begins a span, which ends when the guard is dropped. Guards must end in reverse order: one
    /// that ends too early ends those within it, and a forgotten one lasts until one around it
    /// ends.
    #[inline]
    pub fn enter(&'static self) -> Span {
        self.enter_at(Begin::Now)
    }

    /// Begins a span at the moment when the last span or system call of this thread began or ended,
    /// which saves one reading of the clock: for a span that follows directly. The time in between
    /// counts as part of it.
    #[inline]
    pub fn enter_at_last(&'static self) -> Span {
        self.enter_at(Begin::Next)
    }

    #[inline]
    fn enter_at(&'static self, begin: Begin) -> Span {
        if !is_on() {
            return Span::NONE;
        }
        // The attribute `cold` on `begin` would also move it away from the rest of the profile, to
        // the code that seldom runs.
        cold_path();
        self.begin(begin)
    }

    /// Runs `f` in a span.
    #[inline]
    pub fn run<T>(&'static self, f: impl FnOnce() -> T) -> T {
        let _span = self.enter();
        f()
    }

    #[inline(never)]
    fn begin(&'static self, begin: Begin) -> Span {
        let Some(row) = names::row_of(&self.span, self.name, layout::KIND_SPAN) else {
            return Span::NONE;
        };
        let (before, depth) = counting::enter(row, begin);
        Span { before, depth, of_thread: PhantomData }
    }

    #[inline(never)]
    fn begin_call(&'static self, waits: bool, begin: Begin) -> Calling {
        let row = names::row_of(&self.call, self.name, layout::KIND_CALL);
        let call = row.and_then(|row| counting::begin_call(row, waits, begin));
        Calling { call, of_thread: PhantomData }
    }
}

impl fmt::Debug for Subroutine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subroutine").field(&self.name).finish()
    }
}

/// The guard of a span, which ends when this is dropped.
#[derive(Debug)]
#[must_use = "the span ends when this is dropped"]
pub struct Span {
    before: u32,
    /// 0 where nothing is counted.
    depth: u32,
    /// Keeps it on its thread.
    of_thread: PhantomData<*const ()>,
}

impl Span {
    const NONE: Span = Span { before: 0, depth: 0, of_thread: PhantomData };
}

impl Span {
    /// Ends the span at the moment when the last span or system call within it ended, which saves
    /// one reading of the clock: for a span that does hardly anything after that. The time since
    /// counts for what encloses it. Where there was none within it, the span ends now.
    #[inline]
    pub fn end_at_last(self) {
        self.end(SpanEnd::Last);
        std::mem::forget(self);
    }

    #[inline]
    fn end(&self, end: SpanEnd) {
        if self.depth != 0 {
            counting::leave(self.before, self.depth, end);
        }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        self.end(SpanEnd::Now);
    }
}

/// The guard of a system call, which ends when this is dropped, also when the call unwinds.
#[derive(Debug)]
#[must_use = "the call ends when this is dropped"]
pub struct Calling {
    call: Option<OpenCall>,
    of_thread: PhantomData<*const ()>,
}

impl Drop for Calling {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            counting::end_call(call);
        }
    }
}

/// Counts the time so far for the enclosing span, so that a following [`Subroutine::enter_at_last`] or
/// [`wait_at_last`] does not include it: for rare work between the two.
#[inline]
pub fn charge_now() {
    if is_on() {
        counting::charge_now();
    }
}

#[inline]
fn counted<T>(call: &'static Subroutine, waits: bool, begin: Begin, f: impl FnOnce() -> T) -> T {
    let _calling = calling(call, waits, begin);
    f()
}

#[inline]
fn calling(call: &'static Subroutine, waits: bool, begin: Begin) -> Calling {
    if !is_on() {
        return Calling { call: None, of_thread: PhantomData };
    }
    cold_path();
    call.begin_call(waits, begin)
}

/// Makes a system call that does not wait. Its time is system time of the calling subroutine, and
/// has a row of its own.
///
/// `f` makes the call and nothing else: spans and calls within it are not counted.
#[inline]
pub fn system<T>(call: &'static Subroutine, f: impl FnOnce() -> T) -> T {
    counted(call, false, Begin::Now, f)
}

/// Makes a system call that may wait. If it takes longer than 2 us, only the time that the thread's
/// CPU clock counted is system time, and the rest is waiting. Reading that clock has a row of its
/// own, `(the profile)`.
///
/// `f` makes the call and nothing else: spans and calls within it are not counted.
#[inline]
pub fn wait<T>(call: &'static Subroutine, f: impl FnOnce() -> T) -> T {
    counted(call, true, Begin::Now, f)
}

/// Makes a system call that may wait, like [`wait`], but begins at the moment when the last span or
/// call ended, like [`Subroutine::enter_at_last`].
#[inline]
pub fn wait_at_last<T>(call: &'static Subroutine, f: impl FnOnce() -> T) -> T {
    counted(call, true, Begin::Next, f)
}

/// Begins a system call like [`wait_at_last`] that lasts until the guard is dropped: for a wait inside
/// of a function that returns later than the wait ends.
#[inline]
pub fn begin_wait_at_last(call: &'static Subroutine) -> Calling {
    calling(call, true, Begin::Next)
}
