//! Signals that end a verb, or ask it for something while it works.
//!
//! A signal that was ignored when weir was started stays ignored, as under a shell: nohup ignores
//! HUP, and a script ignores INT for what it starts in the background. [`heeded`] leaves these out.
//! A loop that looks often has a flag ([`stop_flag`]); one that sleeps in poll(2) has a descriptor
//! ([`stop_pipe`]), or [`CaughtSignals`], which also ends the process if the loop hangs.

use crate::fault::Fault;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weir_measure::sys::signals::{die_of, is_ignored};
use weir_sys::bell;

/// The signals that end a verb.
pub const ENDS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// What the second signal does, after the first has asked a verb to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The same as the first.
    AsFirst,
    /// It kills the process.
    Kills,
    /// The process exits at once with this status.
    Exits(u8),
}

/// Leaves out the signals that are ignored.
pub fn heeded(signals: &[i32]) -> impl Iterator<Item = i32> + '_ {
    signals.iter().copied().filter(|signal| !is_ignored(*signal))
}

/// Returns a flag that HUP, INT and TERM set.
pub fn stop_flag(again: Again) -> Result<Arc<AtomicBool>, Fault> {
    let stop = Arc::new(AtomicBool::new(false));
    let hear = |signal| {
        // Before the flag is registered: actions run in the order in which they were registered,
        // and the first signal finds the flag unset.
        match again {
            Again::AsFirst => {}
            Again::Kills => {
                flag::register_conditional_default(signal, stop.clone())?;
            }
            Again::Exits(status) => {
                flag::register_conditional_shutdown(signal, status.into(), stop.clone())?;
            }
        }
        flag::register(signal, stop.clone()).map(drop)
    };
    heeded(&ENDS).try_for_each(hear).map_err(cannot_listen)?;
    Ok(stop)
}

/// Returns the read end of a pipe that HUP, INT and TERM make readable.
pub fn stop_pipe() -> Result<OwnedFd, Fault> {
    let make = || -> io::Result<OwnedFd> {
        let (stop, signalled) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        for signal in heeded(&ENDS) {
            signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
        }
        Ok(stop)
    };
    make().map_err(cannot_listen)
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) an error, which would else kill weir.
///
/// Where the signal is ignored it is one already, and programs that are started later inherit that.
pub fn survive_size_limit() {
    if !is_ignored(SIGXFSZ) {
        let _ = flag::register(SIGXFSZ, Arc::default());
    }
}

/// A set of signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalSet(u64);

impl SignalSet {
    fn of(signals: &[i32]) -> SignalSet {
        SignalSet(signals.iter().fold(0, |set, signal| set | 1 << signal))
    }

    /// Whether this signal is one of the set.
    pub fn has(self, signal: i32) -> bool {
        self.0 & (1 << signal) != 0
    }
}

/// The signals that came. A separate thread takes them and rings a bell for the verb's loop.
#[derive(Debug)]
pub struct CaughtSignals {
    ends: SignalSet,
    /// A bit for each signal that came, and [`RUNG`].
    came: AtomicU64,
    /// Readable once one came.
    bell: OwnedFd,
}

/// The bell was rung and not cleared since. No signal has the number 0.
const RUNG: u64 = 1;

impl CaughtSignals {
    /// Starts to listen to the signals that end the verb, and to others that it heeds.
    ///
    /// After a signal that ends it, the loop has the time `patience` to end the process. If it
    /// hangs (in a call of a device, for example), the thread calls `last` and dies of the signal.
    pub fn start(
        ends: &[i32],
        others: &[i32],
        patience: Duration,
        mut last: impl FnMut() + Send + 'static,
    ) -> Result<Arc<CaughtSignals>, Fault> {
        let bell = bell::make(0).map_err(cannot_listen)?;
        let all = [ends, others].concat();
        let ends = SignalSet::of(ends);
        let heard = Arc::new(CaughtSignals { ends, came: AtomicU64::new(0), bell });
        let told = Arc::clone(&heard);
        let hear = move |signal: i32| {
            // Relaxed, here and below: the bell orders it.
            told.came.fetch_or(1 << signal, Ordering::Relaxed);
            bell::ring(told.bell());
            // The loop may have taken the signal before the bell was rung: it is to clear it then.
            told.came.fetch_or(RUNG, Ordering::Relaxed);
            if told.ends.has(signal) {
                // sleep: the loop ends the process within this time, unless it hangs.
                std::thread::sleep(patience);
                last();
                let _ = die_of(signal);
            }
        };
        let mut signals = Signals::new(heeded(&all)).map_err(cannot_listen)?;
        let listen = move || signals.forever().for_each(hear);
        let thread = std::thread::Builder::new().name("signals".into()).spawn(listen);
        thread.map_err(cannot_listen)?;
        Ok(heard)
    }

    /// The signal that ends the verb, if one came. It stays.
    pub fn end(&self) -> Option<i32> {
        // Relaxed: no other data depends on it.
        let came = self.came.load(Ordering::Relaxed) & self.ends.0;
        // A signal has a number below 64.
        (came != 0).then(|| came.trailing_zeros() as i32)
    }

    /// Takes the others that came since the last call.
    pub fn take(&self) -> SignalSet {
        // A load first, since a loop calls this often, and a signal comes rarely.
        if self.came.load(Ordering::Relaxed) & !self.ends.0 == 0 {
            return SignalSet(0);
        }
        // The bell is cleared before the signals, so that one that comes now rings again.
        bell::clear(self.bell());
        let came = self.came.fetch_and(self.ends.0, Ordering::Relaxed);
        if came & self.ends.0 != 0 {
            // What ends the verb stays, and so does its ring.
            bell::ring(self.bell());
        }
        SignalSet(came & !(self.ends.0 | RUNG))
    }

    /// The descriptor to poll.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn cannot_listen(error: impl Into<io::Error>) -> Fault {
    Fault::cannot("listen for signals")(error.into())
}
