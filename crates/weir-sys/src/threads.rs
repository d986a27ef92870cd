//! Threads of the library's own, started only where there is memory for all they begin with.
//!
//! The standard library maps a second stack, for overflows, within the new thread, and ends the
//! process where that fails. So more than a stack is asked for before the thread is started: under
//! a limit of address space that is too tight, starting it is an error.

use crate::mapping::Mapping;
use std::io;
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

/// The stack of a thread.
const STACK_BYTES: usize = 2 << 20;
/// What it, and those that were started just before, need besides.
const BESIDE_BYTES: usize = 1 << 20;

/// Starts a thread of this name, and waits until it has all it begins with.
///
/// # Errors
/// Those of the standard library's; `ENOMEM`: there is no memory for what it begins with.
pub fn start<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // Given back at once: what is mapped next has this room.
    drop(Mapping::new(STACK_BYTES + BESIDE_BYTES, libc::MAP_PRIVATE)?);
    let (up, begun) = channel::<()>();
    let thread = Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(move || {
        drop(up);
        body()
    })?;
    // Over when `up` has gone: nothing is sent.
    let _ = begun.recv();
    Ok(thread)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_has_its_name_and_says_what_came_of_it() {
        let named = super::start("weir-test", || std::thread::current().name().map(str::to_owned));
        let name = named.expect("started").join().expect("no panic");
        assert_eq!(name.as_deref(), Some("weir-test"));
    }
}
