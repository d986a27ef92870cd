//! The pool's state, and how the policy's actions are carried out.

use super::account::PoolAccount;
use super::wake::Wake;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Failure, Frames};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_policy::pool::{Action, PoolEvent, PoolPolicy, PoolSettings};

/// Whose time the policy is told.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's.
    Machine(Instant),
    /// One that a test sets, in nanoseconds.
    #[cfg_attr(not(test), expect(dead_code, reason = "of tests"))]
    Set(Arc<AtomicU64>),
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::Machine(Instant::now())
    }
}

impl Clock {
    fn now_ns(&self) -> u64 {
        match self {
            Clock::Machine(begun) => begun.elapsed().as_nanos() as u64,
            // Relaxed: a number.
            Clock::Set(now_ns) => now_ns.load(Ordering::Relaxed),
        }
    }
}

/// Where a pool is spilled to, and by what.
#[derive(Debug)]
pub struct Spill {
    pub directory: PathBuf,
    pub engine: String,
}

/// What both ends of a stream and the pool know of it.
#[derive(Debug)]
pub struct Shared {
    pub stream: u32,
    /// Bytes put.
    pub put: AtomicU64,
    /// Bytes taken.
    pub taken: AtomicU64,
    /// The writer has gone.
    pub ended: AtomicBool,
    /// The reader has gone.
    pub gone: AtomicBool,
    pub writer: Wake,
    pub reader: Wake,
}

impl Shared {
    pub fn new(stream: u32) -> Shared {
        Shared {
            stream,
            put: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            writer: Wake::default(),
            reader: Wake::default(),
        }
    }
}

/// A block that is the reader's.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    pub frame: u32,
    pub in_file: bool,
}

/// What the policy has answered a stream, and its ends have not yet taken.
#[derive(Debug, Default)]
pub struct Seat {
    pub shared: Option<Arc<Shared>>,
    pub granted: Option<u32>,
    pub shown: Option<Shown>,
    /// Why its block could not be read back, and where it lies if the file has lost it.
    pub failed: Option<(i32, u64)>,
    /// The writer has a frame.
    pub writes: bool,
    /// The trouble its writer was told of last.
    pub told: u64,
}

/// A transfer that the disk's thread is to begin.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub transfer: u32,
    pub of: weir_policy::pool::Transfer,
}

/// What is behind the lock.
#[derive(Debug)]
pub struct State {
    pub policy: PoolPolicy,
    pub seats: Vec<Seat>,
    pub jobs: VecDeque<Job>,
    /// Counts times that writing began to fail.
    pub troubles: u64,
    pub stopping: bool,
    /// The disk's thread sleeps, or is about to.
    pub idle: bool,
    /// Where in the file a block was found last that is not the one that was written.
    pub lost_at: u64,
}

/// The policy's word for a block that the file has lost. No error of the kernel has this number.
const LOST: i32 = i32::MIN;

impl State {
    /// What the policy is told of a failure.
    pub fn fault_of(&mut self, failure: Failure) -> i32 {
        match failure {
            Failure::Os(cause) => cause.raw_os_error(),
            Failure::Lost { offset } => {
                self.lost_at = offset;
                LOST
            }
        }
    }
}

/// A pool.
#[derive(Debug)]
pub struct Core {
    state: Mutex<State>,
    pub frames: Arc<Frames>,
    pub spill: Option<Spill>,
    clock: Clock,
    /// Rung for the disk's thread.
    kick: OwnedFd,
    put: AtomicU64,
    taken: AtomicU64,
}

impl Core {
    pub fn new(
        frames: Arc<Frames>,
        settings: PoolSettings,
        spill: Option<Spill>,
        clock: Clock,
    ) -> Result<Core> {
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|cause| Error::os("make", "a pool", cause))?;
        let most = settings.transfers as usize;
        let policy = PoolPolicy::new(settings).map_err(|_| {
            let blocks = settings.frames as usize + settings.slots as usize;
            Error::os("make", format!("the tables of a pool of {blocks} blocks"), Errno::NOMEM)
        })?;
        let state = State {
            policy,
            seats: Vec::new(),
            jobs: VecDeque::with_capacity(most),
            troubles: 0,
            stopping: false,
            idle: false,
            lost_at: 0,
        };
        let (put, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Core { state: Mutex::new(state), frames, spill, clock, kick, put, taken })
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to work in a forked child, where the lock may be held by nobody.
    pub fn check_here(&self, operation: &'static str) -> Result<()> {
        if self.frames.is_here() {
            return Ok(());
        }
        let why = "it belongs to the process this one was forked from";
        Err(Error::new(ErrorKind::Forked, operation, "the backlog", why))
    }

    /// Opens a stream.
    pub fn open(&self) -> u32 {
        let mut state = self.lock();
        let stream = state.policy.open(self.clock.now_ns());
        let seats = state.seats.len().max(stream as usize + 1);
        state.seats.resize_with(seats, Seat::default);
        state.seats[stream as usize] = Seat::default();
        stream
    }

    /// Says who is to be woken.
    pub fn seat(&self, stream: u32, shared: &Arc<Shared>) {
        self.lock().seats[stream as usize].shared = Some(shared.clone());
    }

    /// Tells the policy, and does what it says.
    pub fn on(&self, state: &mut State, event: PoolEvent) {
        state.policy.on(self.clock.now_ns(), event);
        let mut begun = false;
        while let Some(action) = state.policy.action() {
            begun |= self.act(state, action);
        }
        if begun && std::mem::take(&mut state.idle) {
            self.kick();
        }
    }

    /// Whether there is something for the disk.
    fn act(&self, state: &mut State, action: Action) -> bool {
        match action {
            Action::Grant { stream, frame } => {
                let seat = &mut state.seats[stream as usize];
                seat.granted = Some(frame);
                seat.shared.iter().for_each(|shared| shared.writer.wake());
            }
            Action::Show { stream, frame, in_file } => {
                let seat = &mut state.seats[stream as usize];
                seat.shown = Some(Shown { frame, in_file });
                seat.shared.iter().for_each(|shared| shared.reader.wake());
            }
            Action::Fail { stream, fault } => {
                let seat = &mut state.seats[stream as usize];
                seat.failed = Some((fault, state.lost_at));
                seat.shared.iter().for_each(|shared| shared.reader.wake());
            }
            Action::Trouble(_) => {
                state.troubles += 1;
                let seats = state.seats.iter().filter_map(|seat| seat.shared.as_ref());
                seats.for_each(|shared| shared.writer.wake());
            }
            Action::Begin(transfer) => {
                let of = *state.policy.transfer(transfer);
                state.jobs.push_back(Job { transfer, of });
                return true;
            }
        }
        false
    }

    /// Gives a stream up, once neither end can reach into it any more.
    pub fn close(&self, state: &mut State, shared: &Shared) {
        // Relaxed: both are set under the lock.
        let gone = shared.gone.load(Ordering::Relaxed);
        let ended = shared.ended.load(Ordering::Relaxed);
        let seat = &mut state.seats[shared.stream as usize];
        let ours = seat.shared.as_ref().is_some_and(|of| std::ptr::eq(of.as_ref(), shared));
        if !ours || !gone || (seat.writes && !ended) {
            return;
        }
        *seat = Seat::default();
        self.on(state, PoolEvent::Close(shared.stream));
    }

    /// Whether the stream is still this one's: its number is used again after it was closed.
    pub fn is_open(state: &State, shared: &Shared) -> bool {
        let of = state.seats[shared.stream as usize].shared.as_ref();
        of.is_some_and(|of| std::ptr::eq(of.as_ref(), shared))
    }

    /// Counts bytes that were put.
    pub fn count_put(&self, bytes: usize) {
        // Relaxed: a count.
        self.put.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that were taken.
    pub fn count_taken(&self, bytes: usize) {
        // Relaxed: a count.
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Nothing in a forked child, whose copy of the lock may never be opened.
    pub fn account(&self) -> PoolAccount {
        if !self.frames.is_here() {
            return PoolAccount::default();
        }
        let (counts, frames, slots) = {
            let state = self.lock();
            (state.policy.counts(), state.policy.frames_used(), state.policy.slots_used())
        };
        let bytes = |blocks: u64| blocks * self.frames.frame_bytes() as u64;
        PoolAccount {
            // Relaxed: counts.
            put_bytes: self.put.load(Ordering::Relaxed),
            taken_bytes: self.taken.load(Ordering::Relaxed),
            delayed_bytes: bytes(counts.delayed),
            cancelled_bytes: bytes(counts.cancelled),
            spilled_bytes: bytes(counts.spilled),
            read_back_bytes: bytes(counts.read_back),
            memory_bytes: bytes(frames.0.into()),
            most_memory_bytes: bytes(frames.1.into()),
            file_bytes: bytes(slots.0.into()),
            most_file_bytes: bytes(slots.1.into()),
        }
    }

    /// Bytes of one stream that were delayed, cancelled, spilled and read back, in whole frames.
    pub fn counts_of(&self, shared: &Shared) -> [u64; 4] {
        if !self.frames.is_here() {
            return [0; 4];
        }
        let state = self.lock();
        if !Core::is_open(&state, shared) {
            return [0; 4];
        }
        let counts = state.policy.stream_counts(shared.stream);
        let bytes = self.frames.frame_bytes() as u64;
        [counts.delayed, counts.cancelled, counts.spilled, counts.read_back].map(|n| n * bytes)
    }

    /// An error of reading back.
    pub fn read_error(&self, (fault, offset): (i32, u64)) -> Error {
        if fault != LOST {
            let cause = std::io::Error::from_raw_os_error(fault);
            return Error::os("read back", "the backlog", cause);
        }
        let directory = self.spill.as_ref().map(|spill| spill.directory.display().to_string());
        let (bytes, directory) = (self.frames.frame_bytes(), directory.unwrap_or_default());
        let why = format!(
            "the file in '{directory}' has lost what was written to it: the {bytes} bytes at \
             {offset} are others"
        );
        Error::new(ErrorKind::Corrupt, "read back", "the backlog", why)
    }

    /// An error of the file.
    pub fn spill_error(&self, fault: i32) -> Error {
        let directory = self.spill.as_ref().map(|spill| spill.directory.display().to_string());
        let cause = std::io::Error::from_raw_os_error(fault);
        Error::os("spill to", format!("'{}'", directory.unwrap_or_default()), cause)
    }

    /// Wakes the disk's thread.
    pub fn kick(&self) {
        let _ = rustix::io::write(&self.kick, &1_u64.to_ne_bytes());
    }

    /// What the disk's thread is woken by.
    pub fn kicked(&self) -> BorrowedFd<'_> {
        self.kick.as_fd()
    }

    /// How long until the policy is to be told that time has passed.
    pub fn deadline(&self, state: &State) -> Option<Duration> {
        let deadline_ns = state.policy.deadline_ns()?;
        Some(Duration::from_nanos(deadline_ns.saturating_sub(self.clock.now_ns()).max(1)))
    }

    /// Nobody uses the pool any more.
    pub fn stop(&self) {
        if self.frames.is_here() {
            self.lock().stopping = true;
            self.kick();
        }
    }
}
