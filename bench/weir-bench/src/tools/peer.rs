//! The other side of a case: a forked child that works towards a goal and reports when it has
//! reached it.

use super::futex::{sleep, wake};
use super::timed;
use crate::engine::case::{CaseError, Site};
use crate::sys::shared::{LINE_BYTES, SharedPages};
use rustix::io::retry_on_intr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_measure::sys::fork::{self, Child};
use weir_measure::sys::usage::Usage;

const GOAL: usize = 0;
/// Counts the goals that were set for a side that rests.
const SET: usize = 1;
const USER: usize = 2;
const SYSTEM: usize = 3;
const WORDS: usize = 4;
const THERE: u8 = b'.';
/// Round trips that are not timed: twice as many as a reader of weir's makes before its writer needs
/// no more fences, which is its slowest adjustment.
const WARM_TRIPS: u64 = 4096;
/// The most time for them, where a trip takes long.
const WARM_TIME: Duration = Duration::from_millis(1);

/// The other side, as the measuring side sees it.
#[derive(Debug)]
pub struct PeerProcess {
    control: SharedPages,
    reports: OwnedFd,
    goal: u64,
    child: Child,
}

/// The measuring side, as the other side sees it.
#[derive(Debug)]
pub struct Control<'a> {
    control: &'a SharedPages,
    reports: &'a OwnedFd,
}

impl PeerProcess {
    /// Starts the other side where the site puts it. An error of `body` reaches the measuring side
    /// at its next [`PeerProcess::wait`].
    pub fn start(
        site: &Site,
        body: impl FnOnce(&Control) -> Result<(), CaseError>,
    ) -> Result<PeerProcess, CaseError> {
        let control = SharedPages::new(WORDS * LINE_BYTES)?;
        let (reports, say) = rustix::pipe::pipe()?;
        let child = fork::child(|| {
            let seen = Control { control: &control, reports: &say };
            let result = site.go_there().and_then(|()| body(&seen));
            let Err(trouble) = result else { return 0 };
            let _ = rustix::io::write(&say, trouble.text.as_bytes());
            1
        })?;
        Ok(PeerProcess { control, reports, goal: 0, child })
    }

    /// Makes `count` round trips with the other side and returns the nanoseconds that they took.
    ///
    /// Some that are not timed go before them. They wake the other side, which slept since the last
    /// batch, and last until both sides have found their pace.
    pub fn trips(
        &mut self,
        count: u64,
        mut trip: impl FnMut() -> Result<(), CaseError>,
    ) -> Result<f64, CaseError> {
        let untimed = warm_up(&mut trip)?;
        self.more(untimed + count);
        let elapsed = timed(count, trip)?;
        self.wait()?;
        Ok(elapsed)
    }

    /// Raises the goal by `count`; the other side reports when it reaches it.
    pub fn more(&mut self, count: u64) {
        self.goal += count;
        // Release pairs with acquire in `goal`: all that was prepared before is visible.
        self.control.word(GOAL).store(self.goal, Ordering::Release);
    }

    /// As [`PeerProcess::more`], for another side that rests when it has reached a goal.
    pub fn rouse(&mut self, count: u64) -> Result<(), CaseError> {
        self.more(count);
        let set = self.control.half(SET);
        // Release pairs with acquire in `rest`: the new goal is visible.
        set.store(set.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        wake(set, 1)
    }

    /// Waits until the goal is reached; fails with the other side's error.
    pub fn wait(&self) -> Result<(), CaseError> {
        let mut said = [0; 512];
        let n = retry_on_intr(|| rustix::io::read(&self.reports, &mut said))?;
        match &said[..n] {
            [THERE, ..] => Ok(()),
            [] => Err(CaseError::failed("the other side died")),
            text => Err(CaseError::failed(String::from_utf8_lossy(text).into_owned())),
        }
    }

    /// Returns a descriptor that is readable when [`PeerProcess::wait`] would not block.
    pub fn reports(&self) -> &OwnedFd {
        &self.reports
    }

    /// Returns its process id.
    pub fn pid(&self) -> weir_sys::Pid {
        self.child.pid()
    }

    /// Returns the CPU time that the other side had used at its last report: `(user_ns,
    /// system_ns)`.
    pub fn cpu_ns(&self) -> (u64, u64) {
        let word = |line| self.control.word(line).load(Ordering::Acquire);
        (word(USER), word(SYSTEM))
    }
}

/// Makes the round trips that are not timed. Returns how many.
fn warm_up(mut trip: impl FnMut() -> Result<(), CaseError>) -> Result<u64, CaseError> {
    let (begun, mut trips) = (Instant::now(), 0);
    while trips < WARM_TRIPS && begun.elapsed() < WARM_TIME {
        trip()?;
        trips += 1;
    }
    Ok(trips)
}

impl Control<'_> {
    /// Returns the total number of operations asked for.
    pub fn goal(&self) -> u64 {
        self.control.word(GOAL).load(Ordering::Acquire)
    }

    /// Repeats `one` without end, and reports after each.
    #[inline]
    pub fn serve(&self, mut one: impl FnMut() -> Result<(), CaseError>) -> Result<(), CaseError> {
        let mut done = 0;
        loop {
            one()?;
            done += 1;
            self.report(done)?;
        }
    }

    /// Reports that the goal is reached, if `done` equals it.
    #[inline]
    pub fn report(&self, done: u64) -> Result<(), CaseError> {
        if done == self.goal() {
            rustix::io::write(self.reports, &[THERE])?;
        }
        Ok(())
    }

    /// Sleeps for as long as no more than `done` is asked for. A side that looks without end must do
    /// this, or it takes the CPU from the cases whose batches come between its own.
    pub fn rest(&self, done: u64) -> Result<(), CaseError> {
        let set = self.control.half(SET);
        loop {
            let seen = set.load(Ordering::Acquire);
            if self.goal() != done {
                return Ok(());
            }
            sleep(set, seen, None)?;
        }
    }

    /// As [`Control::report`], along with the CPU time that this side has used.
    pub fn report_with_usage(&self, done: u64) -> Result<(), CaseError> {
        if done == self.goal() {
            let usage = Usage::of_self();
            // Release pairs with acquire in `cpu_ns`, which is called after the report.
            self.control.word(USER).store(usage.user_ns, Ordering::Release);
            self.control.word(SYSTEM).store(usage.system_ns, Ordering::Release);
            rustix::io::write(self.reports, &[THERE])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_quick_trips_or_a_slow_one_are_not_timed() {
        let mut quick = 0;
        let untimed = warm_up(|| {
            quick += 1;
            Ok(())
        });
        assert_eq!(untimed.expect("no trip fails"), quick);
        assert!((1..=WARM_TRIPS).contains(&quick), "{quick}");
        let slow = || {
            let begun = Instant::now();
            while begun.elapsed() < WARM_TIME {}
            Ok(())
        };
        assert_eq!(warm_up(slow).expect("no trip fails"), 1);
        assert!(warm_up(|| Err(CaseError::failed("a wrong answer"))).is_err());
    }
}
