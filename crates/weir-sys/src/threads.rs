//! The library's own threads, started only if there is memory for all that they begin with.
//!
//! In the new thread the standard library maps a second stack, for overflows, and ends the process
//! if that fails. So this first checks that there is room for more than a stack. Under a tight limit
//! of address space, starting a thread is then an error.

use crate::forks;
use crate::mapping::{Mapping, Sharing};
use crate::proc::{ProcContents, ProcDir, Stat};
use std::io;
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

/// The stack of a thread.
const STACK_BYTES: usize = 2 << 20;
/// The memory that it, and threads that were started just before, need beside their stacks.
const BESIDE_BYTES: usize = 1 << 20;

/// Starts a thread with this name, and waits until it runs.
///
/// # Errors
/// Those of the standard library; `ENOMEM`: there is not enough memory for the thread.
pub fn start<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // Unmapped at once: this leaves the room for the thread.
    drop(Mapping::new(STACK_BYTES + BESIDE_BYTES, Sharing::Private)?);
    let (up, begun) = channel::<()>();
    let thread = Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(move || {
        drop(up);
        body()
    })?;
    // Returns when the thread drops `up`; nothing is sent.
    let _ = begun.recv();
    Ok(thread)
}

/// A thread that works for its owner, and ends when the owner does.
#[derive(Debug)]
pub struct OwnedThread {
    handle: Option<JoinHandle<()>>,
    epoch: u32,
}

impl OwnedThread {
    /// Starts a thread as [`start`] does.
    pub fn start(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<OwnedThread> {
        forks::install()?;
        let epoch = forks::epoch();
        start(name, body).map(|handle| OwnedThread { handle: Some(handle), epoch })
    }

    /// Calls `tell`, which makes the thread stop, and waits until it has. A forked child has no
    /// such thread, and tells nobody: what the thread held there stays held.
    pub fn end(&mut self, tell: impl FnOnce()) {
        match self.handle.take() {
            Some(handle) if self.epoch == forks::epoch() => {
                tell();
                let _ = handle.join();
            }
            // Dropping it would detach a thread that is not there.
            handle => std::mem::forget(handle),
        }
    }
}

/// The CPU on which a thread of this process ran last. `None` if it has ended.
pub fn last_cpu(thread: crate::Pid) -> Option<usize> {
    Stat::of(ProcDir::ThreadOfThis(thread))?.cpu
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_ran_on_a_cpu() {
        let me = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(super::last_cpu(me).is_some_and(|cpu| cpu < 4096));
        assert_eq!(super::last_cpu(0), None);
    }

    #[test]
    fn a_thread_has_its_name_and_says_what_came_of_it() {
        let named = super::start("weir-test", || std::thread::current().name().map(str::to_owned));
        let name = named.expect("started").join().expect("no panic");
        assert_eq!(name.as_deref(), Some("weir-test"));
    }

    #[test]
    fn an_owned_thread_is_told_to_end_once_and_not_by_a_forked_child() {
        let (stop, stopped) = super::channel::<()>();
        let started =
            super::OwnedThread::start("weir-test", move || assert!(stopped.recv().is_err()));
        let (mut thread, mut tells) = (started.expect("started"), 0);
        // SAFETY: the child forgets the thread, and ends by a system call.
        let child = unsafe { libc::fork() };
        if child == 0 {
            thread.end(|| tells += 1);
            // SAFETY: ends the child without running what the parent's exit would run.
            unsafe { libc::_exit(tells) };
        }
        let mut status = -1;
        // SAFETY: waits for the child above; the pointer is to a live local.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child told it to end, or waited for it");
        thread.end(|| drop(stop));
        thread.end(|| tells += 1);
        assert_eq!(tells, 0, "it ends once");
    }
}
