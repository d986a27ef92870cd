//! Transfers by io_uring.
//!
//! A transfer is started (in `waiting`), pushed into the ring's queue (in `pushed`), taken by the
//! kernel (counted in `taken`), and answered: then it is done, or waits again for its rest.

use super::bell::Bell;
use super::file::Ahead;
use super::job::{Job, MOST_CALL_BYTES, Next};
use super::{Direction, Engine, MOST_IN_FLIGHT, Piece, SpillFile};
use crate::forks::ParentOnly;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

/// `IORING_ENTER_GETEVENTS` of linux/io_uring.h: wait for answers.
const GET_EVENTS: u32 = 1;
/// How long to wait before looking again where the kernel does not let us wait.
const GLANCE: Duration = Duration::from_millis(1);

/// A ring, and the transfers in it.
pub(super) struct Uring {
    ring: ManuallyDrop<IoUring>,
    /// The ring's descriptor, which a child must not keep: it would keep the file's blocks.
    descriptor: ParentOnly,
    bell: Bell,
    file: Arc<SpillFile>,
    ahead: Ahead,
    /// Never moved: the kernel reads the pieces of those it was handed.
    jobs: Box<[Option<Job>]>,
    free: Vec<usize>,
    waiting: VecDeque<usize>,
    pushed: VecDeque<usize>,
    taken: usize,
    failed: Vec<(usize, Errno)>,
    /// Why the kernel takes nothing any more.
    broken: Option<Errno>,
    pub(super) most_call_bytes: usize,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Uring with {} in flight", self.in_flight())
    }
}

impl Uring {
    /// A ring for a file.
    ///
    /// # Errors
    /// `ENOSYS` or `EPERM` where the kernel has none or does not let us.
    pub(super) fn new(file: Arc<SpillFile>) -> io::Result<Uring> {
        let mut ring = IoUring::builder().dontfork().build(MOST_IN_FLIGHT as u32)?;
        let nothing = opcode::Nop::new().build();
        // SAFETY: a request that does nothing refers to no memory.
        let pushed = unsafe { ring.submission().push(&nothing) };
        pushed.map_err(|_| io::ErrorKind::InvalidData)?;
        // A sandbox may let rings be made and not used.
        ring.submit_and_wait(1)?;
        ring.completion().for_each(drop);
        let bell = Bell::new()?;
        let number = bell.get().map(|bell| bell.as_raw_fd()).ok_or(Errno::BADF)?;
        ring.submitter().register_eventfd(number)?;
        // SAFETY: the ring stays with its descriptor until `drop`, which takes it back first.
        let descriptor = unsafe { OwnedFd::from_raw_fd(ring.as_raw_fd()) };
        let ring = ManuallyDrop::new(ring);
        Ok(Uring {
            ring,
            descriptor: ParentOnly::new(descriptor)?,
            bell,
            ahead: Ahead::new(&file),
            file,
            jobs: vec![None; MOST_IN_FLIGHT].into(),
            free: (0..MOST_IN_FLIGHT).rev().collect(),
            waiting: VecDeque::with_capacity(MOST_IN_FLIGHT),
            pushed: VecDeque::with_capacity(MOST_IN_FLIGHT),
            taken: 0,
            failed: Vec::with_capacity(MOST_IN_FLIGHT),
            broken: None,
            most_call_bytes: MOST_CALL_BYTES,
        })
    }

    fn is_here(&self) -> bool {
        self.descriptor.get().is_some()
    }

    fn entry(&self, slot: usize) -> Option<squeue::Entry> {
        let job = self.jobs.get(slot)?.as_ref()?;
        let file = types::Fd(self.file.get()?.as_raw_fd());
        let call = job.call(self.most_call_bytes);
        let (start, count) = (call.as_ptr(), call.len() as u32);
        let entry = match job.direction {
            Direction::ToDisk => opcode::Writev::new(file, start, count).offset(job.offset).build(),
            Direction::FromDisk => {
                opcode::Readv::new(file, start, count).offset(job.offset).build()
            }
        };
        Some(entry.user_data(slot as u64))
    }

    fn push_waiting(&mut self) {
        while let Some(slot) = self.waiting.pop_front() {
            let Some(entry) = self.entry(slot) else { continue };
            // SAFETY: the pieces are valid until the transfer is answered, which `start` was
            // promised; their list is in `jobs`, which outlives that too.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                self.waiting.push_front(slot);
                return;
            }
            self.pushed.push_back(slot);
        }
    }

    /// The kernel takes in order: what has left the queue it has.
    fn count_taken(&mut self) {
        let left = self.ring.submission().len();
        while self.pushed.len() > left {
            self.pushed.pop_front();
            self.taken += 1;
        }
    }

    fn fail_all(&mut self, cause: Errno) {
        let slots = self.pushed.drain(..).chain(self.waiting.drain(..));
        self.failed.extend(slots.map(|slot| (slot, cause)));
        self.bell.ring();
    }

    fn finish(
        &mut self,
        slot: usize,
        result: Result<(), Errno>,
        each: &mut dyn FnMut(u64, Result<(), Errno>),
    ) {
        if let Some(job) = self.jobs[slot].take() {
            self.free.push(slot);
            each(job.token, result);
        }
    }

    /// Takes an answer of the kernel, if there is one: which transfer it is of, and what to do.
    fn answer(&mut self) -> Option<(usize, Next)> {
        let entry = self.ring.completion().next()?;
        self.taken = self.taken.saturating_sub(1);
        let slot = entry.user_data() as usize;
        let job = self.jobs.get_mut(slot)?.as_mut()?;
        Some((slot, job.answered(i64::from(entry.result()), &self.file)))
    }
}

impl Engine for Uring {
    // SAFETY: what the trait demands: the kernel has the pieces until `completed` says so.
    unsafe fn start(&mut self, token: u64, to: Direction, offset: u64, pieces: &[Piece]) -> bool {
        let Some(job) = Job::new(token, to, offset, pieces).filter(|_| self.is_here()) else {
            return false;
        };
        let Some(slot) = self.free.pop() else { return false };
        if to == Direction::ToDisk && !self.file.may_reach(job.end()) {
            self.failed.push((slot, Errno::FBIG));
        } else {
            if to == Direction::ToDisk {
                let others = self.jobs.len() - self.free.len() - 1;
                self.ahead.cover(&self.file, (offset, job.end()), others);
            }
            self.waiting.push_back(slot);
        }
        self.jobs[slot] = Some(job);
        true
    }

    fn submit(&mut self) {
        if !self.is_here() {
            return;
        }
        if !self.failed.is_empty() {
            self.bell.ring();
        }
        if let Some(cause) = self.broken {
            return self.fail_all(cause);
        }
        self.push_waiting();
        while !self.pushed.is_empty() {
            let before = self.pushed.len();
            let outcome = self.ring.submit();
            self.count_taken();
            let cause = outcome.err().and_then(|error| Errno::from_io_error(&error));
            match cause {
                Some(Errno::INTR) => {}
                None if self.pushed.len() < before => {}
                // The kernel lacks something just now: whoever looks for answers tries again.
                None | Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => {
                    self.bell.ring();
                    return;
                }
                Some(cause) => {
                    // What it did not take stays in the ring's queue: it must never be asked to
                    // take anything again.
                    self.broken = Some(cause);
                    return self.fail_all(cause);
                }
            }
        }
    }

    fn completed(&mut self, each: &mut dyn FnMut(u64, Result<(), Errno>)) {
        if !self.is_here() {
            return;
        }
        self.bell.clear();
        while let Some((slot, next)) = self.answer() {
            match next {
                Next::GoOn => self.waiting.push_back(slot),
                Next::Done(result) => self.finish(slot, result, each),
            }
        }
        if !(self.waiting.is_empty() && self.pushed.is_empty()) {
            self.submit();
        }
        while let Some((slot, cause)) = self.failed.pop() {
            self.finish(slot, Err(cause), each);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.bell.get()
    }

    fn in_flight(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if !self.is_here() {
            // The child has neither the mappings of the ring nor its descriptor.
            return;
        }
        while self.taken > 0 {
            while self.answer().is_some() {}
            if self.taken == 0 {
                break;
            }
            // SAFETY: nothing is handed over, and no argument is given.
            let waited = unsafe { self.ring.submitter().enter::<()>(0, 1, GET_EVENTS, None) };
            if waited.is_err() {
                // Interrupted, or a filter that came later forbids it. The answers come all the
                // same, and nobody may have the memory before.
                std::thread::sleep(GLANCE);
            }
        }
        // The ring closes it.
        let _ = self.descriptor.take().map(OwnedFd::into_raw_fd);
        // SAFETY: it is not used any more.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }
}
