//! One after the other, in the order they came: threads that make descriptors, and threads that
//! fork.
//!
//! Tickets rather than a mutex: a program that forks without rest does not keep a maker out, and
//! the child can begin again with a gate that is open, whoever held it in the parent.

use rustix::thread::futex;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);
static SERVED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// How deep this thread is inside of [`hold_off`].
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether this thread went through the gate to fork.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

fn enter() {
    // SeqCst here and in `leave`: either that sees this ticket and wakes, or the futex, which looks
    // again behind a full fence, finds its number served.
    let ticket = NEXT.fetch_add(1, Ordering::SeqCst);
    loop {
        // Acquire pairs with the release in `leave`.
        let served = SERVED.load(Ordering::Acquire);
        if served == ticket {
            return;
        }
        // Woken by `leave`, by a signal, or at once if it has changed: it is looked at again.
        let _ = futex::wait(&SERVED, futex::Flags::PRIVATE, served, None);
    }
}

fn leave() {
    // SeqCst pairs with the acquire in `enter`, and see there.
    let served = SERVED.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
    if NEXT.load(Ordering::SeqCst) != served {
        let _ = futex::wake(&SERVED, futex::Flags::PRIVATE, i32::MAX as u32);
    }
}

/// Leaves when it is dropped, also by a panic.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            leave();
        }
    }
}

/// Runs `step` while no thread of this process forks by `fork(3)`.
///
/// Other threads that fork, or run a step of their own, wait for it. So a step is some system calls
/// that do not wait, it takes no lock and allocates nothing: a thread that waits here to fork may
/// hold the locks of other handlers.
pub fn hold_off<R>(step: impl FnOnce() -> R) -> R {
    if DEPTH.get() == 0 {
        enter();
    }
    DEPTH.set(DEPTH.get() + 1);
    let _inside = Inside;
    step()
}

/// Before a fork.
pub(super) fn enter_to_fork() {
    // A signal handler that forks while its thread is inside would wait for itself.
    if DEPTH.get() == 0 {
        enter();
        FORKS.set(true);
    }
}

/// After a fork, in the parent.
pub(super) fn leave_after_fork() {
    if FORKS.replace(false) {
        leave();
    }
}

/// After a fork, in the child, whose only thread this is.
pub(super) fn reset_in_child() {
    FORKS.set(false);
    SERVED.store(0, Ordering::Relaxed);
    // One that forked inside of a step leaves in the child, too.
    NEXT.store(u32::from(DEPTH.get() > 0), Ordering::Relaxed);
}
