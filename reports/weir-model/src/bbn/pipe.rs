//! `writep` and `readp` of V6 as scripts, and their port's sisters, which put a header before each piece.

use super::file::{BLOCK, FileIo};
use super::{Bbn, Channels, PPIPE};
use crate::kernel::{Pid, Script, Step, Sys};

/// Bytes that a pipe holds.
pub const PIPSIZ: usize = 4096;
/// Bytes of a port's header.
pub const HEADER: usize = 8;

/// What the test does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Blocks that are written.
    pub blocks: usize,
    /// Bytes of a block.
    pub bytes: usize,
    /// Whether it goes through a port.
    pub port: bool,
    /// Which pipe of the world it is.
    pub pipe: usize,
    /// Whether headers go before the pieces, and the data are checked.
    pub headers: bool,
}

#[derive(Clone, Debug)]
enum State {
    Start,
    User,
    Enter,
    Lock,
    Header(FileIo),
    Data(FileIo, usize),
    Unlock,
}

/// The process that writes.
pub struct Writer {
    test: Test,
    written: usize,
    left: usize,
    at: State,
}

impl Writer {
    /// Makes the script.
    pub fn new(test: Test) -> Writer {
        Writer { test, written: 0, left: 0, at: State::Start }
    }

    fn header(&self) -> usize {
        if self.test.headers { HEADER } else { 0 }
    }
}

fn lock(sys: &mut Sys<Bbn>, at: usize) -> Option<Step> {
    let pipe = &mut sys.world.pipes[at];
    if pipe.locked {
        pipe.wanted = true;
        return Some(Step::Sleep(Channels::lock(at), PPIPE));
    }
    pipe.locked = true;
    None
}

fn unlock(sys: &mut Sys<Bbn>, at: usize) {
    sys.world.pipes[at].locked = false;
    if std::mem::take(&mut sys.world.pipes[at].wanted) {
        sys.wake(Channels::lock(at));
    }
}

fn call_ns(sys: &Sys<Bbn>, test: Test) -> u64 {
    sys.world.costs.call_ns + if test.port { sys.world.costs.port_ns } else { 0 }
}

impl Script<Bbn> for Writer {
    fn step(&mut self, sys: &mut Sys<Bbn>, _: Pid) -> Step {
        let pipe = self.test.pipe;
        loop {
            match &mut self.at {
                State::Start => {
                    self.at = State::User;
                    return Step::Kernel(0);
                }
                State::User => {
                    if self.written == self.test.blocks {
                        sys.world.pipes[pipe].closed = true;
                        sys.wake(Channels::bytes(pipe));
                        return Step::Exit;
                    }
                    self.at = State::Enter;
                    return Step::User(sys.world.costs.user_ns);
                }
                State::Enter => {
                    self.written += 1;
                    self.left = self.test.bytes;
                    self.at = State::Lock;
                    return Step::Kernel(call_ns(sys, self.test));
                }
                State::Lock => {
                    if let Some(step) = lock(sys, pipe) {
                        return step;
                    }
                    if self.left == 0 {
                        unlock(sys, pipe);
                        self.at = State::User;
                        continue;
                    }
                    let room = PIPSIZ - sys.world.pipes[pipe].size;
                    if room <= self.header() {
                        sys.world.pipes[pipe].writer_waits = true;
                        unlock(sys, pipe);
                        return Step::Sleep(Channels::room(pipe), PPIPE);
                    }
                    let size = sys.world.pipes[pipe].size;
                    self.at = State::Header(FileIo::new(self.test.pipe, true, size, self.header()));
                }
                State::Header(io) => {
                    if let Some(step) = io.step(sys) {
                        return step;
                    }
                    let size = sys.world.pipes[pipe].size;
                    let piece = self.left.min(PIPSIZ - size);
                    self.at = State::Data(FileIo::new(self.test.pipe, true, size, piece), piece);
                }
                State::Data(io, piece) => {
                    if let Some(step) = io.step(sys) {
                        return step;
                    }
                    self.left -= *piece;
                    self.at = State::Unlock;
                }
                State::Unlock => {
                    unlock(sys, pipe);
                    if std::mem::take(&mut sys.world.pipes[pipe].reader_waits) {
                        sys.wake(Channels::bytes(pipe));
                    }
                    self.at = State::Lock;
                }
            }
        }
    }
}

/// The process that reads.
pub struct Reader {
    test: Test,
    /// Bytes of the call under way that are still to come.
    wanted: usize,
    /// The next call reads a header.
    header: bool,
    /// Bytes of the piece that are not read.
    piece: usize,
    at: State,
}

impl Reader {
    /// Makes the script.
    pub fn new(test: Test) -> Reader {
        Reader { test, wanted: 0, header: test.headers, piece: 0, at: State::User }
    }

    /// Returns how many bytes the next call asks for.
    fn next(&self) -> usize {
        if !self.test.headers {
            self.test.bytes
        } else if self.header {
            HEADER
        } else {
            self.test.bytes
        }
    }
}

impl Script<Bbn> for Reader {
    fn step(&mut self, sys: &mut Sys<Bbn>, _: Pid) -> Step {
        let pipe = self.test.pipe;
        loop {
            match &mut self.at {
                State::Start | State::User => {
                    self.at = State::Enter;
                    let costs = sys.world.costs;
                    let checked = std::mem::take(&mut self.piece) as u64 * costs.check_ns;
                    return Step::User(costs.user_ns + checked);
                }
                State::Enter => {
                    self.wanted = self.next();
                    self.at = State::Lock;
                    return Step::Kernel(call_ns(sys, self.test));
                }
                State::Lock => {
                    if let Some(step) = lock(sys, pipe) {
                        return step;
                    }
                    let file = &mut sys.world.pipes[pipe];
                    let (read, size) = (file.read, file.size);
                    if read == size {
                        if read != 0 {
                            (file.read, file.size) = (0, 0);
                            if std::mem::take(&mut file.writer_waits) {
                                sys.wake(Channels::room(pipe));
                            }
                        }
                        let closed = sys.world.pipes[pipe].closed;
                        unlock(sys, pipe);
                        if closed {
                            return Step::Exit;
                        }
                        sys.world.pipes[pipe].reader_waits = true;
                        return Step::Sleep(Channels::bytes(pipe), PPIPE);
                    }
                    let bytes = self.wanted.min(size - read);
                    self.at = State::Data(FileIo::new(self.test.pipe, false, read, bytes), bytes);
                }
                State::Data(io, bytes) => {
                    if let Some(step) = io.step(sys) {
                        return step;
                    }
                    let bytes = *bytes;
                    sys.world.pipes[pipe].read += bytes;
                    if self.test.headers {
                        if !self.header {
                            self.piece = bytes;
                        }
                        self.header = !self.header;
                    }
                    self.at = State::Unlock;
                    if sys.world.rules.cancel {
                        return Step::Kernel(cancel(sys, pipe));
                    }
                }
                State::Unlock => {
                    unlock(sys, pipe);
                    self.at = State::User;
                }
                State::Header(_) => return Step::Exit,
            }
        }
    }
}

/// Cancels the delayed writes of the blocks that were read to their end. Returns what that takes.
fn cancel(sys: &mut Sys<Bbn>, pipe: usize) -> u64 {
    let read = sys.world.pipes[pipe].read / BLOCK;
    for logical in 0..read {
        let block = sys.world.pipes[pipe].blocks[logical];
        sys.world.cache.cancel(block);
    }
    read as u64 * sys.world.costs.cancel_ns
}

/// A process that copies a file again and again, as long as the others run.
pub struct Copier {
    from: usize,
    to: usize,
    offset: usize,
    at: CopyAt,
}

enum CopyAt {
    User,
    Read(FileIo),
    Between,
    Write(FileIo),
}

impl Copier {
    /// Makes the script: which files, and the block at which it begins.
    pub fn new(from: usize, to: usize, block: usize) -> Copier {
        Copier { from, to, offset: block * BLOCK, at: CopyAt::User }
    }
}

impl Script<Bbn> for Copier {
    fn step(&mut self, sys: &mut Sys<Bbn>, _: Pid) -> Step {
        let call_ns = sys.world.costs.call_ns;
        loop {
            match &mut self.at {
                CopyAt::User => {
                    let blocks = sys.world.pipes[self.from].blocks.len();
                    self.offset = (self.offset + BLOCK) % (blocks * BLOCK);
                    if self.offset == 0 {
                        sys.world.pipes[self.from].last_read = None;
                    }
                    self.at = CopyAt::Read(FileIo::new(self.from, false, self.offset, BLOCK));
                    return Step::User(sys.world.costs.user_ns);
                }
                CopyAt::Read(io) => {
                    if let Some(step) = io.step(sys) {
                        return step;
                    }
                    self.at = CopyAt::Between;
                    return Step::User(sys.world.costs.user_ns);
                }
                CopyAt::Between => {
                    self.at = CopyAt::Write(FileIo::new(self.to, true, self.offset, BLOCK));
                    return Step::Kernel(call_ns);
                }
                CopyAt::Write(io) => {
                    if let Some(step) = io.step(sys) {
                        return step;
                    }
                    self.at = CopyAt::User;
                }
            }
        }
    }
}
