//! The pool's state. It tells the policy what happens and carries out the policy's actions.

use super::account::PoolAccount;
use super::lending::Lending;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Failure, Frames};
use crate::park::LocalSleep;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_policy::pool::{Action, PoolEvent, PoolPolicy, PoolSettings};
use weir_sys::bell;

/// The clock that the policy goes by.
#[derive(Clone, Debug)]
pub enum PoolClock {
    /// The machine's clock, from this moment on.
    Machine(Instant),
    /// A clock that a test sets, in nanoseconds.
    #[cfg_attr(not(test), expect(dead_code, reason = "of tests"))]
    Set(Arc<AtomicU64>),
}

impl Default for PoolClock {
    fn default() -> PoolClock {
        PoolClock::Machine(Instant::now())
    }
}

impl PoolClock {
    fn now_ns(&self) -> u64 {
        match self {
            PoolClock::Machine(begun) => begun.elapsed().as_nanos() as u64,
            // Relaxed: a number.
            PoolClock::Set(now_ns) => now_ns.load(Ordering::Relaxed),
        }
    }
}

/// The directory that a pool spills to, and the engine that moves the frames.
#[derive(Debug)]
pub struct Spill {
    pub directory: PathBuf,
    pub engine: String,
}

/// The state that both ends of a stream share with the pool.
#[derive(Debug)]
pub struct Backlog {
    /// Its number in the pool.
    pub stream: u32,
    /// Bytes that the writer put.
    pub put: AtomicU64,
    /// Bytes that the reader took.
    pub taken: AtomicU64,
    /// The writer was dropped.
    pub ended: AtomicBool,
    /// The reader was dropped.
    pub gone: AtomicBool,
    /// Where the writer sleeps.
    pub writer: LocalSleep,
    /// Where the reader sleeps.
    pub reader: LocalSleep,
}

impl Backlog {
    /// A stream of this number, without bytes.
    pub fn new(stream: u32) -> Backlog {
        Backlog {
            stream,
            put: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            writer: LocalSleep::default(),
            reader: LocalSleep::default(),
        }
    }
}

/// A block that the policy has shown to the reader.
#[derive(Clone, Copy, Debug)]
pub struct ShownBlock {
    pub frame: u32,
    pub in_file: bool,
}

/// The policy's answers to one stream that its ends have not yet taken.
#[derive(Debug, Default)]
pub struct Seat {
    pub shared: Option<Arc<Backlog>>,
    pub granted: Option<u32>,
    /// What the reader that is looking at this moment is shown.
    pub shown: Option<ShownBlock>,
    /// Why its block could not be read back, and the block's offset if the file lost it.
    pub failed: Option<(i32, u64)>,
    /// The writer holds a frame.
    pub writes: bool,
    /// The value of [`PoolState::troubles`] that its writer heard of last.
    pub reported: u64,
}

/// A transfer that the disk's thread must begin.
#[derive(Clone, Copy, Debug)]
pub struct TransferJob {
    pub transfer: u32,
    pub of: weir_policy::pool::Transfer,
}

/// The part of a pool that its lock protects.
#[derive(Debug)]
pub struct PoolState {
    pub policy: PoolPolicy,
    pub seats: Vec<Seat>,
    pub jobs: VecDeque<TransferJob>,
    /// How often writing to the file began to fail.
    pub troubles: u64,
    pub stopping: bool,
    /// The disk's thread sleeps, or is about to.
    pub idle: bool,
    /// The offset of the last block that came back from the file other than it was written.
    pub lost_at: u64,
}

/// The fault that stands for a block the file has lost. No error of the kernel has this number.
const LOST: i32 = i32::MIN;

impl PoolState {
    /// Turns a failure into the policy's number for it.
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

/// The part of a pool that its handles, its ends and its thread share.
#[derive(Debug)]
pub struct Core {
    state: Mutex<PoolState>,
    pub frames: Arc<Frames>,
    pub spill: Option<Spill>,
    clock: PoolClock,
    /// Wakes the disk's thread.
    kick: OwnedFd,
    pub put: AtomicU64,
    pub taken: AtomicU64,
    pub lending: Lending,
}

impl Core {
    pub fn new(
        frames: Arc<Frames>,
        settings: PoolSettings,
        spill: Option<Spill>,
        clock: PoolClock,
    ) -> Result<Core> {
        let kick = bell::make(0).map_err(|cause| Error::os("make", "a pool", cause))?;
        let most = settings.transfers as usize;
        let policy = PoolPolicy::new(settings).map_err(|_| {
            let blocks = settings.frames as usize + settings.slots as usize;
            Error::os("make", format!("the tables of a pool of {blocks} blocks"), Errno::NOMEM)
        })?;
        let state = PoolState {
            policy,
            seats: Vec::new(),
            jobs: VecDeque::with_capacity(most),
            troubles: 0,
            stopping: false,
            idle: false,
            lost_at: 0,
        };
        let (put, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        let lending = Lending::default();
        Ok(Core { state: Mutex::new(state), frames, spill, clock, kick, put, taken, lending })
    }

    pub fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to work in a forked child, where no thread may be left to release the lock.
    pub fn check_here(&self, operation: &'static str) -> Result<()> {
        if self.frames.is_here() {
            return Ok(());
        }
        Err(Error::forked(operation, "the backlog"))
    }

    pub fn open(&self) -> Arc<Backlog> {
        let mut state = self.lock();
        let stream = state.policy.open(self.clock.now_ns());
        let seats = state.seats.len().max(stream as usize + 1);
        state.seats.resize_with(seats, Seat::default);
        let shared = Arc::new(Backlog::new(stream));
        state.seats[stream as usize] = Seat { shared: Some(shared.clone()), ..Seat::default() };
        shared
    }

    /// Tells the policy of an event, and carries out its actions.
    pub fn on(&self, state: &mut PoolState, event: PoolEvent) {
        state.policy.on(self.clock.now_ns(), event);
        self.carry_out(state);
    }

    /// Changes the policy by something else than an event, and carries out its actions.
    pub fn change(&self, state: &mut PoolState, change: impl FnOnce(&mut PoolPolicy, u64)) {
        change(&mut state.policy, self.clock.now_ns());
        self.carry_out(state);
    }

    fn carry_out(&self, state: &mut PoolState) {
        let mut begun = false;
        while let Some(action) = state.policy.action() {
            begun |= self.act(state, action);
        }
        // The disk's thread tells the policy of the time as well.
        begun |= state.policy.reader_deadline_ns().is_some();
        if begun && std::mem::take(&mut state.idle) {
            self.kick();
        }
        if state.policy.wants_back() {
            self.lending.ask();
        }
    }

    /// Carries out one action: whether the disk's thread has something to do now.
    fn act(&self, state: &mut PoolState, action: Action) -> bool {
        match action {
            Action::Grant { stream, frame } => {
                let seat = &mut state.seats[stream as usize];
                seat.granted = Some(frame);
                seat.shared.iter().for_each(|shared| shared.writer.wake());
            }
            Action::Show { stream, frame, in_file } => {
                let seat = &mut state.seats[stream as usize];
                seat.shown = Some(ShownBlock { frame, in_file });
            }
            Action::Ready(stream) => {
                let seat = &state.seats[stream as usize];
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
                state.jobs.push_back(TransferJob { transfer, of });
                return true;
            }
        }
        false
    }

    /// Closes a stream once neither end can use it any more.
    pub fn close(&self, state: &mut PoolState, shared: &Backlog) {
        // Relaxed: both are set under the lock.
        let gone = shared.gone.load(Ordering::Relaxed);
        let ended = shared.ended.load(Ordering::Relaxed);
        let writes = state.seats[shared.stream as usize].writes;
        if !Core::is_open(state, shared) || !gone || (writes && !ended) {
            return;
        }
        state.seats[shared.stream as usize] = Seat::default();
        self.on(state, PoolEvent::Close(shared.stream));
    }

    /// Whether the stream's number still means this stream. After a close it is used again.
    pub fn is_open(state: &PoolState, shared: &Backlog) -> bool {
        let seated = state.seats[shared.stream as usize].shared.as_ref();
        seated.is_some_and(|seated| std::ptr::eq(seated.as_ref(), shared))
    }

    /// The account: empty in a forked child, whose copy of the lock may stay locked for ever.
    pub fn account(&self) -> PoolAccount {
        if !self.frames.is_here() {
            return PoolAccount::default();
        }
        let (counts, frames, slots, lent) = {
            let state = self.lock();
            let policy = &state.policy;
            (policy.counts(), policy.frames_used(), policy.slots_used(), policy.lent())
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
            lent_bytes: bytes(lent.into()),
            file_bytes: bytes(slots.0.into()),
            most_file_bytes: bytes(slots.1.into()),
        }
    }

    /// Counts the bytes of one stream that were delayed, cancelled, spilled and read back, in whole
    /// frames.
    pub fn counts_of(&self, shared: &Backlog) -> [u64; 4] {
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

    /// The error of a block that could not be read back.
    pub fn read_error(&self, (fault, offset): (i32, u64)) -> Error {
        if fault != LOST {
            let cause = std::io::Error::from_raw_os_error(fault);
            return Error::os("read back", "the backlog", cause);
        }
        let (bytes, directory) = (self.frames.frame_bytes(), self.directory());
        let why = format!(
            "the file in {directory} lost what was written to it: the {bytes} bytes at {offset} \
             differ"
        );
        Error::new(ErrorKind::Corrupt, "read back", "the backlog", why)
    }

    /// The error of a write to the file.
    pub fn spill_error(&self, fault: i32) -> Error {
        let cause = std::io::Error::from_raw_os_error(fault);
        Error::os("spill to", self.directory(), cause)
    }

    /// The directory of the file, in quotation marks.
    fn directory(&self) -> String {
        let spill = self.spill.as_ref();
        format!(
            "'{}'",
            spill.map(|spill| spill.directory.display().to_string()).unwrap_or_default()
        )
    }

    /// Wakes the disk's thread.
    pub fn kick(&self) {
        bell::ring(self.kick.as_fd());
    }

    /// The descriptor on which [`Core::kick`] wakes the disk's thread.
    pub fn kicked(&self) -> BorrowedFd<'_> {
        self.kick.as_fd()
    }

    /// How long until the policy must hear that time has passed.
    pub fn deadline(&self, state: &PoolState) -> Option<Duration> {
        let deadline_ns = state.policy.deadline_ns()?;
        Some(Duration::from_nanos(deadline_ns.saturating_sub(self.clock.now_ns()).max(1)))
    }

    /// Ends the disk's thread, since nobody uses the pool any more.
    pub fn stop(&self) {
        if self.frames.is_here() {
            self.lock().stopping = true;
            self.kick();
            self.lending.stop();
        }
    }
}
