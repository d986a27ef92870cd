//! The loop that carries the bytes, in one thread.
//!
//! While the backlog is empty, the kernel moves bytes from input to output (`pass`). If the output
//! holds up the writer, or bytes cannot be moved, the loop reads them into the backlog and writes
//! from it (`relay`). Once the backlog is empty, bytes are moved again. No call but `wait` waits.

use super::display::{Display, Shown};
use super::rate::Rate;
use super::wait::{Each, make_pollable, wait_for};
use rustix::event::{PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::SIGUSR1;
use std::time::{Duration, Instant};
use weir::{BacklogReader, BacklogWriter, ErrorKind, Pool};
use weir_command::ends::{BufferInput, BufferOutput, DescriptorKind, can_splice, move_on};
use weir_command::fault::Fault;
use weir_command::signals::CaughtSignals;

/// How long the output may hold up the writer before bytes are kept: bytes that it takes in that
/// time need not be copied. A reader waits about as long for a CPU when there are more tasks than
/// CPUs.
const PATIENCE: Duration = Duration::from_millis(4);
/// An output that takes this many bytes a second is not slow: copying would be no faster.
const FAST_BYTES_PER_S: f64 = 500e6;
/// Time between two checks why there is no room.
const LOOK_FULL: Duration = Duration::from_millis(100);
/// Time between two attempts to read back, and their number.
const READ_AGAIN: Duration = Duration::from_millis(200);
const READ_ATTEMPTS: u32 = 5;
/// How often a move may fail although both sides are ready, before bytes are copied instead.
const VAIN_MOVES: u32 = 16;

/// Most writes from the backlog for each read into it. With more writes than reads, the backlog
/// drains although its writer is as fast as its reader, and bytes can be moved again.
const WRITES_A_READ: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferEnd {
    /// All input was passed on.
    Done,
    /// Nobody reads the output any more.
    ReaderGone,
    Signal(i32),
}

/// The result of a step of the loop: the end, or `None` to continue.
type Step = Result<Option<BufferEnd>, Fault>;

/// The state of the loop.
pub struct Flow<'a> {
    pool: &'a Pool,
    input: Option<BufferInput>,
    output: BufferOutput,
    /// Closed together with the input.
    writer: Option<BacklogWriter>,
    reader: BacklogReader,
    rate: Option<Rate>,
    display: Display<'a>,
    heard: &'a CaughtSignals,
    /// Bytes that must have come before the first is passed on.
    start_bytes: u64,
    ready: Each<bool>,
    /// Whether the kernel can move bytes.
    moves: bool,
    /// Whether `poll` must report input before it is read or moved.
    asks: bool,
    vain_moves: u32,
    /// The time since which the output holds up the writer, and the bytes moved until then.
    held: Option<(Instant, u64)>,
    failed_reads: u32,
    /// When reading back is tried again, after it has failed.
    read_again: Option<Instant>,
    moved_bytes: u64,
    put_bytes: u64,
    taken_bytes: u64,
    begun: Instant,
    input_ended: Option<Duration>,
    next_look: Instant,
    /// The first error; bytes that were accepted before are still passed on.
    pub failure: Option<Fault>,
    /// A failure that keeps no byte from passing.
    pub trouble: Option<String>,
}

impl<'a> Flow<'a> {
    pub fn new(
        pool: &'a Pool,
        (input, output): (BufferInput, BufferOutput),
        (rate, start_bytes): (Option<Rate>, u64),
        (display, heard): (Display<'a>, &'a CaughtSignals),
    ) -> Result<Flow<'a>, Fault> {
        let (mut writer, mut reader) = pool.backlog()?;
        make_pollable(&mut writer, &mut reader)?;
        let moves = can_splice(&input, &output);
        let asks = input.must_ask() || moves && input.must_ask_to_splice();
        let begun = Instant::now();
        let next_look = begun + display.interval();
        let ready = Each { input: !asks, output: !output.must_ask(), room: true, here: true };
        Ok(Flow {
            pool,
            moves,
            asks,
            input: Some(input),
            output,
            writer: Some(writer),
            reader,
            rate,
            display,
            heard,
            start_bytes,
            ready,
            vain_moves: 0,
            held: None,
            failed_reads: 0,
            read_again: None,
            moved_bytes: 0,
            put_bytes: 0,
            taken_bytes: 0,
            begun,
            input_ended: None,
            next_look,
            failure: None,
            trouble: None,
        })
    }

    /// Passes on all input.
    pub fn run(&mut self) -> Result<BufferEnd, Fault> {
        loop {
            if let Some(signal) = self.heard.end() {
                return Ok(BufferEnd::Signal(signal));
            }
            self.poll();
            let backlog = self.backlog_bytes();
            if self.input.is_none() && backlog == 0 {
                self.check_trouble();
                return Ok(BufferEnd::Done);
            }
            let passes = self.moves && backlog == 0 && self.has_started();
            let end = if passes { self.pass()? } else { self.relay()? };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Shows the last line of progress.
    pub fn finish(&mut self) {
        let shown = self.shown();
        self.display.finish(&shown);
    }

    /// The error that the output cannot be written.
    pub fn unwritable(&self, error: Errno) -> Fault {
        self.output.unwritable(error)
    }

    /// Prints a message above the line of progress.
    pub fn print(&self, text: &str) {
        self.display.print(text);
    }

    /// What has passed so far.
    pub fn shown(&self) -> Shown {
        Shown {
            in_bytes: self.moved_bytes + self.put_bytes,
            out_bytes: self.moved_bytes + self.taken_bytes,
            moved_bytes: self.moved_bytes,
            input_ended: self.input_ended,
            pool: self.pool.account(),
        }
    }

    fn backlog_bytes(&self) -> u64 {
        self.put_bytes - self.taken_bytes
    }

    /// Whether bytes may be passed on: the bytes to begin with have come, or no more can come.
    fn has_started(&mut self) -> bool {
        if self.start_bytes > 0 {
            let full = !self.ready.room || self.input.is_none();
            if !full && self.backlog_bytes() < self.start_bytes {
                return false;
            }
            self.start_bytes = 0;
        }
        true
    }

    /// Shows the progress at its interval, and when a signal asks for it.
    fn poll(&mut self) {
        if self.heard.take().has(SIGUSR1) {
            self.display.report(&self.shown());
        }
        let now = Instant::now();
        if now < self.next_look {
            return;
        }
        self.next_look = now + self.display.interval();
        self.check_trouble();
        let shown = self.shown();
        self.display.show(&shown, now);
    }

    fn check_trouble(&mut self) {
        if self.trouble.is_none()
            && let Some(error) = self.pool.trouble()
        {
            self.report_trouble(error);
        }
    }

    fn report_trouble(&mut self, error: weir::Error) {
        let what = "using memory only while that lasts: once it is full, the writer waits";
        self.display.print(&format!("{error}; {what}"));
        self.trouble = Some(error.to_string());
    }

    fn allowed_bytes(&mut self) -> u64 {
        self.rate.as_mut().map_or(u64::MAX, |rate| rate.allowed(Instant::now()))
    }

    fn passed(&mut self, bytes: u64) {
        if let Some(rate) = &mut self.rate {
            rate.passed(bytes, Instant::now());
        }
    }

    fn end_input(&mut self) {
        self.writer = None;
        if let Some(input) = self.input.take() {
            self.input_ended = Some(self.begun.elapsed());
            input.close();
        }
    }

    /// Moves bytes from input to output. The backlog is empty.
    fn pass(&mut self) -> Step {
        let allowed = self.allowed_bytes();
        if allowed == 0 {
            return self.relay();
        }
        if self.asks && !self.ready.input {
            return self.wait(Each { input: true, ..Each::default() }, None);
        }
        match move_on(allowed) {
            Ok(0) => self.end_input(),
            Ok(bytes) => {
                self.moved_bytes += bytes;
                self.passed(bytes);
                self.vain_moves = 0;
                self.ready.input = !self.asks;
            }
            Err(Errno::AGAIN) => return self.held_up(),
            Err(Errno::INTR) => {}
            Err(Errno::PIPE) => return Ok(Some(BufferEnd::ReaderGone)),
            Err(error) => self.move_failed(error)?,
        }
        Ok(None)
    }

    /// Stops moving bytes: it does not work between these two, or one of them has an error, which
    /// reading or writing will report. But a socket reports an error once, so it is reported here.
    fn move_failed(&mut self, error: Errno) -> Result<(), Fault> {
        let from_socket = self.input.as_ref().filter(|input| input.kind == DescriptorKind::Socket);
        if matches!(error, Errno::INVAL | Errno::OPNOTSUPP) {
            self.moves = false;
        } else if let Some(input) = from_socket {
            self.failure = Some(input.unreadable(error));
            self.end_input();
        } else if self.output.kind == DescriptorKind::Socket {
            return Err(self.output.unwritable(error));
        } else {
            self.moves = false;
        }
        Ok(())
    }

    /// Nothing could be moved: the input is empty or the output full.
    fn held_up(&mut self) -> Step {
        let Some(kind) = self.input.as_ref().map(|input| input.kind) else { return Ok(None) };
        self.ready.input = kind == DescriptorKind::File;
        if !self.ready.input {
            // If the output is full, there is input.
            let mut end =
                self.wait(Each { input: true, ..Each::default() }, Some(Duration::ZERO))?;
            if end.is_none() && !self.ready.input {
                // The reader has kept up.
                self.held = None;
                end = self.wait(Each { input: true, ..Each::default() }, None)?;
            }
            if end.is_some() || !self.ready.input {
                return Ok(end);
            }
        }
        // A file has no writer that could be held up.
        let patience = (kind != DescriptorKind::File).then(|| self.patience());
        if patience == Some(Duration::ZERO) {
            return self.relay();
        }
        self.ready.output = false;
        let end = self.wait(Each { output: true, ..Each::default() }, patience)?;
        self.vain_moves += u32::from(self.ready.output);
        if end.is_some() || self.ready.output && self.vain_moves < VAIN_MOVES {
            return Ok(end);
        }
        if kind == DescriptorKind::File && !self.ready.output {
            return Ok(None);
        }
        self.vain_moves = 0;
        self.relay()
    }

    /// How much longer the output may hold up the writer; zero once it has been slow for long enough.
    fn patience(&mut self) -> Duration {
        let now = Instant::now();
        let (since, moved_bytes) = *self.held.get_or_insert((now, self.moved_bytes));
        let held = now - since;
        if held < PATIENCE {
            return PATIENCE - held;
        }
        self.held = None;
        let moved_bytes = (self.moved_bytes - moved_bytes) as f64;
        let is_fast = moved_bytes >= FAST_BYTES_PER_S * held.as_secs_f64();
        if is_fast { PATIENCE } else { Duration::ZERO }
    }

    /// Writes from the backlog and reads into it; waits if it can do neither.
    fn relay(&mut self) -> Step {
        if self.read_again.is_some_and(|at| Instant::now() >= at) {
            (self.read_again, self.ready.here) = (None, true);
        }
        let mut written = false;
        for _ in 0..WRITES_A_READ {
            let (wrote, end) = self.emit()?;
            if end.is_some() {
                return Ok(end);
            }
            if !wrote {
                break;
            }
            written = true;
        }
        let read = self.absorb();
        let limited = self.allowed_bytes() == 0;
        let some = self.backlog_bytes() > 0 && self.has_started();
        let want = Each {
            input: self.may_absorb() && self.ready.room && !self.ready.input,
            output: some && !limited && !self.ready.output,
            room: self.input.is_some() && !self.ready.room,
            // The descriptor stays readable after a failure.
            here: some && !self.ready.here && self.read_again.is_none(),
        };
        if written || read {
            // Go on with what is ready, and check without waiting whether the rest is ready by now.
            let zero = Some(Duration::ZERO);
            return if want.any() { self.wait(want, zero) } else { Ok(None) };
        }
        let now = Instant::now();
        let allowed = self.rate.as_ref().filter(|_| limited).map(|it| it.wait(now));
        let again = self.read_again.map(|at| at.saturating_duration_since(now));
        self.wait(want, [allowed, again].into_iter().flatten().min())
    }

    /// Writes from the backlog; whether it wrote anything, and the end, if this is it.
    fn emit(&mut self) -> Result<(bool, Option<BufferEnd>), Fault> {
        let some = self.backlog_bytes() > 0 && self.has_started();
        if !some || !self.ready.output || !self.ready.here {
            return Ok((false, None));
        }
        let allowed = self.allowed_bytes();
        if allowed == 0 {
            return Ok((false, None));
        }
        let bytes = match self.reader.peek() {
            Ok(bytes) => &bytes[..bytes.len().min(usize::try_from(allowed).unwrap_or(usize::MAX))],
            Err(error) => {
                self.ready.here = false;
                if error.kind() != ErrorKind::WouldBlock {
                    self.read_back_failed(error)?;
                }
                return Ok((false, None));
            }
        };
        self.failed_reads = 0;
        match self.output.write(bytes) {
            Ok(0) => return Err(self.output.unwritable("it accepts nothing")),
            Ok(count) => {
                self.reader.consume(count);
                self.taken_bytes += count as u64;
                self.passed(count as u64);
                self.ready.output = !self.output.must_ask();
            }
            Err(Errno::AGAIN) => {
                self.ready.output = false;
                return Ok((false, None));
            }
            Err(Errno::PIPE) => return Ok((false, Some(BufferEnd::ReaderGone))),
            Err(error) => return Err(self.output.unwritable(error)),
        }
        Ok((true, None))
    }

    /// Counts a failed attempt to read back. The bytes are still there, so it is tried again.
    fn read_back_failed(&mut self, error: weir::Error) -> Result<(), Fault> {
        self.failed_reads += 1;
        self.read_again = Some(Instant::now() + READ_AGAIN);
        if self.failed_reads >= READ_ATTEMPTS {
            return Err(error.into());
        }
        Ok(())
    }

    /// Whether to read into the backlog. A file keeps its bytes itself, so it is not read ahead.
    fn may_absorb(&self) -> bool {
        let Some(input) = &self.input else { return false };
        input.kind != DescriptorKind::File || self.backlog_bytes() == 0 || self.start_bytes > 0
    }

    /// Reads into the backlog; whether it read anything or found the end.
    fn absorb(&mut self) -> bool {
        if !self.may_absorb() || !self.ready.input || !self.ready.room {
            return false;
        }
        let (Some(input), Some(writer)) = (&mut self.input, &mut self.writer) else { return false };
        let space = match writer.reserve() {
            Ok(space) => space,
            Err(error) => return self.no_room(error),
        };
        match input.read(space) {
            Ok(0) => self.end_input(),
            Ok(count) => {
                writer.commit(count);
                self.put_bytes += count as u64;
                self.ready.input = !self.asks;
            }
            Err(Errno::AGAIN) => {
                self.ready.input = false;
                return false;
            }
            Err(error) => {
                self.failure = Some(input.unreadable(error));
                self.end_input();
            }
        }
        true
    }

    /// Handles that the pool has no room; whether to ask for room again at once. The pool reports a
    /// failure once.
    fn no_room(&mut self, error: weir::Error) -> bool {
        if error.kind() != ErrorKind::WouldBlock && self.trouble.is_none() {
            self.report_trouble(error);
            return true;
        }
        self.ready.room = false;
        self.check_trouble();
        false
    }

    /// Waits for what is wanted, or until the reader of the output has left; at most `most`, and at
    /// most until the next update of the progress.
    fn wait(&mut self, want: Each<bool>, most: Option<Duration>) -> Step {
        let shows = self.display.is_shown() || self.backlog_bytes() > 0;
        let look = shows.then(|| self.next_look.saturating_duration_since(Instant::now()));
        let full = (!self.ready.room).then_some(LOOK_FULL);
        let most = [most, look, full].into_iter().flatten().min();
        let timeout = most.and_then(|most| Timespec::try_from(most).ok());
        let told =
            wait_for(want, self.writer.as_mut(), &mut self.reader, self.heard, timeout.as_ref())?;
        self.ready.learn(want, told);
        if !self.ready.room {
            self.check_trouble();
            // A pool with a failure need not report when there is room.
            self.ready.room = self.trouble.is_some();
        }
        Ok(self.is_gone(told.output))
    }

    /// The end, if the reader of the output has left.
    fn is_gone(&mut self, told: PollFlags) -> Option<BufferEnd> {
        let gone = match self.output.kind {
            DescriptorKind::Pipe => told.contains(PollFlags::ERR),
            DescriptorKind::Socket | DescriptorKind::Terminal => {
                told.intersects(PollFlags::ERR | PollFlags::HUP)
            }
            DescriptorKind::File | DescriptorKind::Other => false,
        };
        if gone && self.output.kind != DescriptorKind::Pipe && self.backlog_bytes() > 0 {
            // Writing reports the error.
            self.ready.output = true;
            return None;
        }
        gone.then_some(BufferEnd::ReaderGone)
    }
}
