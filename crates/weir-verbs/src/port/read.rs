//! `weir port read`: makes a port and prints what comes.

use super::form::Form;
use super::{asked, check_name, failed};
use crate::args::PortReadOptions;
use crate::fault::Fault;
use crate::output::{Output, die, hear_beside};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir::{Event, Port, PortOptions, Received, Timeout};
use weir_measure_sys::signals::die_of;

/// What is gathered before it is printed while more comes.
const BLOCK_BYTES: usize = 256 << 10;
/// What is kept of memory that a long message took.
const KEPT_BYTES: usize = 1 << 20;
/// Buffer for messages before a longer one comes.
const MESSAGE_BYTES: usize = 64 << 10;
/// How often an idle reader looks for an interrupt, and whether anyone reads its output.
const LOOK: Duration = Duration::from_millis(100);
/// How long an interrupted reader has to print what it has received.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often one that was told to end tries to close the port, and what is between two tries: a
/// call that receives takes no longer than a tenth of a second.
const CLOSE_TRIES: u32 = 100;
const CLOSE_PAUSE: Duration = Duration::from_millis(2);

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadEnd {
    /// As asked.
    Done,
    /// By this signal.
    Signal(i32),
}

/// What the thread that prints and the one that hears signals share.
#[derive(Debug, Default)]
struct SharedPort {
    port: Mutex<Option<Port>>,
    /// The signal that came, or 0.
    came: AtomicI32,
}

impl SharedPort {
    fn port(&self) -> MutexGuard<'_, Option<Port>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name goes.
    fn close(&self) {
        drop(self.port().take());
    }

    /// The same, where whoever receives gives the port up soon.
    fn close_soon(&self) {
        for _ in 0..CLOSE_TRIES {
            if let Ok(mut port) = self.port.try_lock() {
                drop(port.take());
                return;
            }
            std::thread::sleep(CLOSE_PAUSE);
        }
        // The name stays, as that of a reader that died: the next reader replaces it.
    }
}

pub fn read(options: &PortReadOptions) -> Result<ExitCode, Fault> {
    check_name(&options.name)?;
    let output = Output::of_records(&options.json)?;
    let shared = Arc::new(SharedPort::default());
    hear_signals(&shared)?;
    let wanted = PortOptions::new()
        .mode(options.mode)
        .most_message_bytes(options.max_message)
        .most_writers(options.max_writers);
    *shared.port() = Some(Port::create(&options.name, &wanted).map_err(asked)?);
    let end = PortPrinter::new(options, &shared, output).run();
    shared.close();
    match end? {
        ReadEnd::Done => Ok(ExitCode::SUCCESS),
        ReadEnd::Signal(signal) => Ok(die(signal)),
    }
}

/// Takes signals from now on, except those ignored when weir was started. Who prints ends at the
/// next look; where it hangs, since nobody takes what it prints, the port is closed all the same.
fn hear_signals(shared: &Arc<SharedPort>) -> Result<(), Fault> {
    let shared = Arc::clone(shared);
    let hear = move |signal| {
        shared.came.store(signal, Ordering::Relaxed);
        std::thread::sleep(PATIENCE);
        shared.close_soon();
        let _ = die_of(signal);
    };
    let cannot = |error| Fault::failed(format!("cannot listen for signals: {error}"));
    hear_beside(&[SIGHUP, SIGINT, SIGTERM], hear).map_err(cannot)
}

struct PortPrinter<'a> {
    options: &'a PortReadOptions,
    shared: &'a SharedPort,
    form: Form,
    buffer: Vec<u8>,
    out: Vec<u8>,
    output: Output,
    /// Writers that have come and gone.
    closed: u64,
    /// When something came last.
    last: Instant,
}

impl<'a> PortPrinter<'a> {
    fn new(options: &'a PortReadOptions, shared: &'a SharedPort, output: Output) -> PortPrinter<'a> {
        PortPrinter {
            options,
            shared,
            form: Form::new(options),
            buffer: vec![0; MESSAGE_BYTES],
            out: Vec::new(),
            output,
            closed: 0,
            last: Instant::now(),
        }
    }

    fn run(&mut self) -> Result<ReadEnd, Fault> {
        loop {
            let came = self.shared.came.load(Ordering::Relaxed);
            let over = self.is_over()?;
            let more = came == 0 && !over && self.take(Duration::ZERO)?;
            if more && self.out.len() < BLOCK_BYTES {
                continue;
            }
            if !self.print()? {
                return Ok(ReadEnd::Signal(SIGPIPE));
            }
            match (came, over) {
                (0, false) => {}
                (0, true) => return Ok(ReadEnd::Done),
                _ => return Ok(ReadEnd::Signal(came)),
            }
            if more || self.take(self.patience())? {
                continue;
            }
            if self.options.until_idle.is_some_and(|time| self.last.elapsed() >= time) {
                return Ok(ReadEnd::Done);
            }
            if !self.output.wait(Duration::ZERO)? {
                return Ok(ReadEnd::Signal(SIGPIPE));
            }
        }
    }

    /// How long to wait now.
    fn patience(&self) -> Duration {
        let idle = self.options.until_idle;
        idle.map_or(LOOK, |idle| LOOK.min(idle.saturating_sub(self.last.elapsed())))
    }

    /// Receives what is there, waiting for it that long; whether there was anything.
    fn take(&mut self, time: Duration) -> Result<bool, Fault> {
        let mut port = self.shared.port();
        // Closed already: weir is about to die.
        let Some(port) = port.as_mut() else { return Ok(false) };
        let (form, out, closed) = (&mut self.form, &mut self.out, &mut self.closed);
        let see = |received: Received, bytes: &[u8]| match received.event {
            Event::Closed(_) => {
                *closed += 1;
                form.forget(received.writer.number());
            }
            _ => form.put(out, &received, bytes),
        };
        let got = if time.is_zero() {
            port.receive_each_timeout(&mut self.buffer, Timeout::Now, see)
        } else {
            port.receive_each_timeout(&mut self.buffer, time, see)
        };
        match got {
            Ok(_) => {
                self.last = Instant::now();
                Ok(true)
            }
            Err(error) => match error.kind() {
                weir::ErrorKind::WouldBlock | weir::ErrorKind::TimedOut => Ok(false),
                weir::ErrorKind::TooSmall => {
                    self.buffer.resize(error.needed_bytes().unwrap_or_default(), 0);
                    Ok(true)
                }
                _ => Err(failed(error)),
            },
        }
    }

    /// Whether enough writers have come and gone.
    fn is_over(&self) -> Result<bool, Fault> {
        if self.options.until_closed.is_none_or(|wanted| self.closed < wanted) {
            return Ok(false);
        }
        let mut port = self.shared.port();
        let Some(port) = port.as_mut() else { return Ok(true) };
        Ok(port.counts().map_err(failed)?.open == 0)
    }

    /// Prints what there is. False when nobody reads it any more.
    fn print(&mut self) -> Result<bool, Fault> {
        if self.out.is_empty() {
            return Ok(true);
        }
        if !self.output.write(&self.out)? {
            return Ok(false);
        }
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
        // A reader of the output that is slow is no idle port.
        self.last = Instant::now();
        Ok(true)
    }
}
