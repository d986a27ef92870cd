//! Transfers by io_uring.
//!
//! A transfer is prepared (in `waiting`), pushed into the ring's queue (in `pushed`), taken by the
//! kernel (counted in `taken`), and answered. Then it is done, or waits again for its rest.

use super::file::Ahead;
use super::job::{MOST_CALL_BYTES, Next, PendingTransfer};
use super::{MOST_IN_FLIGHT, MemoryPiece, SpillEngine, SpillFile, TransferDirection};
use crate::bell;
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
/// The time between two looks if the kernel does not let us wait.
const GLANCE: Duration = Duration::from_millis(1);

pub(super) struct Uring {
    ring: ManuallyDrop<IoUring>,
    /// The ring's descriptor. A child that kept it would keep the file's blocks allocated.
    descriptor: ParentOnly,
    bell: ParentOnly,
    file: Arc<SpillFile>,
    ahead: Ahead,
    /// Never moved, because the kernel reads the lists of pieces in them.
    jobs: Box<[Option<PendingTransfer>]>,
    free: Vec<usize>,
    waiting: VecDeque<usize>,
    pushed: VecDeque<usize>,
    taken: usize,
    failed: Vec<(usize, Errno)>,
    /// Why the kernel takes no transfers any more.
    broken: Option<Errno>,
    pub(super) most_call_bytes: usize,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Uring with {} in flight", self.in_flight())
    }
}

impl Uring {
    /// Makes a ring for a file.
    ///
    /// # Errors
    /// `ENOSYS` or `EPERM`: the kernel has no io_uring, or does not let us use it.
    pub(super) fn new(file: Arc<SpillFile>) -> io::Result<Uring> {
        let mut ring = IoUring::builder().dontfork().build(MOST_IN_FLIGHT as u32)?;
        let nothing = opcode::Nop::new().build();
        // SAFETY: a request without effect refers to no memory.
        let pushed = unsafe { ring.submission().push(&nothing) };
        pushed.map_err(|_| io::ErrorKind::InvalidData)?;
        // A sandbox may allow making rings but not using them.
        ring.submit_and_wait(1)?;
        ring.completion().for_each(drop);
        let bell = bell::make_own()?;
        ring.submitter().register_eventfd(bell.here()?.as_raw_fd())?;
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
            TransferDirection::ToDisk => {
                opcode::Writev::new(file, start, count).offset(job.offset).build()
            }
            TransferDirection::FromDisk => {
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

    /// Counts the transfers that the kernel has taken from the queue. It takes them in order.
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
        bell::ring(self.bell.get());
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

    /// Takes an answer of the kernel, if there is one: the transfer's slot, and what to do.
    fn answer(&mut self) -> Option<(usize, Next)> {
        let entry = self.ring.completion().next()?;
        self.taken = self.taken.saturating_sub(1);
        let slot = entry.user_data() as usize;
        let job = self.jobs.get_mut(slot)?.as_mut()?;
        Some((slot, job.answered(i64::from(entry.result()), &self.file)))
    }
}

impl SpillEngine for Uring {
    // SAFETY: as the trait demands. The kernel has the pieces until `completed` reports them.
    unsafe fn start(
        &mut self,
        token: u64,
        to: TransferDirection,
        offset: u64,
        pieces: &[MemoryPiece],
    ) -> bool {
        let Some(job) = PendingTransfer::new(token, to, offset, pieces).filter(|_| self.is_here())
        else {
            return false;
        };
        let Some(slot) = self.free.pop() else { return false };
        let others = self.in_flight() - 1;
        if job.prepare(&self.file, &mut self.ahead, others) {
            self.waiting.push_back(slot);
        } else {
            self.failed.push((slot, Errno::FBIG));
        }
        self.jobs[slot] = Some(job);
        true
    }

    fn submit(&mut self) {
        if !self.is_here() {
            return;
        }
        if !self.failed.is_empty() {
            bell::ring(self.bell.get());
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
                // The kernel lacks something now. The bell makes `completed` try again.
                None | Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => {
                    bell::ring(self.bell.get());
                    return;
                }
                Some(cause) => {
                    // The transfers that it did not take stay in the ring's queue, so it must never
                    // be asked to take anything again.
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
        bell::clear(self.bell.get());
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
            // SAFETY: this submits nothing and gives no argument.
            let waited = unsafe { self.ring.submitter().enter::<()>(0, 1, GET_EVENTS, None) };
            if waited.is_err() {
                // Interrupted, or forbidden by a filter that came later. Answers still come, and
                // the memory must not be freed before.
                std::thread::sleep(GLANCE);
            }
        }
        // The ring closes the descriptor.
        let _ = self.descriptor.take().map(OwnedFd::into_raw_fd);
        // SAFETY: the ring is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }
}
