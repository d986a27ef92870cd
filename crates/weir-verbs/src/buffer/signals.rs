//! What is heard from outside: INT, TERM and HUP end the buffer, USR1 asks for a report.
//!
//! A thread of its own hears them and wakes the loop, which then says what there is to say and dies
//! of the signal. Where the loop hangs in a call (of a device, say), the thread dies in its place.

use super::display::Display;
use crate::fault::Fault;
use crate::output::hear_beside;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;
use weir_measure_sys::signals::die_of;

/// How long the loop has to write its figures.
const PATIENCE: Duration = Duration::from_secs(2);

/// What came.
#[derive(Debug)]
pub struct Heard {
    /// The signal that ends it, or 0.
    came: AtomicI32,
    /// Whether a report was asked for.
    asked: AtomicBool,
    /// Readable once something came.
    bell: OwnedFd,
}

impl Heard {
    /// Begins to hear. Signals that were ignored stay so.
    pub fn new() -> Result<Arc<Heard>, Fault> {
        let cannot =
            |error: std::io::Error| Fault::failed(format!("cannot listen for signals: {error}"));
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = eventfd(0, flags).map_err(|error| cannot(error.into()))?;
        let heard =
            Arc::new(Heard { came: AtomicI32::new(0), asked: AtomicBool::new(false), bell });
        let told = Arc::clone(&heard);
        let hear = move |signal| {
            if signal == SIGUSR1 {
                // Relaxed, here and below: the bell orders it.
                told.asked.store(true, Ordering::Relaxed);
                return told.ring();
            }
            told.came.store(signal, Ordering::Relaxed);
            told.ring();
            // sleep: the loop ends the process before that, unless it hangs.
            std::thread::sleep(PATIENCE);
            Display::end_line();
            let _ = die_of(signal);
        };
        hear_beside(&[SIGHUP, SIGINT, SIGTERM, SIGUSR1], hear).map_err(cannot)?;
        Ok(heard)
    }

    /// The signal that ends the buffer, once it came.
    pub fn came(&self) -> Option<i32> {
        // Relaxed: nothing else is read by it.
        Some(self.came.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }

    /// Whether a report was asked for since this was asked last.
    pub fn asks_for_report(&self) -> bool {
        // Relaxed: as above. Looked at first, since it is asked often and hardly ever set.
        if !self.asked.load(Ordering::Relaxed) {
            return false;
        }
        // Before the question is taken as answered: one that comes now rings again. Nothing to read
        // is no error.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.asked.swap(false, Ordering::Relaxed)
    }

    /// What to poll for.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn ring(&self) {
        // Full is rung, too.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}
