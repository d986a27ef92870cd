//! An engine that fails on demand: what tests put between themselves and a real one. The tests of
//! regions use it too.

#![allow(dead_code, reason = "the tests of each crate use a part")]

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_sys::spill::{MemoryPiece, SpillEngine, TransferDirection};

/// Decides, from any thread and while the engine works, what goes wrong.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    plan: Mutex<Plan>,
    /// Readable when the plan has changed.
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct Plan {
    started: [u64; 2],
    /// The errors of single transfers, by direction and number.
    single: Vec<(TransferDirection, u64, Errno)>,
    all: [Option<Errno>; 2],
    /// The numbers of writes that are reported as done and never reach the file.
    lost: Vec<u64>,
    holds: [bool; 2],
    /// So many of the first transfers are reported even if their direction is held.
    let_go: u64,
    held: usize,
    under_way: usize,
    begun: Vec<(TransferDirection, usize)>,
}

impl Shared {
    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

impl Faults {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the transfer of this direction fail that is started after `after` others from now on.
    pub fn fail_after(&self, after: u64, direction: TransferDirection, cause: Errno) {
        let mut plan = self.plan();
        let which = plan.started[direction as usize] + after;
        plan.single.push((direction, which, cause));
    }

    /// Reports the write that is started after `after` others from now on as done, and leaves the
    /// file as it is. Some kernels and devices do so.
    pub fn lose_after(&self, after: u64) {
        let mut plan = self.plan();
        let which = plan.started[TransferDirection::ToDisk as usize] + after;
        plan.lost.push(which);
    }

    /// Lets all transfers of this direction fail that are started from now on, or none.
    pub fn fail_all(&self, direction: TransferDirection, cause: Option<Errno>) {
        self.plan().all[direction as usize] = cause;
    }

    /// Holds back the completions of this direction, those under way included, or lets them go.
    pub fn hold(&self, direction: TransferDirection, holds: bool) {
        self.plan().holds[direction as usize] = holds;
        self.0.ring();
    }

    /// Lets the completion of the next transfer through, in the order they were started, even if
    /// its direction is held.
    pub fn let_one_go(&self) {
        self.plan().let_go += 1;
        self.0.ring();
    }

    /// Takes the list of transfers that were started since the last call, with their numbers of
    /// pieces.
    pub fn take_begun(&self) -> Vec<(TransferDirection, usize)> {
        std::mem::take(&mut self.plan().begun)
    }

    /// How many transfers of this direction were started.
    pub fn started(&self, direction: TransferDirection) -> u64 {
        self.plan().started[direction as usize]
    }

    /// How many transfers were started and not yet reported.
    pub fn under_way(&self) -> usize {
        self.plan().under_way
    }

    /// How many completions are held back.
    pub fn held(&self) -> usize {
        self.plan().held
    }
}

/// A transfer that was started.
#[derive(Clone, Copy, Debug)]
struct Under {
    token: u64,
    direction: TransferDirection,
    /// How many transfers were started before.
    which: u64,
}

/// An engine around another. A transfer that fails, or is lost, does not touch the file.
#[derive(Debug)]
pub struct Faulty {
    engine: Box<dyn SpillEngine>,
    faults: Faults,
    both: OwnedFd,
    under_way: Vec<Under>,
    done: Vec<(Under, Result<(), Errno>)>,
}

impl Faulty {
    /// Puts an engine that fails on demand around this one.
    pub fn new(engine: Box<dyn SpillEngine>) -> io::Result<(Faulty, Faults)> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for descriptor in [bell.as_fd(), engine.descriptor().ok_or(Errno::BADF)?] {
            epoll::add(&both, descriptor, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        let faults = Faults(Arc::new(Shared { plan: Mutex::default(), bell }));
        let told = faults.clone();
        Ok((Faulty { engine, faults, both, under_way: Vec::new(), done: Vec::new() }, told))
    }
}

impl SpillEngine for Faulty {
    // SAFETY: the caller's promise is passed on to the engine inside.
    unsafe fn start(
        &mut self,
        token: u64,
        to: TransferDirection,
        offset: u64,
        pieces: &[MemoryPiece],
    ) -> bool {
        if self.in_flight() >= self.most_in_flight() {
            return false;
        }
        let mut plan = self.faults.plan();
        let which = plan.started[to as usize];
        let single = plan.single.iter().find(|(at, nth, _)| (*at, *nth) == (to, which));
        let cause = single.map(|(_, _, cause)| *cause).or(plan.all[to as usize]);
        let under = Under { token, direction: to, which: plan.started.iter().sum() };
        let is_lost = to == TransferDirection::ToDisk && plan.lost.contains(&which);
        if let Some(cause) = cause {
            self.done.push((under, Err(cause)));
        } else if is_lost {
            self.done.push((under, Ok(())));
        // SAFETY: the caller's promise is passed on.
        } else if unsafe { self.engine.start(token, to, offset, pieces) } {
            self.under_way.push(under);
        } else {
            return false;
        }
        plan.started[to as usize] += 1;
        plan.under_way += 1;
        plan.begun.push((to, pieces.len()));
        true
    }

    fn submit(&mut self) {
        self.engine.submit();
        self.faults.0.ring();
    }

    fn completed(&mut self, each: &mut dyn FnMut(u64, Result<(), Errno>)) {
        let _ = rustix::io::read(&self.faults.0.bell, &mut [0; 8]);
        let (under_way, done) = (&mut self.under_way, &mut self.done);
        self.engine.completed(&mut |token, result| {
            if let Some(at) = under_way.iter().position(|under| under.token == token) {
                done.push((under_way.swap_remove(at), result));
            }
        });
        let (holds, let_go) = {
            let plan = self.faults.plan();
            (plan.holds, plan.let_go)
        };
        let may = |under: &Under| !holds[under.direction as usize] || under.which < let_go;
        let told: Vec<_> = self.done.extract_if(.., |(under, _)| may(under)).collect();
        let mut plan = self.faults.plan();
        plan.held = self.done.len();
        plan.under_way -= told.len();
        drop(plan);
        told.into_iter().for_each(|(under, result)| each(under.token, result));
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.engine.descriptor().map(|_| self.both.as_fd())
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight() + self.done.len()
    }

    fn most_in_flight(&self) -> usize {
        self.engine.most_in_flight()
    }

    fn name(&self) -> &'static str {
        self.engine.name()
    }
}
