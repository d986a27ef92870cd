//! Transfers by threads that call preadv(2) and pwritev(2).

use super::file::Ahead;
use super::job::{MOST_CALL_BYTES, Next, PendingTransfer};
use super::{MOST_IN_FLIGHT, MemoryPiece, SpillEngine, SpillFile, TransferDirection};
use crate::bell;
use crate::forks::{self, ParentOnly};
use crate::threads::OwnedThread;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

const THREADS: usize = 4;

type CompletedTransfer = (u64, Result<(), Errno>);

/// The state that the threads share with the engine.
#[derive(Debug)]
struct ThreadShared {
    file: Arc<SpillFile>,
    bell: ParentOnly,
    lists: Mutex<Lists>,
    /// Notified when a transfer is queued, and at the end.
    work: Condvar,
    most_call_bytes: usize,
}

#[derive(Debug)]
struct Lists {
    queued: VecDeque<PendingTransfer>,
    done: Vec<CompletedTransfer>,
    is_over: bool,
}

#[derive(Debug)]
pub(super) struct Threads {
    shared: Arc<ThreadShared>,
    started: Vec<PendingTransfer>,
    failed: Vec<CompletedTransfer>,
    /// Transfers on their way to `completed`; kept for its memory.
    done: Vec<CompletedTransfer>,
    in_flight: usize,
    ahead: Ahead,
    workers: Vec<OwnedThread>,
    epoch: u32,
}

impl ThreadShared {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<PendingTransfer> {
        let idle = |lists: &mut Lists| !lists.is_over && lists.queued.is_empty();
        let lists = self.work.wait_while(self.lists(), idle);
        let mut lists = lists.unwrap_or_else(PoisonError::into_inner);
        if lists.is_over { None } else { lists.queued.pop_front() }
    }

    fn work(&self) {
        // A signal that the program's own threads block would otherwise come to this one.
        crate::signals::block_all();
        while let Some(mut job) = self.next() {
            let result = loop {
                let answer = self.call(&job);
                if let Next::Done(result) = job.answered(answer, &self.file) {
                    break result;
                }
            };
            self.lists().done.push((job.token, result));
            bell::ring(self.bell.get());
        }
    }

    /// Makes one call: bytes, or an error as a negative number.
    fn call(&self, job: &PendingTransfer) -> i64 {
        let Some(file) = self.file.get().map(|file| file.as_raw_fd()) else {
            return -i64::from(libc::EBADF);
        };
        let (pieces, offset) = (job.call(self.most_call_bytes), job.offset as i64);
        let (start, count) = (pieces.as_ptr(), pieces.len() as i32);
        let answer = match job.direction {
            // SAFETY: `SpillEngine::start` was promised that the pieces stay mapped until the
            // transfer is completed, which is after this. Only the kernel reads them, so they may
            // change meanwhile.
            TransferDirection::ToDisk => unsafe { libc::pwritev(file, start, count, offset) },
            // SAFETY: as above, and that nobody else reads or writes them.
            TransferDirection::FromDisk => unsafe { libc::preadv(file, start, count, offset) },
        };
        match answer {
            0.. => answer as i64,
            _ => -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
        }
    }
}

impl Threads {
    /// Starts threads for a file.
    pub(super) fn new(file: Arc<SpillFile>) -> io::Result<Threads> {
        Threads::with_calls_of(MOST_CALL_BYTES, file)
    }

    /// Starts threads whose calls have at most `most` bytes.
    pub(super) fn with_calls_of(most: usize, file: Arc<SpillFile>) -> io::Result<Threads> {
        let lists = Lists {
            queued: VecDeque::with_capacity(MOST_IN_FLIGHT),
            done: Vec::with_capacity(MOST_IN_FLIGHT),
            is_over: false,
        };
        let ahead = Ahead::new(&file);
        let shared = Arc::new(ThreadShared {
            file,
            bell: bell::make_own()?,
            lists: Mutex::new(lists),
            work: Condvar::new(),
            most_call_bytes: most,
        });
        let mut threads = Threads {
            shared,
            started: Vec::with_capacity(MOST_IN_FLIGHT),
            failed: Vec::new(),
            done: Vec::with_capacity(MOST_IN_FLIGHT),
            in_flight: 0,
            ahead,
            workers: Vec::with_capacity(THREADS),
            epoch: forks::epoch(),
        };
        for _ in 0..THREADS {
            let shared = Arc::clone(&threads.shared);
            match OwnedThread::start("weir-spill", move || shared.work()) {
                Ok(worker) => threads.workers.push(worker),
                Err(error) if threads.workers.is_empty() => return Err(error),
                // Fewer threads are enough.
                Err(_) => break,
            }
        }
        Ok(threads)
    }

    /// Whether this is not a forked child, which has none of the threads, and may have a copy of the
    /// lock that stays locked.
    fn is_here(&self) -> bool {
        self.epoch == forks::epoch()
    }
}

impl SpillEngine for Threads {
    // SAFETY: as the trait demands. The threads touch the pieces until `completed` reports them.
    unsafe fn start(
        &mut self,
        token: u64,
        to: TransferDirection,
        offset: u64,
        pieces: &[MemoryPiece],
    ) -> bool {
        let has_room = self.is_here() && self.in_flight < MOST_IN_FLIGHT;
        let Some(job) = PendingTransfer::new(token, to, offset, pieces).filter(|_| has_room) else {
            return false;
        };
        if job.prepare(&self.shared.file, &mut self.ahead, self.in_flight) {
            self.started.push(job);
        } else {
            self.failed.push((token, Err(Errno::FBIG)));
        }
        self.in_flight += 1;
        true
    }

    fn submit(&mut self) {
        if !self.is_here() {
            return;
        }
        if !self.failed.is_empty() {
            bell::ring(self.shared.bell.get());
        }
        let count = self.started.len();
        self.shared.lists().queued.extend(self.started.drain(..));
        for _ in 0..count.min(THREADS) {
            self.shared.work.notify_one();
        }
    }

    fn completed(&mut self, each: &mut dyn FnMut(u64, Result<(), Errno>)) {
        if !self.is_here() {
            return;
        }
        bell::clear(self.shared.bell.get());
        std::mem::swap(&mut self.shared.lists().done, &mut self.done);
        for (token, result) in self.done.drain(..).chain(self.failed.drain(..)) {
            self.in_flight -= 1;
            each(token, result);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.shared.bell.get().filter(|_| self.is_here())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn name(&self) -> &'static str {
        "threads"
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let tell_all = || {
            self.shared.lists().is_over = true;
            self.shared.work.notify_all();
        };
        self.workers.iter_mut().for_each(|worker| worker.end(tell_all));
    }
}
