//! How the bytes go: one thread, one loop.
//!
//! While nothing is kept back, bytes are moved from input to output within the kernel (`pass`).
//! Where the output holds their writer up, or they cannot be moved, they are read into the backlog
//! and written from it (`relay`); once that is empty again they are moved as before. Every call is
//! one that does not wait: waiting is for `wait` alone.

use super::display::{Display, Shown};
use super::ends::{BufferInput, DescriptorKind, BufferOutput, can_splice, move_on};
use super::rate::Rate;
use super::signals::Heard;
use super::wait::{Ready, Want, wait_for};
use crate::fault::Fault;
use rustix::event::{PollFlags, Timespec};
use rustix::io::Errno;
use std::time::{Duration, Instant};
use weir::{BacklogReader, BacklogWriter, ErrorKind, Pool};

/// How long the writer may be held up by the output before bytes are kept: what that takes
/// meanwhile need not be copied. About what a reader waits for a CPU where there are more tasks
/// than CPUs.
const PATIENCE: Duration = Duration::from_millis(4);
/// An output that takes so many bytes a second is not slow: copying would be no faster.
const FAST_BYTES_PER_S: f64 = 500e6;
/// Time between two looks at why there is no room.
const LOOK_FULL: Duration = Duration::from_millis(100);
/// Time between two attempts to read back, and their number.
const READ_AGAIN: Duration = Duration::from_millis(200);
const READ_ATTEMPTS: u32 = 5;
/// Times a move may fail though both sides are ready, before the bytes are copied once.
const VAIN_MOVES: u32 = 16;

/// Most writes from the backlog to one read into it: what the output takes goes first, so that the
/// backlog drains though its writer is as fast as its reader, and bytes can be moved again.
const WRITES_A_READ: u32 = 4;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferEnd {
    /// All was passed on.
    Done,
    /// Nobody reads the output any more.
    ReaderGone,
    /// By this signal.
    Signal(i32),
}

/// Whether to go on.
type Step = Result<Option<BufferEnd>, Fault>;

/// The bytes on their way.
pub struct Flow<'a> {
    pool: &'a Pool,
    input: Option<BufferInput>,
    output: BufferOutput,
    /// Goes with the input.
    writer: Option<BacklogWriter>,
    reader: BacklogReader,
    rate: Option<Rate>,
    display: Display,
    heard: &'a Heard,
    /// Bytes that have to be there before the first is passed on.
    start_bytes: u64,
    ready: Ready,
    /// Whether bytes can be moved within the kernel.
    moves: bool,
    /// Whether `poll` has to say that there is input before it is read or moved.
    asks: bool,
    vain_moves: u32,
    /// Since when the output has held up the writer, and the bytes that had been moved then.
    held: Option<(Instant, u64)>,
    failed_reads: u32,
    moved_bytes: u64,
    put_bytes: u64,
    taken_bytes: u64,
    begun: Instant,
    input_ended: Option<Duration>,
    next_look: Instant,
    /// What went wrong first, while what was accepted is still passed on.
    pub failure: Option<Fault>,
    /// What could not be done, and kept no byte from passing.
    pub trouble: Option<String>,
}

impl<'a> Flow<'a> {
    pub fn new(
        pool: &'a Pool,
        (input, output): (BufferInput, BufferOutput),
        (rate, start_bytes): (Option<Rate>, u64),
        (display, heard): (Display, &'a Heard),
    ) -> Result<Flow<'a>, Fault> {
        let (writer, reader) = pool.backlog().map_err(|error| Fault::failed(error.to_string()))?;
        let moves = can_splice(&input, &output);
        let asks = input.must_ask() || moves && input.must_ask_to_splice();
        let begun = Instant::now();
        let next_look = begun + display.interval();
        let ready = Ready { input: !asks, output: !output.must_ask(), room: true, here: true };
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

    /// Passes on all there is.
    pub fn run(&mut self) -> Result<BufferEnd, Fault> {
        loop {
            if let Some(signal) = self.heard.came() {
                return Ok(BufferEnd::Signal(signal));
            }
            self.look();
            let backlog = self.backlog_bytes();
            if self.input.is_none() && backlog == 0 {
                self.heed_trouble();
                return Ok(BufferEnd::Done);
            }
            let passes = self.moves && backlog == 0 && self.has_started();
            let end = if passes { self.pass()? } else { self.relay()? };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Leaves the last line of progress.
    pub fn finish(&mut self) {
        let shown = self.shown();
        self.display.finish(&shown);
    }

    /// The fault that the output cannot be written.
    pub fn unwritable(&self, error: Errno) -> Fault {
        self.output.unwritable(error)
    }

    /// Says something beside the progress.
    pub fn say(&self, text: &str) {
        self.display.say(text);
    }

    /// Bytes that passed, and those of them that were moved within the kernel.
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

    /// Whether bytes may be passed on: as many as were asked for had come, or no more can.
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

    /// Shows how it goes, every now and then, and when it is asked.
    fn look(&mut self) {
        if self.heard.asks_for_report() {
            self.display.report(&self.shown());
        }
        let now = Instant::now();
        if now < self.next_look {
            return;
        }
        self.next_look = now + self.display.interval();
        self.heed_trouble();
        let shown = self.shown();
        self.display.show(&shown, now);
    }

    fn heed_trouble(&mut self) {
        if self.trouble.is_some() {
            return;
        }
        if let Some(error) = self.pool.trouble() {
            self.tell_trouble(error);
        }
    }

    fn tell_trouble(&mut self, error: weir::Error) {
        if self.trouble.is_none() {
            let text = format!(
                "{error}; using memory only from here on: once it is full, the writer waits"
            );
            self.display.say(&text);
            self.trouble = Some(error.to_string());
        }
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

    /// Moves bytes straight on. Nothing is in the backlog.
    fn pass(&mut self) -> Step {
        let allowed = self.allowed_bytes();
        if allowed == 0 {
            return self.relay();
        }
        if self.asks && !self.ready.input {
            return self.wait(Want { input: true, ..Want::default() }, None);
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

    /// Not for these two; or an error, and reading and writing will say of which. Only a socket
    /// tells its errors once: they would be lost.
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
            // Where the output is full, there is something.
            let mut end =
                self.wait(Want { input: true, ..Want::default() }, Some(Duration::ZERO))?;
            if end.is_none() && !self.ready.input {
                // The reader has kept up.
                self.held = None;
                end = self.wait(Want { input: true, ..Want::default() }, None)?;
            }
            if end.is_some() || !self.ready.input {
                return Ok(end);
            }
        }
        // A file keeps its bytes itself.
        let patience = (kind != DescriptorKind::File).then(|| self.patience());
        if patience == Some(Duration::ZERO) {
            return self.relay();
        }
        self.ready.output = false;
        let end = self.wait(Want { output: true, ..Want::default() }, patience)?;
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

    /// How much longer the writer may be held up; not at all by an output that has been slow for
    /// long enough.
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

    /// Writes from the backlog and reads into it, where it can, and else waits.
    fn relay(&mut self) -> Step {
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
        let want = Want {
            input: self.may_absorb() && self.ready.room && !self.ready.input,
            output: some && !limited && !self.ready.output,
            room: self.input.is_some() && !self.ready.room,
            here: some && !self.ready.here,
        };
        if written || read {
            // On with what is ready; of the rest it is asked whether it is by now.
            let zero = Some(Duration::ZERO);
            return if want.anything() { self.wait(want, zero) } else { Ok(None) };
        }
        let mut most = self.rate.as_ref().filter(|_| limited).map(|it| it.wait(Instant::now()));
        if self.failed_reads > 0 {
            most = Some(most.map_or(READ_AGAIN, |most| most.min(READ_AGAIN)));
        }
        let end = self.wait(want, most);
        if self.failed_reads > 0 {
            self.ready.here = true;
        }
        end
    }

    /// Writes from the backlog; whether anything was.
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

    /// What could not be read back stays where it is, and may be read yet.
    fn read_back_failed(&mut self, error: weir::Error) -> Result<(), Fault> {
        self.failed_reads += 1;
        if self.failed_reads >= READ_ATTEMPTS {
            return Err(Fault::failed(error.to_string()));
        }
        Ok(())
    }

    /// A file keeps its bytes itself: no more of it is read than is written next.
    fn may_absorb(&self) -> bool {
        let Some(input) = &self.input else { return false };
        input.kind != DescriptorKind::File || self.backlog_bytes() == 0 || self.start_bytes > 0
    }

    /// Reads into the backlog; whether anything was, or the end.
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

    /// The pool says once why there is no room, if that is not how it should be; whether to ask
    /// for room again now.
    fn no_room(&mut self, error: weir::Error) -> bool {
        if error.kind() != ErrorKind::WouldBlock && self.trouble.is_none() {
            self.tell_trouble(error);
            return true;
        }
        self.ready.room = false;
        self.heed_trouble();
        false
    }

    /// Waits for what is wanted, and for the reader of the output to go; no longer than `most`, or
    /// than nobody has to be told anything.
    fn wait(&mut self, want: Want, most: Option<Duration>) -> Step {
        let shows = self.display.is_shown() || self.backlog_bytes() > 0;
        let look = shows.then(|| self.next_look.saturating_duration_since(Instant::now()));
        let full = (!self.ready.room).then_some(LOOK_FULL);
        let most = [most, look, full].into_iter().flatten().min();
        let timeout = most.and_then(|most| Timespec::try_from(most).ok());
        let told =
            wait_for(want, self.writer.as_mut(), &mut self.reader, self.heard, timeout.as_ref())?;
        self.ready.learn(want, told);
        if !self.ready.room {
            self.heed_trouble();
            // A pool in trouble need not say when there is room.
            self.ready.room = self.trouble.is_some();
        }
        Ok(self.is_gone(told.output))
    }

    /// Whether the reader of the output has gone.
    fn is_gone(&mut self, told: PollFlags) -> Option<BufferEnd> {
        let gone = match self.output.kind {
            DescriptorKind::Pipe => told.contains(PollFlags::ERR),
            DescriptorKind::Socket | DescriptorKind::Terminal => told.intersects(PollFlags::ERR | PollFlags::HUP),
            DescriptorKind::File | DescriptorKind::Other => false,
        };
        if gone && self.output.kind != DescriptorKind::Pipe && self.backlog_bytes() > 0 {
            // Writing says what there is to say.
            self.ready.output = true;
            return None;
        }
        gone.then_some(BufferEnd::ReaderGone)
    }
}
