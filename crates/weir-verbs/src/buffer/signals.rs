//! Signals: INT, TERM and HUP end the buffer, USR1 asks for a report.
//!
//! A separate thread takes them and wakes the loop, which then prints its figures and dies of the
//! signal. If the loop hangs in a call (of a device, for example), the thread ends the process.

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

/// How long the loop may take to print its figures.
const PATIENCE: Duration = Duration::from_secs(2);

/// The signals that came.
#[derive(Debug)]
pub struct Heard {
    /// The signal that ends the buffer, or 0.
    came: AtomicI32,
    /// Whether a report was asked for.
    asked: AtomicBool,
    /// Readable once something came.
    bell: OwnedFd,
}

impl Heard {
    /// Starts to listen. Signals that were ignored at the start stay ignored.
    pub fn new() -> Result<Arc<Heard>, Fault> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = eventfd(0, flags).map_err(Fault::cannot("listen for signals"))?;
        let heard =
            Arc::new(Heard { came: AtomicI32::new(0), asked: AtomicBool::new(false), bell });
        let told = Arc::clone(&heard);
        let hear = move |signal| {
            if signal == SIGUSR1 {
                // Relaxed, here and below: the eventfd orders it.
                told.asked.store(true, Ordering::Relaxed);
                return told.ring();
            }
            told.came.store(signal, Ordering::Relaxed);
            told.ring();
            // sleep: the loop ends the process within this time, unless it hangs.
            std::thread::sleep(PATIENCE);
            Display::end_line();
            let _ = die_of(signal);
        };
        hear_beside(&[SIGHUP, SIGINT, SIGTERM, SIGUSR1], hear)?;
        Ok(heard)
    }

    /// The signal that ends the buffer, if one came.
    pub fn came(&self) -> Option<i32> {
        // Relaxed: no other data depends on it.
        Some(self.came.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }

    /// Whether a report was asked for since the last call.
    pub fn asks_for_report(&self) -> bool {
        // Relaxed: as above. A load first, since this is called often and the flag is rarely set.
        if !self.asked.load(Ordering::Relaxed) {
            return false;
        }
        // The bell is reset before the flag, so that a signal that comes now rings again.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.asked.swap(false, Ordering::Relaxed)
    }

    /// The descriptor to poll.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn ring(&self) {
        // A full counter is readable, too.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}
