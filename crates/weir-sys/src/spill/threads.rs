//! Transfers by threads, each in preadv(2) or pwritev(2).

use super::bell::Bell;
use super::file::Ahead;
use super::job::{Job, MOST_CALL_BYTES, Next};
use super::{Direction, Engine, MOST_IN_FLIGHT, Piece, SpillFile};
use crate::forks;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Calls that are under way at once.
const THREADS: usize = 4;

type Outcome = (u64, Result<(), Errno>);

/// What the threads and their master share.
#[derive(Debug)]
struct Shared {
    file: Arc<SpillFile>,
    bell: Bell,
    lists: Mutex<Lists>,
    /// Something is queued, or all is over.
    work: Condvar,
    most_call_bytes: usize,
}

#[derive(Debug)]
struct Lists {
    queued: VecDeque<Job>,
    done: Vec<Outcome>,
    is_over: bool,
}

/// Threads, and the transfers they are to do.
#[derive(Debug)]
pub(super) struct Threads {
    shared: Arc<Shared>,
    started: Vec<Job>,
    failed: Vec<Outcome>,
    /// What was done, on its way out; kept for its room.
    done: Vec<Outcome>,
    in_flight: usize,
    ahead: Ahead,
    workers: Vec<JoinHandle<()>>,
    epoch: u32,
}

impl Shared {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next transfer, once there is one; none when all is over.
    fn next(&self) -> Option<Job> {
        let idle = |lists: &mut Lists| !lists.is_over && lists.queued.is_empty();
        let lists = self.work.wait_while(self.lists(), idle);
        let mut lists = lists.unwrap_or_else(PoisonError::into_inner);
        if lists.is_over { None } else { lists.queued.pop_front() }
    }

    fn work(&self) {
        while let Some(mut job) = self.next() {
            let result = loop {
                let answer = self.call(&job);
                if let Next::Done(result) = job.answered(answer, &self.file) {
                    break result;
                }
            };
            self.lists().done.push((job.token, result));
            self.bell.ring();
        }
    }

    /// One call: bytes, or an error as a negative number.
    fn call(&self, job: &Job) -> i64 {
        let Some(file) = self.file.get().map(|file| file.as_raw_fd()) else {
            return -i64::from(libc::EBADF);
        };
        let (pieces, offset) = (job.call(self.most_call_bytes), job.offset as i64);
        let (start, count) = (pieces.as_ptr(), pieces.len() as i32);
        let answer = match job.direction {
            // SAFETY: `Engine::start` was promised that the pieces stay as they are until the
            // transfer is completed, which is after this.
            Direction::ToDisk => unsafe { libc::pwritev(file, start, count, offset) },
            // SAFETY: as above, and that nobody else reads them.
            Direction::FromDisk => unsafe { libc::preadv(file, start, count, offset) },
        };
        match answer {
            0.. => answer as i64,
            _ => -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
        }
    }
}

impl Threads {
    /// Threads for a file.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn new(file: Arc<SpillFile>) -> io::Result<Threads> {
        Threads::with_calls_of(MOST_CALL_BYTES, file)
    }

    /// The same with calls of no more than so many bytes.
    pub(super) fn with_calls_of(most: usize, file: Arc<SpillFile>) -> io::Result<Threads> {
        let lists = Lists {
            queued: VecDeque::with_capacity(MOST_IN_FLIGHT),
            done: Vec::with_capacity(MOST_IN_FLIGHT),
            is_over: false,
        };
        let ahead = Ahead::new(&file);
        let shared = Arc::new(Shared {
            file,
            bell: Bell::new()?,
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
            match crate::threads::start("weir-spill", move || shared.work()) {
                Ok(worker) => threads.workers.push(worker),
                Err(error) if threads.workers.is_empty() => return Err(error),
                // Fewer do as well.
                Err(_) => break,
            }
        }
        Ok(threads)
    }

    /// A forked child has none of the threads, and perhaps a lock that nobody will open.
    fn is_here(&self) -> bool {
        self.epoch == forks::epoch()
    }
}

impl Engine for Threads {
    // SAFETY: what the trait demands: the threads touch the pieces until `completed` says so.
    unsafe fn start(&mut self, token: u64, to: Direction, offset: u64, pieces: &[Piece]) -> bool {
        let has_room = self.is_here() && self.in_flight < MOST_IN_FLIGHT;
        let Some(job) = Job::new(token, to, offset, pieces).filter(|_| has_room) else {
            return false;
        };
        self.in_flight += 1;
        if to == Direction::ToDisk && !self.shared.file.may_reach(job.end()) {
            self.failed.push((token, Err(Errno::FBIG)));
            return true;
        }
        if to == Direction::ToDisk {
            let range = (offset, job.end());
            self.ahead.cover(&self.shared.file, range, self.in_flight - 1);
        }
        self.started.push(job);
        true
    }

    fn submit(&mut self) {
        if !self.is_here() {
            return;
        }
        if !self.failed.is_empty() {
            self.shared.bell.ring();
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
        self.shared.bell.clear();
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
        if !self.is_here() {
            std::mem::forget(std::mem::take(&mut self.workers));
            return;
        }
        self.shared.lists().is_over = true;
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}
