//! A profile with call counts: user, system and waiting time of each subroutine, and how often it
//! was called, in any program, always compiled in and switched on at run time, from outside too.
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
//! Off, a span or a system call is a relaxed load and a branch. On, it is two looks at the
//! time-stamp counter; what each costs is in docs/design/profile.md. After S. Graham, P. Kessler
//! and M. McKusick, "gprof: a Call Graph Execution Profiler" (1982), but with self times measured
//! at each beginning and end of a span rather than sampled, and system calls told apart.
//!
//! - A time of at most 4 us between two such looks is taken to have been on a CPU (2 us in
//!   [`wait`]). After a longer one the thread's CPU clock is asked, and what it lacks is waiting:
//!   for an event, a lock, or a CPU. [`Report`] holds the sum of the rest against the CPU time the
//!   kernel counted.
//! - [`publish`] lays the table into a file, where [`Observed`] of another process switches it on,
//!   looks twice, and makes a [`Report`] of the difference.
//! - At most 126 uses of subroutines, and 32 threads at the same time, are counted; a report says
//!   if there were more.
//! - A forked child is off, and has a table of its own; it may publish that. Where another
//!   thread of the parent is just within [`switch`] or [`report`], the child cannot call these:
//!   they hold a lock.

#![forbid(unsafe_code)]

mod clock;
mod cpu;
mod layout;
mod names;
mod observe;
mod own;
mod publish;
mod report;
mod row;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use cpu::Cpu;
pub use observe::{Observed, Sight};
pub use own::{report, switch};
pub use publish::{Published, publish};
pub use report::{Report, Unit};
pub use row::Row;
use table::Begin;
pub use table::is_on;

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

/// How long an observer's switching on lasts, unless it is renewed ([`Observed::renew`]).
pub const LEASE: std::time::Duration = std::time::Duration::from_nanos(layout::LEASE_NS);

/// A subroutine, or a system call, that is counted under a name: a static.
///
/// Those of the same name are one row of a report; as a subroutine and as a system call it has a
/// row each.
pub struct Subroutine {
    name: &'static str,
    /// Its row as a span and as a system call; 0 until it is first used.
    span: AtomicU32,
    call: AtomicU32,
}

impl Subroutine {
    /// For a static. Of the name the first 32 bytes are shown.
    pub const fn new(name: &'static str) -> Subroutine {
        Subroutine { name, span: AtomicU32::new(0), call: AtomicU32::new(0) }
    }

    /// Begins a span, which ends when the guard is dropped. Guards end in the reverse order of
    /// their beginning: one that ends too early ends those within it, one that is forgotten lasts
    /// until one around it ends.
    #[inline]
    pub fn enter(&'static self) -> Span {
        if is_on() { self.begin(Begin::Now) } else { Span::NONE }
    }

    /// Begins a span where the last span or system call of this thread began or ended, and so with
    /// one look at the clock less: for one that follows directly. What lies between is counted to
    /// it.
    #[inline]
    pub fn enter_next(&'static self) -> Span {
        if is_on() { self.begin(Begin::Next) } else { Span::NONE }
    }

    /// Runs `f` in a span.
    #[inline]
    pub fn run<T>(&'static self, f: impl FnOnce() -> T) -> T {
        let _span = self.enter();
        f()
    }

    #[cold]
    #[inline(never)]
    fn begin(&'static self, begin: Begin) -> Span {
        let Some(row) = names::row_of(&self.span, self.name, layout::KIND_SPAN) else {
            return Span::NONE;
        };
        let (before, depth) = table::enter(row, begin);
        Span { before, depth, of_thread: PhantomData }
    }

    #[cold]
    #[inline(never)]
    fn begin_call(&'static self, waits: bool, begin: Begin) -> Calling {
        let row = names::row_of(&self.call, self.name, layout::KIND_CALL);
        let call = row.and_then(|row| table::begin_call(row, waits, begin));
        Calling { call, of_thread: PhantomData }
    }
}

impl fmt::Debug for Subroutine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subroutine").field(&self.name).finish()
    }
}

/// The guard of a span: it ends when this is dropped.
#[derive(Debug)]
#[must_use = "the span ends when this is dropped"]
pub struct Span {
    before: u32,
    /// 0 where nothing is counted.
    depth: u32,
    /// It is its thread's.
    of_thread: PhantomData<*const ()>,
}

impl Span {
    const NONE: Span = Span { before: 0, depth: 0, of_thread: PhantomData };
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.depth != 0 {
            table::leave(self.before, self.depth);
        }
    }
}

/// The guard of a system call, so that one that unwinds ends too.
struct Calling {
    call: Option<table::Call>,
    of_thread: PhantomData<*const ()>,
}

impl Drop for Calling {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            table::end_call(call);
        }
    }
}

/// Counts what has passed to the span around, so that what begins with
/// [`Subroutine::enter_next`] or [`wait_next`] does not get it: for work between the two that is
/// rare.
#[inline]
pub fn look() {
    if is_on() {
        table::look();
    }
}

/// Makes a system call that does not wait. Its time is system time of the subroutine that makes
/// it, and of a row of its own.
///
/// `f` is the call and nothing else: spans and calls within it are not counted.
#[inline]
pub fn system<T>(call: &'static Subroutine, f: impl FnOnce() -> T) -> T {
    if !is_on() {
        return f();
    }
    let _calling = call.begin_call(false, Begin::Now);
    f()
}

/// Makes a system call that may wait. If it takes longer than 2 us, only what the thread's CPU
/// clock counted is system time, and the rest is waiting. Asking that clock is a row of its own,
/// `(the profile)`.
///
/// `f` is the call and nothing else: spans and calls within it are not counted.
#[inline]
pub fn wait<T>(call: &'static Subroutine, f: impl FnOnce() -> T) -> T {
    if !is_on() {
        return f();
    }
    let _calling = call.begin_call(true, Begin::Now);
    f()
}

/// Makes a system call that may wait, as [`wait`] does; it begins as a span of
/// [`Subroutine::enter_next`] does.
#[inline]
pub fn wait_next<T>(call: &'static Subroutine, f: impl FnOnce() -> T) -> T {
    if !is_on() {
        return f();
    }
    let _calling = call.begin_call(true, Begin::Next);
    f()
}
