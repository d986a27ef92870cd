//! A gate that lets threads through one after the other, in the order they came: threads that make
//! descriptors, and threads that fork.
//!
//! It uses tickets rather than a mutex. So a program that forks all the time does not keep other
//! threads out, and a child can begin with an open gate, whoever held it in the parent.

use rustix::thread::futex;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);
static SERVED: AtomicU32 = AtomicU32::new(0);
/// The process whose tickets these are; with [`RESETS`] while it resets them. 0 before the first.
static OWNER: AtomicU32 = AtomicU32::new(0);
const RESETS: u32 = 1 << 31;

thread_local! {
    /// How many steps of [`hold_off`] this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether this thread went through the gate to fork.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

/// Opens the gate of a child in which the handlers of forks did not run: another thread of its
/// parent installed them, and entered the gate, while the fork was under way. Nobody would serve the
/// parent's tickets here, and the child would wait for ever.
fn own() {
    let own = std::process::id();
    loop {
        // Acquire pairs with the release below: who sees this process sees its tickets.
        let owner = OWNER.load(Ordering::Acquire);
        if owner == own {
            return;
        }
        // In a child, also what another process was resetting is to be reset.
        if owner == own | RESETS {
            std::hint::spin_loop();
            continue;
        }
        // Relaxed: only who succeeds goes on, and publishes by the release below.
        let taken =
            OWNER.compare_exchange(owner, own | RESETS, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_ok() {
            if owner != 0 {
                super::in_the_child();
            }
            OWNER.store(own, Ordering::Release);
        }
    }
}

fn enter() {
    own();
    // SeqCst here and in `leave`: either `leave` sees this ticket and wakes, or the futex, which
    // looks again behind a full fence, sees that the number has changed.
    let ticket = NEXT.fetch_add(1, Ordering::SeqCst);
    loop {
        // Acquire pairs with the release in `leave`.
        let served = SERVED.load(Ordering::Acquire);
        if served == ticket {
            return;
        }
        // Returns when `leave` or a signal wakes it, or at once if the number has changed.
        let _ = futex::wait(&SERVED, futex::Flags::PRIVATE, served, None);
    }
}

fn leave() {
    // SeqCst pairs with the acquire in `enter`; see there for the rest.
    let served = SERVED.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
    if NEXT.load(Ordering::SeqCst) != served {
        let _ = futex::wake(&SERVED, futex::Flags::PRIVATE, i32::MAX as u32);
    }
}

/// Leaves the gate when it is dropped, also by a panic.
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
/// Other threads that fork or run a step wait for it. So a step makes only system calls that do not
/// wait, takes no lock and allocates nothing: a thread that waits here to fork may hold the locks of
/// other handlers.
pub fn hold_off<R>(step: impl FnOnce() -> R) -> R {
    if DEPTH.get() == 0 {
        enter();
    }
    DEPTH.set(DEPTH.get() + 1);
    let _inside = Inside;
    step()
}

/// Enters the gate before a fork. Does no more if it is called for the same fork again, as the two
/// below do.
pub(super) fn enter_to_fork() {
    // A signal handler that forks while its thread is in a step would wait for itself.
    if DEPTH.get() == 0 && !FORKS.get() {
        enter();
        FORKS.set(true);
    }
}

/// Leaves the gate after a fork, in the parent.
pub(super) fn leave_after_fork() {
    if FORKS.replace(false) {
        leave();
    }
}

/// Opens the gate after a fork, in the child, which has only this thread.
pub(super) fn reset_in_child() {
    FORKS.set(false);
    SERVED.store(0, Ordering::Relaxed);
    // A thread that forked inside of a step leaves that step in the child, too.
    NEXT.store(u32::from(DEPTH.get() > 0), Ordering::Relaxed);
    // Release pairs with the acquire in `own`.
    OWNER.store(std::process::id(), Ordering::Release);
}
