//! What both ends of both kinds of pipe share: the memory, the lifeline, waiting, waking.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{self, Extent, Map};
use crate::park::doorbell::Doorbell;
use crate::park::futex;
use crate::pipe::connection::{Connection, Role};
use crate::pipe::handle::{Half, Handle};
use crate::pipe::options::{Resolved, Waiting};
use rustix::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_policy::pipe::{Fencing, Peer, Shape, Slip, Spin, Wishes, Yielding};
use weir_ring::account::{Account, add};
use weir_ring::layout::{AccountLine, Header};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::{Area, Memory, sleep};
use weir_sys::forks::ParentOnly;

pub mod elastic;
mod fences;
mod tuning;

pub use tuning::say_shape;

/// Looks before the clock is read, or the CPU looked up: some times what a line takes to travel.
const QUICK_LOOKS: u32 = 250;
/// Looks between two readings of the clock.
const LOOKS: u32 = 16;
/// A writer looks so often whether there is room of less than a segment. Shorter than a tick of the
/// kernel's clock, the timer would cost more than the sleep.
pub const WRITER_SLICE: Duration = Duration::from_millis(20);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There is something to do.
    Ready,
    /// The other end is gone, and there is nothing to do.
    Gone,
    /// The time is over.
    TimedOut,
}

/// Until when a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Not at all.
    Now,
    /// As long as it takes.
    Ever,
    /// Until then.
    Then(Instant),
}

impl Until {
    /// So long from now.
    pub fn after(time: Duration) -> Until {
        Instant::now().checked_add(time).map_or(Until::Ever, Until::Then)
    }
}

/// One end of a pipe.
#[derive(Debug)]
pub struct End {
    pub map: Arc<Map>,
    pub life: Connection,
    pub shape: Shape,
    pub slip: Slip,
    pub dirties: bool,
    role: Role,
    /// None with the reader of many: it has descriptors for other things.
    file: Option<ParentOnly>,
    spin: Spin,
    yielding: Yielding,
    waiting: Waiting,
    shares_cpu: bool,
    fencing: Fencing,
    /// Whether the other end's barrier reaches this process.
    reached: bool,
    /// The number of the reader's trouble that was told last.
    trouble_seen: u32,
    tuning_seen: u32,
    wishes: Wishes,
    pub doorbell: Option<Doorbell>,
    /// A memory that came by the socket and is not yet used.
    pub arrived: Option<ParentOnly>,
    /// Records or calls since the end last ran dry.
    pub since_dry: u32,
}

/// Makes the memory of a pipe.
pub fn make_memory(kind: u32, resolved: &Resolved) -> Result<(ParentOnly, Arc<Map>)> {
    let capacity = resolved.shape.capacity_bytes();
    let arena_bytes = if kind == weir_ring::layout::STREAM { 0 } else { capacity };
    let (file, map) =
        memory::create(Extent { kind, ring_bytes: capacity, arena_bytes, generation: 0 })?;
    say_shape(map.header(), resolved.shape);
    Ok((file, Arc::new(map)))
}

impl End {
    /// An end over both halves of it, which were made or checked.
    pub fn of(half: Half, map: Arc<Map>, role: Role, resolved: &Resolved) -> Result<End> {
        let life = Connection::new(half.socket, role, &map)?;
        End::new(Some(half.memory), map, life, resolved)
    }

    /// An end over memory that was made or checked.
    pub fn new(
        file: Option<ParentOnly>,
        map: Arc<Map>,
        life: Connection,
        resolved: &Resolved,
    ) -> Result<End> {
        let mut end = End {
            shape: resolved.shape,
            slip: Slip::new(resolved.levers.slip_ns),
            dirties: resolved.levers.dirties,
            role: life.role(),
            file,
            spin: Spin::new(resolved.levers.wake_ns),
            yielding: Yielding::default(),
            waiting: resolved.waiting,
            shares_cpu: false,
            fencing: Fencing::default(),
            reached: false,
            trouble_seen: 0,
            tuning_seen: 0,
            wishes: Wishes::new(
                resolved.shape.capacity_bytes(),
                resolved.levers.capacity_bytes,
                resolved.most_bytes,
            ),
            doorbell: None,
            arrived: None,
            since_dry: 0,
            map,
            life,
        };
        end.take_up_tuning();
        end.say_wishes();
        end.give_back_fences();
        end.account_line().pid.store(std::process::id(), Ordering::Relaxed);
        end.say_cpu();
        Ok(end)
    }

    #[inline]
    pub fn header(&self) -> &Header {
        self.map.header()
    }

    #[inline]
    pub fn account_line(&self) -> &AccountLine {
        match self.role {
            Role::Writer => &self.header().writer_account,
            Role::Reader => &self.header().reader_account,
        }
    }

    /// The word this end sleeps on.
    pub fn sleep_word(&self) -> &AtomicU32 {
        &self.role.sleep(self.header()).word
    }

    pub fn account(&self) -> Account {
        Account::read(self.account_line())
    }

    /// Refuses to work in a forked child.
    #[inline]
    pub fn check_here(&self) -> Result<()> {
        if self.map.is_here() { Ok(()) } else { Err(self.elsewhere()) }
    }

    #[cold]
    fn elsewhere(&self) -> Error {
        let why = "it belongs to the process this one was forked from";
        self.error(ErrorKind::Forked, why)
    }

    pub fn error(&self, kind: ErrorKind, reason: &str) -> Error {
        let operation = if self.role == Role::Writer { "write to" } else { "read from" };
        Error::new(kind, operation, "the pipe", reason)
    }

    /// Whether the other end has closed or died. Whoever asks looks into the memory afterwards.
    #[inline]
    pub fn is_gone(&self) -> bool {
        // Acquire pairs with the release in `close`: what was published before is seen after.
        self.role.other().sleep(self.header()).closed.load(Ordering::Acquire) != 0
            || self.life.is_dead()
    }

    /// Whether the other end has closed, rather than died.
    pub fn other_has_closed(&self) -> bool {
        // Acquire: as in `is_gone`.
        self.role.other().sleep(self.header()).closed.load(Ordering::Acquire) != 0
    }

    /// Says to the other end on which CPU this one is.
    pub fn say_cpu(&self) {
        let cpu = rustix::thread::sched_getcpu() as u32 + 1;
        let word = &self.role.sleep(self.header()).cpu;
        if word.load(Ordering::Relaxed) != cpu {
            word.store(cpu, Ordering::Relaxed);
        }
    }

    pub fn peer(&self) -> Peer {
        let own = rustix::thread::sched_getcpu() as u32 + 1;
        let word = &self.role.sleep(self.header()).cpu;
        if word.load(Ordering::Relaxed) != own {
            word.store(own, Ordering::Relaxed);
        }
        match self.role.other().sleep(self.header()).cpu.load(Ordering::Relaxed) {
            0 => Peer::Unknown,
            other if other == own => Peer::SameCpu,
            _ => Peer::OtherCpu,
        }
    }

    /// After something was published: wakes the other end if it said that it waits, and `rule`
    /// says that it is time.
    #[inline]
    pub fn wake_other(&self, rule: impl FnOnce(&Header) -> bool) {
        let sleep = self.role.other().sleep(self.header());
        if sleep::is_wanted_lightly(sleep, self.reached) && rule(self.header()) {
            self.wake_now();
        }
    }

    #[cold]
    fn wake_now(&self) {
        let word = &self.role.other().sleep(self.header()).word;
        let how = sleep::take(word);
        if how != 0 {
            self.life.wake(word, how);
            add(&self.account_line().wakes_given, 1);
        }
    }

    /// Looks until `look` finds something, the other end is gone, or it takes too long to be worth
    /// it. `look` is told whether it should be content with little.
    #[inline]
    pub fn spin(&mut self, mut look: impl FnMut(&Map) -> Result<bool>) -> Result<bool> {
        let line = self.account_line();
        add(&line.waits, 1);
        // Where the other end needed this CPU the last time, looking only keeps it from it.
        let looks = if self.shares_cpu { 1 } else { QUICK_LOOKS };
        if self.waiting != Waiting::Sleep {
            for _ in 0..looks {
                if look(&self.map)? {
                    add(&self.account_line().spun, 1);
                    return Ok(true);
                }
            }
        }
        let peer = self.peer();
        self.shares_cpu = peer == Peer::SameCpu && self.waiting == Waiting::Adaptive;
        let budget_ns = match self.waiting {
            Waiting::Sleep => 0,
            Waiting::Adaptive => self.spin.budget_ns(peer),
            Waiting::Spin => u64::MAX,
        };
        if budget_ns == 0 {
            return self.give_way(&mut look);
        }
        let begun = Instant::now();
        let mut rounds = 0_u64;
        loop {
            for _ in 0..LOOKS {
                if look(&self.map)? {
                    self.spin.learn(true);
                    add(&self.account_line().spun, 1);
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            rounds += 1;
            let over = begun.elapsed().as_nanos() as u64 >= budget_ns;
            // Now and then: where the other end has come to this CPU, spinning keeps it from it.
            let pointless = rounds.is_multiple_of(64) && self.peer() == Peer::SameCpu;
            if over || self.is_gone() || (pointless && self.waiting != Waiting::Spin) {
                self.spin.learn(false);
                return Ok(false);
            }
        }
    }

    /// On the CPU of the other end: lets it run once, before sleeping.
    fn give_way(&mut self, look: &mut dyn FnMut(&Map) -> Result<bool>) -> Result<bool> {
        if !self.shares_cpu || !self.yielding.wants() {
            return Ok(false);
        }
        let begun = Instant::now();
        rustix::thread::sched_yield();
        let came = look(&self.map)?;
        self.yielding.learn(came, begun.elapsed().as_nanos() as u64);
        add(&self.account_line().spun, u64::from(came));
        Ok(came)
    }

    /// Sleeps until `look` finds something, by the protocol of [`sleep`].
    pub fn sleep(
        &mut self,
        until: Until,
        look: &mut dyn FnMut(&Map) -> Result<bool>,
    ) -> Result<Ended> {
        self.slip.on_pause();
        let slice = Some(WRITER_SLICE).filter(|_| self.role == Role::Writer);
        loop {
            let said = self.announce(sleep::ASLEEP);
            let word = &self.role.sleep(self.map.header()).word;
            let gone = self.is_gone();
            // Looked at after the end was: what it published before it went counts.
            if look(&self.map)? {
                sleep::retract(word, sleep::ASLEEP);
                return Ok(Ended::Ready);
            }
            let time = match until {
                Until::Ever => slice,
                Until::Now => Some(Duration::ZERO),
                Until::Then(then) => {
                    let left = then.saturating_duration_since(Instant::now());
                    Some(slice.map_or(left, |slice| slice.min(left)))
                }
            };
            if gone || time.is_some_and(|time| time.is_zero()) {
                sleep::retract(word, sleep::ASLEEP);
                return Ok(if gone { Ended::Gone } else { Ended::TimedOut });
            }
            let begun = Instant::now();
            self.life.falls_asleep();
            // Asked once more: from here on the watcher wakes until it is heard.
            let woken = !self.life.is_dead() && futex::wait(word, said, time);
            self.life.wakes_up();
            let line = self.account_line();
            add(&line.slept, 1);
            let slept_ns = begun.elapsed().as_nanos() as u64;
            self.spin.slept(slept_ns);
            let line = self.account_line();
            add(&line.slept_ns, slept_ns);
            add(&line.wakes_taken, u64::from(woken));
            sleep::retract(&self.role.sleep(self.map.header()).word, sleep::ASLEEP);
        }
    }

    /// For a `try_` call that found nothing, if the end is polled: makes the doorbell ring once
    /// there is something. The caller looks once more.
    pub fn arm(&mut self) {
        let Some(doorbell) = &self.doorbell else { return };
        doorbell.clear();
        if let Some(file) = self.life.take_bell() {
            self.arrived = Some(file);
        }
        self.announce(sleep::POLLING);
    }

    /// A streaming reader that has run dry lets the writer get ahead, where that pays.
    pub fn pause(&mut self, records: u32) {
        let ns = self.slip.on_dry(records);
        if ns == 0 || self.waiting == Waiting::Sleep {
            return;
        }
        let begun = Instant::now();
        while (begun.elapsed().as_nanos() as u64) < ns {
            std::hint::spin_loop();
        }
    }

    /// The memory that follows this one, which the writer says it has sent.
    pub fn next_memory(&mut self, kind: u32) -> Result<(ParentOnly, Arc<Map>, Shape)> {
        let file = self.arrived.take().or_else(|| self.life.take_messages());
        let wrong = |why: &str| self.error(ErrorKind::Corrupt, why);
        let file = file.ok_or_else(|| match self.life.is_broken() {
            true => wrong("its new memory is no file that can be sealed"),
            false => wrong("its new memory did not come"),
        })?;
        let map = crate::pipe::stream::open_kind(&file, kind)?;
        if map.extent().generation != self.map.extent().generation + 1 {
            return Err(wrong("its new memory is not the next"));
        }
        let capacity = map.extent().ring_bytes;
        let shape = Shape::new(memory::page_bytes(), capacity, None, None);
        Ok((file, map, shape.map_err(crate::pipe::options::out_of_range)?))
    }

    /// The memory's file.
    pub fn memory(&self) -> Result<BorrowedFd<'_>> {
        let file = self.file.as_ref().and_then(ParentOnly::get);
        file.ok_or_else(|| self.error(ErrorKind::Forked, "forked"))
    }

    /// Something was done: the descriptor is readable again until the next `WouldBlock`.
    #[inline]
    pub fn acted(&self) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring();
        }
    }

    /// The descriptor for poll and epoll.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_here()?;
        if self.doorbell.is_none() {
            let socket =
                self.life.socket().ok_or_else(|| self.error(ErrorKind::Forked, "forked"))?;
            self.doorbell = Some(Doorbell::new(socket)?);
        }
        match &self.doorbell {
            Some(doorbell) => Ok(doorbell.as_fd()),
            None => Err(self.error(ErrorKind::Os, "no descriptor")),
        }
    }

    /// Goes over to another memory, whose file this is.
    pub fn move_to(&mut self, file: ParentOnly, map: Arc<Map>, shape: Shape) -> Result<()> {
        self.file = Some(file);
        self.life.move_to(map.clone());
        let account = self.account();
        self.map = map;
        account.write(self.account_line());
        self.shape = shape;
        self.tuning_seen = 0;
        self.take_up_tuning();
        self.say_wishes();
        self.give_back_fences();
        self.account_line().pid.store(std::process::id(), Ordering::Relaxed);
        self.say_cpu();
        Ok(())
    }

    /// Says that this end goes, and wakes the other.
    pub fn close(&self) {
        if !self.map.is_here() {
            return;
        }
        // Release pairs with the acquire in `is_gone`.
        self.role.sleep(self.header()).closed.store(1, Ordering::Release);
        self.wake_other(|_| true);
    }

    /// The end as two descriptors, to be handed on. The caller has said its position.
    pub fn into_handle(mut self) -> Result<Handle> {
        self.check_here()?;
        self.give_back_fences();
        let End { life, mut file, role, map, .. } = self;
        drop(map);
        let forked = || Error::new(ErrorKind::Forked, "hand on", "an end", "forked meanwhile");
        let memory = file.as_mut().and_then(ParentOnly::take).ok_or_else(forked)?;
        let socket = life.into_socket().ok_or_else(forked)?;
        Ok(Handle::new(role, memory, socket))
    }

    /// Whether the area of large records is this large.
    pub fn arena_bytes(&self) -> u64 {
        self.map.bytes(Area::Arena)
    }
}
