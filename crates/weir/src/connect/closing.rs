//! Threads that close descriptors which strangers have sent.
//!
//! Such a close can take as long as the stranger likes: a TCP socket that lingers, a file of FUSE.
//! So these threads do nothing else, and nobody waits for them.

use super::process::PerProcess;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_sys::forks::ParentOnly;

const MOST_THREADS: usize = 16;
/// With so many descriptors waiting to be closed, no new connection is let in.
const MANY_WAITING: usize = 64;
/// Messages taken off a socket before it is closed, at most.
const MOST_LEFT: usize = 1024;
/// How long a thread with nothing to close stays.
const STAY: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Closers {
    state: Mutex<ClosingQueue>,
    came: Condvar,
}

#[derive(Default)]
struct ClosingQueue {
    /// Descriptors, and whether what is left in them is taken first.
    waiting: VecDeque<(ParentOnly, bool)>,
    threads: usize,
    idle: usize,
}

static CLOSERS: PerProcess<Closers> = PerProcess::new();

fn current() -> &'static Closers {
    CLOSERS.get(Closers::default)
}

/// Leaves a descriptor to a thread that takes what is left in it, if it is a socket, and closes it.
pub fn close_later(descriptor: ParentOnly) {
    leave(descriptor, true);
}

/// Leaves a descriptor to a thread that closes it. If it is a socket, what is in it may be for
/// another descriptor of the same socket.
pub fn close_shared_later(descriptor: ParentOnly) {
    leave(descriptor, false);
}

fn leave(descriptor: ParentOnly, drains: bool) {
    let closers = current();
    let mut state = closers.state();
    state.waiting.push_back((descriptor, drains));
    if state.idle >= state.waiting.len() {
        closers.came.notify_one();
        return;
    }
    if state.threads < MOST_THREADS {
        // If no thread can be started, the next descriptor tries again. It runs before it needs the
        // state.
        if weir_sys::threads::start("weir-closer", || closers.run()).is_ok() {
            state.threads += 1;
        }
    }
}

/// Whether too many descriptors wait to be closed for new connections to be let in.
pub fn is_held_up() -> bool {
    current().state().waiting.len() >= MANY_WAITING
}

impl Closers {
    fn state(&self) -> MutexGuard<'_, ClosingQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        weir_sys::signals::block_all();
        let mut state = self.state();
        loop {
            if let Some((descriptor, drains)) = state.waiting.pop_front() {
                drop(state);
                // These two may take long.
                if drains {
                    drain(&descriptor);
                }
                drop(descriptor);
                state = self.state();
                continue;
            }
            state.idle += 1;
            let waited = self.came.wait_timeout(state, STAY);
            let (woken, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timed_out.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// Takes what is left in a socket. If unread messages were closed with it, the other side would see
/// a reset connection before the messages it was sent.
fn drain(socket: &ParentOnly) {
    let Some(socket) = socket.get() else { return };
    for _ in 0..MOST_LEFT {
        match recv(socket, &mut [0; 1][..], RecvFlags::DONTWAIT) {
            Ok(_) | Err(Errno::INTR) => {}
            // It is empty, or not a socket.
            Err(_) => return,
        }
    }
}
