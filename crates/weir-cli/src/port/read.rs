//! `weir port read`: creates a port and prints its messages.

use super::check_name;
use super::end::ReadingPort;
use super::form::Form;
use crate::args::PortReadOptions;
use signal_hook::consts::SIGPIPE;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir::{Event, Received, Timeout};
use weir_command::fault::{Fault, die};
use weir_command::output::Output;
use weir_command::signals::{CaughtSignals, ENDS};

/// Bytes that are gathered before they are printed, while more messages come.
const BLOCK_BYTES: usize = 256 << 10;
/// The most memory that is kept after a long message.
const KEPT_BYTES: usize = 1 << 20;
/// The first size of the buffer; a longer message enlarges it.
const MESSAGE_BYTES: usize = 64 << 10;
/// How often an idle reader checks for an interrupt, and whether anybody reads its output.
const LOOK: Duration = Duration::from_millis(100);
/// How long an interrupted reader may take to print what it has received.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often the signal thread tries to close the port, and the pause between two tries. A call that
/// receives holds the port for at most a tenth of a second.
const CLOSE_TRIES: u32 = 100;
const CLOSE_PAUSE: Duration = Duration::from_millis(2);

/// How the reader ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadEnd {
    /// As the options say.
    Done,
    Signal(i32),
}

/// The state shared by the thread that prints and the thread that handles signals.
#[derive(Default)]
struct SharedPort {
    port: Mutex<Option<ReadingPort>>,
}

impl SharedPort {
    fn port(&self) -> MutexGuard<'_, Option<ReadingPort>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the port, which removes its name.
    fn close(&self) {
        drop(self.port().take());
    }

    /// Closes the port once the thread that receives releases it.
    fn close_soon(&self) {
        for _ in 0..CLOSE_TRIES {
            if let Ok(mut port) = self.port.try_lock() {
                if let Some(port) = port.take() {
                    port.report_loss();
                }
                return;
            }
            std::thread::sleep(CLOSE_PAUSE);
        }
        // The name stays, like that of a reader that died; the next reader replaces it.
    }
}

pub fn read(options: &PortReadOptions) -> Result<ExitCode, Fault> {
    check_name(&options.name)?;
    let output = Output::of_records(&options.json)?;
    let shared = Arc::new(SharedPort::default());
    let heard = catch_signals(&shared)?;
    *shared.port() = Some(ReadingPort::create(options)?);
    let end = PortPrinter::new(options, (&shared, &heard), output).run();
    match &end {
        // Nobody reads the output any more, and that is not news.
        Ok(ReadEnd::Signal(SIGPIPE) | ReadEnd::Done) | Err(_) => {}
        Ok(ReadEnd::Signal(_)) => shared.port().iter().for_each(ReadingPort::report_loss),
    }
    shared.close();
    match end? {
        ReadEnd::Done => Ok(ExitCode::SUCCESS),
        ReadEnd::Signal(signal) => Ok(die(signal)),
    }
}

/// Handles signals from now on, except those that were ignored when weir was started. The thread that
/// prints ends at its next check. If it hangs because nobody reads its output, the signal thread
/// closes the port and ends the process.
fn catch_signals(shared: &Arc<SharedPort>) -> Result<Arc<CaughtSignals>, Fault> {
    let shared = Arc::clone(shared);
    CaughtSignals::start(&ENDS, &[], PATIENCE, move || shared.close_soon())
}

struct PortPrinter<'a> {
    options: &'a PortReadOptions,
    shared: &'a SharedPort,
    heard: &'a CaughtSignals,
    form: Form,
    buffer: Vec<u8>,
    out: Vec<u8>,
    output: Output,
    /// Writers that have closed.
    closed: u64,
    /// When the last message came.
    last: Instant,
}

impl<'a> PortPrinter<'a> {
    fn new(
        options: &'a PortReadOptions,
        (shared, heard): (&'a SharedPort, &'a CaughtSignals),
        output: Output,
    ) -> PortPrinter<'a> {
        PortPrinter {
            options,
            shared,
            heard,
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
            let came = self.heard.end();
            let over = self.is_over()?;
            let more = came.is_none() && !over && self.take(Duration::ZERO)?;
            if more && self.out.len() < BLOCK_BYTES {
                continue;
            }
            if !self.print()? {
                return Ok(ReadEnd::Signal(SIGPIPE));
            }
            self.shared.port().iter_mut().for_each(ReadingPort::report_trouble);
            match (came, over) {
                (None, false) => {}
                (None, true) => return Ok(ReadEnd::Done),
                (Some(signal), _) => return Ok(ReadEnd::Signal(signal)),
            }
            if more || self.take(self.patience())? {
                continue;
            }
            self.buffer.truncate(KEPT_BYTES);
            self.buffer.shrink_to(KEPT_BYTES);
            if self.is_idle() {
                return Ok(ReadEnd::Done);
            }
            if !self.output.wait(Duration::ZERO)? {
                return Ok(ReadEnd::Signal(SIGPIPE));
            }
        }
    }

    /// How long to wait for the next message.
    fn patience(&self) -> Duration {
        let idle = self.options.until_idle;
        idle.map_or(LOOK, |idle| LOOK.min(idle.saturating_sub(self.last.elapsed())))
    }

    /// Whether nothing has come for as long as the options say. What waits in a backlog has come, and
    /// may have to be read back.
    fn is_idle(&mut self) -> bool {
        let Some(idle) = self.options.until_idle else { return false };
        if self.shared.port().as_ref().is_some_and(ReadingPort::has_backlog) {
            self.last = Instant::now();
            return false;
        }
        self.last.elapsed() >= idle
    }

    /// Receives messages, waiting for them for at most `time`; whether there were any. What came before
    /// an error is printed.
    fn take(&mut self, time: Duration) -> Result<bool, Fault> {
        let mut locked = self.shared.port();
        // The signal thread has closed it: weir is about to die.
        let Some(port) = locked.as_mut() else { return Ok(false) };
        let (form, out, closed) = (&mut self.form, &mut self.out, &mut self.closed);
        let see = |received: Received, bytes: &[u8]| match received.event {
            Event::Closed(_) => {
                *closed += 1;
                form.forget(received.writer.number());
            }
            _ => form.put(out, &received, bytes),
        };
        let timeout = if time.is_zero() { Timeout::Now } else { time.into() };
        let got = port.receive_each(&mut self.buffer, timeout, see);
        drop(locked);
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
                _ => self.print().and_then(|_| Err(error.into())),
            },
        }
    }

    /// Whether enough writers have closed and none is left.
    fn is_over(&self) -> Result<bool, Fault> {
        if self.options.until_closed.is_none_or(|wanted| self.closed < wanted) {
            return Ok(false);
        }
        let mut port = self.shared.port();
        let Some(port) = port.as_mut() else { return Ok(true) };
        Ok(port.counts()?.open == 0)
    }

    /// Prints what was gathered. False if the reader has left.
    fn print(&mut self) -> Result<bool, Fault> {
        if self.out.is_empty() {
            return Ok(true);
        }
        if !self.output.write(&self.out)? {
            return Ok(false);
        }
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
        // Time that a slow reader of the output took does not make the port idle.
        self.last = Instant::now();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{CommandLine, PortVerb, Verb};
    use clap::Parser;
    use std::ffi::OsString;
    use weir::{PortWriter, PortWriterOptions};

    /// The options of a reader of this port.
    fn asked(words: &[&str], name: OsString) -> PortReadOptions {
        let words = ["weir", "port", "read"].iter().chain(words).map(Into::into).chain([name]);
        let Verb::Port(port) = CommandLine::try_parse_from(words).expect("valid").command else {
            panic!("another verb")
        };
        let PortVerb::Read(options) = port.verb else { panic!("another verb") };
        options
    }

    /// While messages were read back from the file nothing came for the time of `--until-idle`: the
    /// reader ended with status 0, and what its writers had sent was lost.
    #[test]
    fn what_has_to_be_read_back_has_come() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = |name: &str| directory.path().join(name).into_os_string();
        let options = asked(&["--elastic", "--memory", "256K", "--until-idle", "0s"], place("log"));
        let shared = SharedPort::default();
        *shared.port() = Some(ReadingPort::create(&options).expect("a port"));
        let writer = PortWriter::connect(place("log"), &PortWriterOptions::new());
        let mut writer = writer.expect("a writer");
        // Thirty-two times its memory, before anybody receives.
        (0..8192).for_each(|_| writer.send(&[b'x'; 1024]).expect("there is room"));
        let heard = CaughtSignals::start(&[], &[], PATIENCE, || {}).expect("heard");
        let output = Output::create(place("printed").as_ref()).expect("a file");
        let end = PortPrinter::new(&options, (&shared, &heard), output).run();
        assert_eq!(end.expect("printed"), ReadEnd::Done);
        let printed = std::fs::metadata(place("printed")).expect("a file").len();
        assert_eq!(printed, 8192 * 1025);
    }

    /// What had been received was lost where the rest could not be read back.
    #[test]
    fn what_came_before_an_error_is_printed() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = |name: &str| directory.path().join(name).into_os_string();
        let spill = directory.path().to_str().expect("text");
        let words = ["--elastic", "--memory", "256K", "--spill", spill, "--verify"];
        let options = asked(&words, place("log"));
        let shared = SharedPort::default();
        *shared.port() = Some(ReadingPort::create(&options).expect("a port"));
        let writer = PortWriter::connect(place("log"), &PortWriterOptions::new());
        let mut writer = writer.expect("a writer");
        (0..2048).for_each(|_| writer.send(&[b'x'; 1024]).expect("there is room"));
        // The file without a name in this directory.
        let open = std::fs::read_dir("/proc/self/fd").expect("here").flatten();
        let spilled = open.map(|entry| entry.path()).find(|path| {
            let to = std::fs::read_link(path).unwrap_or_default();
            to.starts_with(directory.path()) && to.to_string_lossy().ends_with("(deleted)")
        });
        let file = std::fs::File::options().write(true).open(spilled.expect("a file"));
        file.expect("opened").set_len(0).expect("emptied");
        let heard = CaughtSignals::start(&[], &[], PATIENCE, || {}).expect("heard");
        let output = Output::create(place("printed").as_ref()).expect("a file");
        let mut printer = PortPrinter::new(&options, (&shared, &heard), output);
        while printer.take(LOOK).is_ok() {}
        let mut port = shared.port();
        let Some(ReadingPort::Elastic { port, .. }) = port.as_mut() else { panic!("another port") };
        let received = port.writers().expect("mine")[0].messages;
        let printed = std::fs::metadata(place("printed")).expect("a file").len();
        assert!(received > 0 && printed == received * 1025, "{printed} of {received}");
    }

    /// What a writer had left that was shut out waited for ever: the reader did not end.
    #[test]
    fn what_is_left_of_a_writer_that_was_shut_out_has_not_come() {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("log");
        let words = ["--elastic", "--memory", "256K", "--no-spill"];
        let mut port = ReadingPort::create(&asked(&words, name.clone().into())).expect("a port");
        let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
        // Half as much again as its ring holds.
        (0..384).for_each(|_| writer.send(&[b'x'; 1024]).expect("there is room"));
        assert!(port.has_backlog());
        let mut sender = None;
        let see = |received: Received, _: &[u8]| sender = Some(received.writer);
        port.receive_each(&mut [0; 2048], PATIENCE.into(), see).expect("received");
        let ReadingPort::Elastic { port: elastic, .. } = &mut port else { panic!("another port") };
        elastic.shut_out(sender.expect("a writer")).expect("it is there");
        let begun = Instant::now();
        while port.has_backlog() && begun.elapsed() < Duration::from_secs(10) {
            port.receive_each(&mut [0; 2048], Timeout::Now, |_, _| {}).err();
        }
        assert!(!port.has_backlog());
    }

    /// The buffer stayed as long as the longest message that had come.
    #[test]
    fn a_long_message_leaves_no_long_buffer() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = |name: &str| directory.path().join(name).into_os_string();
        let options = asked(&["--until-idle", "0s"], place("log"));
        let shared = SharedPort::default();
        *shared.port() = Some(ReadingPort::create(&options).expect("a port"));
        let writer = PortWriterOptions::new().capacity_bytes(16 << 20);
        let mut writer = PortWriter::connect(place("log"), &writer).expect("a writer");
        writer.send(&vec![b'x'; 3 << 20]).expect("there is room");
        let heard = CaughtSignals::start(&[], &[], PATIENCE, || {}).expect("heard");
        let output = Output::create(place("printed").as_ref()).expect("a file");
        let mut printer = PortPrinter::new(&options, (&shared, &heard), output);
        assert_eq!(printer.run().expect("printed"), ReadEnd::Done);
        let printed = std::fs::metadata(place("printed")).expect("a file").len();
        assert_eq!(printed, (3 << 20) + 1);
        assert!(printer.buffer.capacity() <= KEPT_BYTES, "{}", printer.buffer.capacity());
    }
}
