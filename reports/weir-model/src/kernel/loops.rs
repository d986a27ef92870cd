//! A script that goes through the same steps again and again.

use super::{Pid, Script, Step, Sys, WaitChannel, World};

/// A step of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopStep {
    /// A step of the process.
    Do(Step),
    /// It sleeps on a channel unless it was woken since it last slept there.
    Wait(WaitChannel),
    /// It wakes a channel, and notes that for one who will only wait.
    Wake(WaitChannel),
}

/// Flags for [`Loop`]s: event flags that are set or not.
#[derive(Clone, Debug, Default)]
pub struct Flags(pub Vec<bool>);

impl World for Flags {
    type Event = ();

    fn on(_: &mut Sys<Flags>, (): ()) -> u64 {
        0
    }
}

/// The script.
#[derive(Clone, Debug)]
pub struct Loop {
    steps: Vec<LoopStep>,
    at: usize,
    left: u64,
}

impl Loop {
    /// Makes a script that goes through the steps so often.
    pub fn new(steps: Vec<LoopStep>, times: u64) -> Loop {
        Loop { steps, at: 0, left: times }
    }
}

impl Script<Flags> for Loop {
    fn step(&mut self, sys: &mut Sys<Flags>, _: Pid) -> Step {
        loop {
            if self.at == self.steps.len() {
                self.at = 0;
                self.left = self.left.saturating_sub(1);
            }
            if self.left == 0 || self.steps.is_empty() {
                return Step::Exit;
            }
            let step = self.steps[self.at];
            self.at += 1;
            match step {
                LoopStep::Do(step) => return step,
                LoopStep::Wake(channel) => {
                    sys.world.0[channel as usize] = true;
                    sys.wake(channel);
                }
                LoopStep::Wait(channel) => {
                    if !std::mem::take(&mut sys.world.0[channel as usize]) {
                        self.at -= 1;
                        return Step::Sleep(channel, 1);
                    }
                }
            }
        }
    }
}
