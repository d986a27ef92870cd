//! Whether the processes of a run stand still: nothing is read or written, and nothing computes.
//! Why is found out as `weir why` does, in a thread beside: the run may go on or end meanwhile.

use super::left::{is_below, is_stray};
use crate::attribution::Sampler;
use crate::why::why;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use weir_doctor::backlog::{Activity, STILL_NS};
use weir_doctor::facts::Io;
use weir_doctor::stall::Stall;
use weir_doctor::why::{Cause, Why};
use weir_sys::Pid;
use weir_sys::proc::Sched;
use weir_sys::signals::block_all;

/// News of a stall.
#[derive(Debug)]
pub enum StallNews {
    /// Nothing has moved for the time after which that is told, and this is why.
    Begun(Duration, Box<Why>),
    /// Such a time is over.
    Over {
        /// How long it was, and why.
        stall: Box<Stall>,
        /// Whether something moved; else the run ended.
        went_on: bool,
    },
}

/// For how long an answer is true enough to be told: what the processes of the run wait for is the
/// same for as long as none of them runs, but others may have changed.
const FRESH_NS: u64 = 2_000_000_000;

/// What each process had used and moved; `None` where the kernel does not count what it moves.
type Counts = BTreeMap<Pid, (Sched, Option<Io>)>;

/// Looks whether anything moves.
#[derive(Debug, Default)]
pub(super) struct StallWatch {
    after: Option<Duration>,
    /// What was counted at the end of the last window, and when that was.
    last: (u64, Counts),
    /// Since when nothing has moved.
    since_ns: Option<u64>,
    asked: Option<Receiver<Option<Why>>>,
    /// Why nothing moves, and when that was found.
    answer: Option<(u64, Why)>,
    /// Whether it is decided whether to tell of the present stall.
    told: bool,
}

impl StallWatch {
    /// Tells of stalls that last this long; of none without it.
    pub fn new(after: Option<Duration>) -> StallWatch {
        StallWatch { after, ..StallWatch::default() }
    }

    /// Looks whether anything has moved since the last look. `first`: the process that is asked
    /// about; `left`: those that ended stages left running.
    pub fn sample(
        &mut self,
        now_ns: u64,
        sampler: &mut Sampler,
        first: Option<Pid>,
        left: &[Pid],
    ) -> Option<StallNews> {
        let after = self.after?;
        // As soon as it is there: the run may end before the next window does.
        if let Some(mut why) = self.asked.as_ref().and_then(|asked| asked.try_recv().ok()).flatten()
        {
            mark_left(&mut why, |pid| left.contains(&pid) || sampler.population.is_orphan(pid));
            (self.asked, self.answer) = (None, Some((now_ns, why)));
        }
        if now_ns < self.last.0.saturating_add(STILL_NS) {
            return None;
        }
        let before_ns = self.last.0;
        if !self.is_stuck(now_ns, sampler) {
            return self.end(before_ns, true);
        }
        let still = Duration::from_nanos(now_ns - *self.since_ns.get_or_insert(before_ns));
        let is_due = still >= after && !self.told;
        match &self.answer {
            Some((at_ns, why)) if is_due && now_ns - at_ns < FRESH_NS => {
                self.told = true;
                why.is_stall().then(|| StallNews::Begun(still, Box::new(why.clone())))
            }
            Some(_) if !is_due => None,
            _ => {
                self.asked = self.asked.take().or_else(|| first.and_then(ask));
                None
            }
        }
    }

    /// Whether nothing has moved since the last window.
    fn is_stuck(&mut self, now_ns: u64, sampler: &mut Sampler) -> bool {
        let wall_ns = now_ns - self.last.0;
        let mut counts = sampler.population.counts(false);
        // Bytes are read only of those that hardly computed.
        if activity(&self.last.1, &counts, wall_ns).is_still() {
            counts = sampler.population.counts(true);
        }
        let is_stuck = activity(&self.last.1, &counts, wall_ns).is_stuck();
        self.last = (now_ns, counts);
        is_stuck
    }

    /// Ends the present stall at this time; returns it if it is known what it was.
    pub fn end(&mut self, now_ns: u64, went_on: bool) -> Option<StallNews> {
        (self.asked, self.told) = (None, false);
        let (since_ns, answer) = (self.since_ns.take(), self.answer.take());
        let (_, why) = answer.filter(|(_, why)| why.is_stall())?;
        let stall = Box::new(Stall { lasted_ns: now_ns.saturating_sub(since_ns?), why });
        Some(StallNews::Over { stall, went_on })
    }
}

/// Asks in a thread why a process does not continue.
fn ask(pid: Pid) -> Option<Receiver<Option<Why>>> {
    let (sender, receiver) = channel();
    let ask = move || {
        // Those are for the thread that runs the job.
        block_all();
        // Nobody waits for it where something has moved meanwhile.
        let _ = sender.send(why(pid));
    };
    std::thread::Builder::new().spawn(ask).ok().map(|_| receiver)
}

/// Marks the processes of a chain that were left running: those that are known to be, and the strays
/// that have a pipe of the run open.
fn mark_left(why: &mut Why, is_known: impl Fn(Pid) -> bool) {
    // Whether the process before waits for a pipe that the run made.
    let mut has_pipe = false;
    for link in &mut why.links {
        let pid = link.named.pid;
        link.left |= is_known(pid) || (has_pipe && is_stray(pid));
        let is_pipe = matches!(&link.wait, Cause::Pipe(pipe) if pipe.path.is_none());
        has_pipe = is_pipe && (has_pipe || is_below(pid));
    }
}

/// Returns what processes did between two counts.
fn activity(before: &Counts, now: &Counts, wall_ns: u64) -> Activity {
    let same = before.len() == now.len() && before.keys().eq(now.keys());
    let pairs = before.values().zip(now.values());
    let used = pairs.clone().map(|((before, _), (now, _))| now.since(*before));
    let moved = pairs.map(|((old, before), (new, now))| {
        // What never ran has moved nothing.
        let ran = new.slices > old.slices;
        let total = |io: &Io| io.read_bytes + io.write_bytes + io.read_calls + io.write_calls;
        let counted = before.as_ref().zip(now.as_ref());
        if ran {
            counted.map(|(before, now)| total(now).saturating_sub(total(before)))
        } else {
            Some(0)
        }
    });
    Activity {
        wall_ns,
        cpu_ns: used.map(|used| used.cpu_ns).sum(),
        // A process that starts or ends is work too.
        moved: if same { moved.sum() } else { None },
        // What each waits for is asked once all stand still.
        waits: !now.is_empty(),
    }
}
