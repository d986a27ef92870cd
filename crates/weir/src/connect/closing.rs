//! Threads that close what may take its time.
//!
//! Closing a descriptor can take as long as whoever made it likes: a TCP socket that lingers, a
//! file of FUSE. What others have sent, and is not wanted, goes to threads that do nothing but
//! close, for which nobody waits.

use super::process::PerProcess;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_sys::forks::ParentOnly;

/// Most threads that close.
const MOST_THREADS: usize = 16;
/// Descriptors that wait for one of them, from which on nobody new is let in.
const MANY_WAITING: usize = 64;
/// Messages taken off a socket that is closed.
const MOST_LEFT: usize = 1024;
/// How long a thread that has nothing to close stays.
const STAY: Duration = Duration::from_secs(2);

/// The threads that close.
#[derive(Default)]
struct Closers {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<ParentOnly>,
    threads: usize,
    idle: usize,
}

static CLOSERS: PerProcess<Closers> = PerProcess::new();

fn current() -> &'static Closers {
    CLOSERS.get(Closers::default)
}

/// Has a descriptor closed by a thread for which nobody waits.
pub fn close_later(descriptor: ParentOnly) {
    let closers = current();
    let mut state = closers.state();
    state.waiting.push_back(descriptor);
    if state.idle >= state.waiting.len() {
        closers.came.notify_one();
        return;
    }
    if state.threads < MOST_THREADS {
        let builder = std::thread::Builder::new().name("weir-closer".into());
        // Where there is none to be had, the next descriptor that comes tries again.
        if builder.stack_size(64 << 10).spawn(|| closers.run()).is_ok() {
            state.threads += 1;
        }
    }
}

/// Whether so many descriptors wait to be closed that nobody new is to be let in.
pub fn is_held_up() -> bool {
    current().state().waiting.len() >= MANY_WAITING
}

impl Closers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        weir_sys::signals::block_all();
        let mut state = self.state();
        loop {
            if let Some(descriptor) = state.waiting.pop_front() {
                drop(state);
                // This is what may take its time.
                drain(&descriptor);
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

/// Takes what is left in a socket: the other side of one that is closed before that hears of a
/// broken connection, and not first of what it was told.
fn drain(socket: &ParentOnly) {
    let Some(socket) = socket.get() else { return };
    for _ in 0..MOST_LEFT {
        match recv(socket, &mut [0; 1][..], RecvFlags::DONTWAIT) {
            Ok(_) | Err(Errno::INTR) => {}
            // Nothing more; or it is no socket.
            Err(_) => return,
        }
    }
}
