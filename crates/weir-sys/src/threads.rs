//! The library's own threads, started only if there is memory for all that they begin with.
//!
//! In the new thread the standard library maps a second stack, for overflows, and ends the process
//! if that fails. So this first checks that there is room for more than a stack. Under a tight limit
//! of address space, starting a thread is then an error.

use crate::mapping::Mapping;
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
    drop(Mapping::new(STACK_BYTES + BESIDE_BYTES, libc::MAP_PRIVATE)?);
    let (up, begun) = channel::<()>();
    let thread = Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(move || {
        drop(up);
        body()
    })?;
    // Returns when the thread drops `up`; nothing is sent.
    let _ = begun.recv();
    Ok(thread)
}

/// The CPU on which a thread of this process ran last. `None` if it has ended.
pub fn last_cpu(thread: crate::Pid) -> Option<usize> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // proc(5): field 39, and the second, which may have spaces, ends at the last parenthesis.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(36)?.parse().ok()
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
}
