//! The scripts: a task of a stage, and a process that has nothing to do with the pipeline.

use super::plan::Stage;
use super::{Flow, PAGE, bytes, room, timer};
use crate::kernel::{Pid, Script, Step, Sys};

#[derive(Clone, Copy, Debug)]
enum State {
    Take,
    /// Bytes that were taken: waits come first.
    Wait(f64),
    Compute(f64),
    Computed(f64),
    Write(f64),
    /// The input has ended.
    Ended,
    /// Bytes of output that are left of a stage that writes at the end.
    Emit(f64),
    Close,
}

/// Less than half a byte is none. In a pipe of a page it would keep a writer waiting for the page, and
/// its reader for a byte, both for ever.
fn whole(bytes: f64) -> f64 {
    if bytes < 0.5 { 0.0 } else { bytes }
}

/// A task of a stage.
pub(super) struct Worker {
    of: Stage,
    number: usize,
    at: State,
    /// Bytes of output that were made and not written.
    made: f64,
    /// Bytes that are to be written at the end.
    rest: f64,
    emits: bool,
    asleep: Option<(usize, u64)>,
}

impl Worker {
    pub(super) fn new(of: &Stage, number: usize) -> Worker {
        Worker {
            of: of.clone(),
            number,
            at: State::Take,
            made: 0.0,
            rest: 0.0,
            emits: false,
            asleep: None,
        }
    }

    fn sleep(&mut self, sys: &Sys<Flow>, output: bool, channel: u64) -> Step {
        self.asleep = Some((usize::from(output), sys.now_ns));
        Step::Sleep(channel, 0)
    }

    fn spend(&self, sys: &mut Sys<Flow>, woken: usize) -> Step {
        let ns = sys.world.costs.call_ns + woken as u64 * sys.world.costs.wake_ns;
        sys.world.stages[self.number].overhead_ns += ns;
        Step::Kernel(ns)
    }

    /// Takes bytes from the input, or from what is left to do.
    fn take(&mut self, sys: &mut Sys<Flow>) -> Option<Step> {
        if self.of.output.is_some_and(|pipe| sys.world.pipes[pipe].gone) {
            self.at = State::Close;
            return None;
        }
        let Some(number) = self.of.input else {
            let left = &mut sys.world.stages[self.number].left;
            let taken = left.min(self.of.read);
            *left -= taken;
            self.at = if taken > 0.0 { State::Wait(taken) } else { State::Ended };
            return None;
        };
        let pipe = &mut sys.world.pipes[number];
        if pipe.fill == 0.0 {
            if pipe.closed {
                self.at = State::Ended;
                return None;
            }
            return Some(self.sleep(sys, false, bytes(number)));
        }
        let taken = pipe.fill.min(self.of.read);
        let was_full = pipe.capacity - pipe.fill < PAGE;
        pipe.fill = whole(pipe.fill - taken);
        self.at = State::Wait(taken);
        let woken = if was_full { sys.wake(room(number)) } else { 0 };
        Some(self.spend(sys, woken))
    }

    /// What follows a write.
    fn next(&self) -> State {
        if self.emits { State::Emit(self.rest) } else { State::Take }
    }

    /// Writes what fits.
    fn write(&mut self, sys: &mut Sys<Flow>, left: f64) -> Option<Step> {
        let Some(number) = self.of.output else {
            self.at = self.next();
            return None;
        };
        let pipe = &mut sys.world.pipes[number];
        if pipe.gone {
            self.at = State::Close;
            return None;
        }
        let free = pipe.capacity - pipe.fill;
        if free < left.min(PAGE) {
            return Some(self.sleep(sys, true, room(number)));
        }
        let written = free.min(left);
        let was_empty = pipe.fill == 0.0;
        pipe.fill += written;
        let left = whole(left - written);
        self.at = match left > 0.0 {
            true => State::Write(left),
            false => self.next(),
        };
        let woken = if was_empty { sys.wake(bytes(number)) } else { 0 };
        Some(self.spend(sys, woken))
    }

    /// The input has ended: the last task of a stage writes what is left.
    fn ended(&mut self, sys: &mut Sys<Flow>) -> Option<Step> {
        let progress = &mut sys.world.stages[self.number];
        progress.reading -= 1;
        let is_last = progress.reading == 0;
        let Some(_) = self.of.barrier else {
            self.at = State::Close;
            // What was made and not written goes out before the end.
            if self.made >= 1.0 && self.of.output.is_some() {
                let made = std::mem::take(&mut self.made);
                progress.reading += 1;
                self.at = State::Write(made);
            }
            return None;
        };
        self.at = State::Close;
        if is_last {
            self.rest = self.of.todo * self.of.gain;
            self.emits = true;
            self.at = State::Emit(self.rest);
        }
        None
    }

    fn close(&mut self, sys: &mut Sys<Flow>) -> Step {
        let progress = &mut sys.world.stages[self.number];
        progress.alive -= 1;
        if progress.alive == 0 {
            if let Some(pipe) = self.of.output {
                sys.world.pipes[pipe].closed = true;
                sys.wake(bytes(pipe));
            }
            if let Some(pipe) = self.of.input {
                sys.world.pipes[pipe].gone = true;
                sys.wake(room(pipe));
            }
        }
        Step::Exit
    }

    /// Computes for a part of the output that comes at the end.
    fn emit(&mut self, left: f64) -> Step {
        let (_, out_ns) = self.of.barrier.unwrap_or_default();
        let part = left.min(self.of.write);
        self.rest = left - part;
        self.at = if part > 0.0 { State::Write(part) } else { State::Close };
        Step::User((part * out_ns) as u64)
    }
}

impl Script<Flow> for Worker {
    fn step(&mut self, sys: &mut Sys<Flow>, me: Pid) -> Step {
        if let Some((kind, since_ns)) = self.asleep.take() {
            sys.world.stages[self.number].asleep_ns[kind] += sys.now_ns - since_ns;
        }
        loop {
            match self.at {
                State::Take => {
                    if let Some(step) = self.take(sys) {
                        return step;
                    }
                }
                State::Wait(taken) => {
                    self.at = State::Compute(taken);
                    let wait_ns = (taken * self.of.wait_ns) as u64;
                    if wait_ns > 0 {
                        sys.after(wait_ns, timer(me));
                        return Step::Sleep(timer(me), 0);
                    }
                }
                State::Compute(taken) => {
                    self.at = State::Computed(taken);
                    return Step::User((taken * self.of.byte_ns) as u64);
                }
                State::Computed(taken) => {
                    self.at = State::Take;
                    if self.of.barrier.is_none() {
                        self.made += taken * self.of.gain;
                        if self.made >= self.of.write && self.of.output.is_some() {
                            self.at = State::Write(std::mem::take(&mut self.made));
                        }
                    }
                }
                State::Write(left) => {
                    if let Some(step) = self.write(sys, left) {
                        return step;
                    }
                }
                State::Ended => {
                    // The tasks divide what comes between the last byte of input and the first of
                    // output.
                    let middle_ns = self.of.barrier.as_mut().map_or(0.0, |(middle_ns, _)| {
                        std::mem::take(middle_ns) / self.of.workers as f64
                    });
                    if middle_ns >= 1.0 {
                        return Step::User(middle_ns as u64);
                    }
                    if let Some(step) = self.ended(sys) {
                        return step;
                    }
                }
                State::Emit(left) => return self.emit(left),
                State::Close => return self.close(sys),
            }
        }
    }
}

/// A process beside the pipeline: it computes, and sleeps, in turn.
pub(super) struct Hog {
    share: f64,
    computes: bool,
}

const TURN_NS: f64 = 4e6;

impl Hog {
    pub(super) fn new(share: f64) -> Hog {
        Hog { share: share.min(1.0), computes: false }
    }
}

impl Script<Flow> for Hog {
    fn step(&mut self, sys: &mut Sys<Flow>, me: Pid) -> Step {
        self.computes = !self.computes;
        if self.computes {
            return Step::User((TURN_NS * self.share) as u64 + 1);
        }
        sys.after((TURN_NS * (1.0 - self.share)) as u64 + 1, timer(me));
        Step::Sleep(timer(me), 0)
    }
}
