//! An engine that fails on demand: what tests put between themselves and a real one.

use crate::memory::Transfers;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_sys::spill::{
    EngineChoice as Wanted, MemoryPiece as Piece, SpillEngine as Engine,
    TransferDirection as Direction,
};

/// What is to go wrong; told while the engine is at work, from any thread.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    plan: Mutex<Plan>,
    /// Rung when there is something to tell.
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct Plan {
    started: [u64; 2],
    /// The errors of single transfers, by which of those started it is.
    single: Vec<(Direction, u64, Errno)>,
    all: [Option<Errno>; 2],
    /// Writes that are told as done and never reach the file, by which of those started they are.
    lost: Vec<u64>,
    holds: [bool; 2],
    /// The first of all that were started, which are told though their direction is held.
    let_go: u64,
    held: usize,
    begun: Vec<(Direction, usize)>,
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

    /// The transfer of this direction that is started after `after` others from now on fails.
    pub fn fail_after(&self, after: u64, direction: Direction, cause: Errno) {
        let mut plan = self.plan();
        let which = plan.started[direction as usize] + after;
        plan.single.push((direction, which, cause));
    }

    /// The write that is started after `after` others from now on is told as done, and the file
    /// stays as it was: what some kernels and devices do.
    pub fn lose_after(&self, after: u64) {
        let mut plan = self.plan();
        let which = plan.started[Direction::ToDisk as usize] + after;
        plan.lost.push(which);
    }

    /// All transfers of this direction that are started from now on fail, or none any more.
    pub fn fail_all(&self, direction: Direction, cause: Option<Errno>) {
        self.plan().all[direction as usize] = cause;
    }

    /// Whether transfers of this direction, those under way too, are said to be done or not yet.
    pub fn hold(&self, direction: Direction, holds: bool) {
        self.plan().holds[direction as usize] = holds;
        self.0.ring();
    }

    /// Says of the next transfer, in the order they were started, that it is done, once it is:
    /// though its direction is held.
    pub fn let_one_go(&self) {
        self.plan().let_go += 1;
        self.0.ring();
    }

    /// Takes the list of transfers that were started since it was taken last, with their pieces.
    pub fn take_begun(&self) -> Vec<(Direction, usize)> {
        std::mem::take(&mut self.plan().begun)
    }

    /// How many transfers of this direction were started.
    pub fn started(&self, direction: Direction) -> u64 {
        self.plan().started[direction as usize]
    }

    /// How many are done that nobody was told of.
    pub fn held(&self) -> usize {
        self.plan().held
    }
}

/// A transfer that was started.
#[derive(Clone, Copy, Debug)]
struct Under {
    token: u64,
    direction: Direction,
    /// How many were started before.
    which: u64,
}

/// An engine around another. A transfer that fails, or is lost, does not touch the file.
#[derive(Debug)]
pub struct Faulty {
    engine: Box<dyn Engine>,
    faults: Faults,
    both: OwnedFd,
    under_way: Vec<Under>,
    done: Vec<(Under, Result<(), Errno>)>,
}

impl Faulty {
    /// The best engine there is in this directory, inside of one that fails as it is told.
    pub fn open(directory: &Path) -> (Transfers, Faults) {
        let mut faults = None;
        let transfers = Transfers::open_as(directory, Wanted::Best).expect("opened");
        let transfers = transfers.map_engine(|engine| {
            let (engine, told) = Faulty::new(engine).expect("faulty");
            faults = Some(told);
            Box::new(engine)
        });
        (transfers, faults.expect("told"))
    }

    fn new(engine: Box<dyn Engine>) -> io::Result<(Faulty, Faults)> {
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

impl Engine for Faulty {
    // SAFETY: what the trait demands goes on to the engine inside.
    unsafe fn start(&mut self, token: u64, to: Direction, offset: u64, pieces: &[Piece]) -> bool {
        if self.in_flight() >= self.most_in_flight() {
            return false;
        }
        let mut plan = self.faults.plan();
        let which = plan.started[to as usize];
        let single = plan.single.iter().find(|(at, nth, _)| (*at, *nth) == (to, which));
        let cause = single.map(|(_, _, cause)| *cause).or(plan.all[to as usize]);
        let under = Under { token, direction: to, which: plan.started.iter().sum() };
        let is_lost = to == Direction::ToDisk && plan.lost.contains(&which);
        if let Some(cause) = cause {
            self.done.push((under, Err(cause)));
        } else if is_lost {
            self.done.push((under, Ok(())));
        // SAFETY: the caller's promise is handed on.
        } else if unsafe { self.engine.start(token, to, offset, pieces) } {
            self.under_way.push(under);
        } else {
            return false;
        }
        plan.started[to as usize] += 1;
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
        self.faults.plan().held = self.done.len();
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
