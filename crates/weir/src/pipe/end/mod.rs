//! What both ends of both kinds of pipe share: the memory, the lifeline, waiting, waking.

use crate::error::{Error, ErrorKind, Result, Text};
use crate::memory::{self, Map};
use crate::park::doorbell::Doorbell;
use crate::park::{Parked, Spinner, Until, Waiting, barrier, peer_of};
use crate::pipe::claim::Claim;
use crate::pipe::connection::{Connection, Role};
use crate::pipe::defaults::out_of_range;
use crate::pipe::handle::{Half, Handle};
use crate::pipe::options::Resolved;
use crate::pipe::storage::open_kind;
use rustix::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_policy::pipe::{Backoff, CapacityWishes, Fencing, PeerCpu, PipeShape};
use weir_ring::account::{self, Account, add};
use weir_ring::layout::{AccountLine, PipeHeader};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::{Area, RingMemory, sleep};
use weir_sys::forks::ParentOnly;

pub mod drain;
mod fences;
mod tuning;

/// A writer looks so often whether there is room of less than a segment. Shorter than a tick of the
/// kernel's clock, the timer would cost more than the sleep.
pub const WRITER_SLICE: Duration = Duration::from_millis(20);

/// Calls of a writer between two looks at what was asked for from outside, and at the CPU.
const LOOK_EVERY: u32 = 256;

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

/// One end of a pipe.
#[derive(Debug)]
pub struct End {
    pub map: Arc<Map>,
    pub life: Connection,
    pub shape: PipeShape,
    pub backoff: Backoff,
    pub dirties: bool,
    role: Role,
    /// None with the reader of many: it has descriptors for other things.
    file: Option<ParentOnly>,
    /// None likewise: its rings are sealed, so that none comes twice.
    claim: Option<Claim>,
    spinner: Spinner,
    fencing: Fencing,
    /// Whether the other end's barrier reaches this process.
    reached: bool,
    /// The number of the reader's trouble that was told last.
    trouble_seen: u32,
    tuning_seen: u32,
    wishes: CapacityWishes,
    pub doorbell: Option<Doorbell>,
    /// A memory that came by the socket and is not yet used.
    pub arrived: Option<ParentOnly>,
    /// Records or calls since the end last ran dry.
    pub since_dry: u32,
    /// Of a writer: calls in all.
    calls: u32,
    handed_on: bool,
}

/// Whether the end of that role has closed.
#[inline]
fn has_closed(map: &Map, role: Role) -> bool {
    // Acquire pairs with the release in `close`: what was published before is seen after.
    role.sleep(map.header()).closed.load(Ordering::Acquire) != 0
}

fn claim(file: &ParentOnly, role: Role) -> Result<Claim> {
    let file = file.here().map_err(|cause| Error::os("open", "memory", cause))?;
    Claim::new(file, role)
}

/// Says on which CPU the end of that role is: whether the other is there too.
pub fn cpu(map: &Map, role: Role) -> PeerCpu {
    let other = role.other().sleep(map.header()).cpu.load(Ordering::Relaxed);
    peer_of(&role.sleep(map.header()).cpu, other)
}

impl End {
    /// An end over both halves of it, which were made or checked.
    pub(crate) fn of(half: Half, map: Arc<Map>, role: Role, resolved: &Resolved) -> Result<End> {
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
            backoff: Backoff::new(resolved.levers.slip_ns),
            dirties: resolved.levers.dirties,
            role: life.role(),
            claim: file.as_ref().map(|file| claim(file, life.role())).transpose()?,
            file,
            spinner: Spinner::new(resolved.waiting, resolved.levers.wake_ns),
            fencing: Fencing::default(),
            reached: false,
            trouble_seen: 0,
            tuning_seen: 0,
            wishes: CapacityWishes::new(
                resolved.shape.capacity_bytes(),
                resolved.levers.capacity_bytes,
                resolved.most_bytes,
            ),
            doorbell: None,
            arrived: None,
            since_dry: 0,
            calls: 0,
            handed_on: false,
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
    pub fn header(&self) -> &PipeHeader {
        self.map.header()
    }

    #[inline]
    pub fn account_line(&self) -> &AccountLine {
        match self.role {
            Role::Writer => &self.header().writer_account,
            Role::Reader => &self.header().reader_account,
        }
    }

    /// Counts a call of a writer: whether it is time to look what was asked for from outside, and
    /// at the CPU.
    #[inline]
    pub fn looks_around(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(LOOK_EVERY)
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

    pub(crate) fn error(&self, kind: ErrorKind, reason: impl Into<Text>) -> Error {
        let operation = if self.role == Role::Writer { "write to" } else { "read from" };
        Error::new(kind, operation, "the pipe", reason)
    }

    /// Whether the other end has closed or died. Whoever asks looks into the memory afterwards.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.other_has_closed() || self.life.is_dead()
    }

    /// Whether the other end has closed, rather than died.
    #[inline]
    pub fn other_has_closed(&self) -> bool {
        has_closed(&self.map, self.role.other())
    }

    /// Says to the other end on which CPU this one is.
    pub fn say_cpu(&self) {
        cpu(&self.map, self.role);
    }

    /// Sleeps until `look` finds something.
    pub fn sleep(
        &mut self,
        until: Until,
        look: &mut dyn FnMut(&Map) -> Result<bool>,
    ) -> Result<Ended> {
        self.backoff.on_pause();
        let slice = (self.role == Role::Writer).then_some(WRITER_SLICE);
        loop {
            let had_the_fences = self.drop_fences();
            let parked = Parked::announce(self.sleep_word(), self.life.inbox());
            if had_the_fences {
                barrier::pass();
            }
            let gone = self.is_gone();
            // Looked at after the end was: what it published before it went counts.
            if look(&self.map)? {
                return Ok(Ended::Ready);
            }
            if gone || until.is_over() {
                return Ok(if gone { Ended::Gone } else { Ended::TimedOut });
            }
            let slept = parked.sleep(until.at_most(slice));
            self.spinner.slept(slept.ns);
            account::slept(self.account_line(), slept.ns, slept.woken);
        }
    }

    /// After something was published: wakes the other end if it said that it waits, and `rule`
    /// says that it is time.
    #[inline]
    pub fn wake_other(&self, rule: impl FnOnce(&PipeHeader) -> bool) {
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

    /// Looks for a while whether `look` finds something, unless the other end is gone.
    #[inline]
    pub fn spin(
        &mut self,
        until: Until,
        mut look: impl FnMut(&Map) -> Result<bool>,
    ) -> Result<bool> {
        add(&self.account_line().waits, 1);
        let (map, life, role) = (&*self.map, &*self.life, self.role);
        let gone = || has_closed(map, role.other()) || life.is_dead();
        let rivals = || self.life.rivals();
        let found = self.spinner.spin(until, || cpu(map, role), rivals, gone, || look(map))?;
        add(&self.account_line().spun, u64::from(found));
        if found && role == Role::Reader && self.fencing.spun() {
            self.take_fences();
        }
        Ok(found)
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
        let ns = self.backoff.on_dry(records);
        if ns == 0 || self.spinner.waiting() == Waiting::Sleep {
            return;
        }
        let begun = Instant::now();
        while (begun.elapsed().as_nanos() as u64) < ns {
            std::hint::spin_loop();
        }
    }

    /// The memory that follows this one, which the writer says it has sent.
    pub fn next_memory(&mut self, kind: u32) -> Result<(ParentOnly, Arc<Map>, PipeShape)> {
        let file = self.arrived.take().or_else(|| self.life.take_messages());
        let wrong = |why: &'static str| self.error(ErrorKind::Corrupt, why);
        let file = file.ok_or_else(|| match self.life.is_broken() {
            true => wrong("its new memory is no file that can be sealed"),
            false => wrong("its new memory did not come"),
        })?;
        let map = open_kind(&file, kind)?;
        if map.extent().generation != self.map.extent().generation + 1 {
            return Err(wrong("its new memory is not the next"));
        }
        let capacity = map.extent().ring_bytes;
        let shape = PipeShape::new(memory::page_bytes(), capacity, None, None);
        Ok((file, map, shape.map_err(out_of_range)?))
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
    pub fn move_to(&mut self, file: ParentOnly, map: Arc<Map>, shape: PipeShape) -> Result<()> {
        self.claim = Some(claim(&file, self.role)?);
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
        // Release pairs with the acquire in `has_closed`.
        self.role.sleep(self.header()).closed.store(1, Ordering::Release);
        self.wake_other(|_| true);
    }

    /// The end as two descriptors, to be handed on. It is not this process's any more.
    pub fn hand_on(&mut self) -> Result<Handle> {
        self.give_back_fences();
        let forked = || Error::new(ErrorKind::Forked, "hand on", "an end", "forked meanwhile");
        let memory = self.file.as_mut().and_then(ParentOnly::take).ok_or_else(forked)?;
        let socket = self.life.take_socket().ok_or_else(forked)?;
        self.handed_on = true;
        self.claim = None;
        Ok(Handle::new(self.role, memory, socket))
    }

    /// Whether it is this process's, to be closed.
    pub fn is_open(&self) -> bool {
        !self.handed_on && self.map.is_here()
    }

    /// Whether the area of large records is this large.
    pub fn arena_bytes(&self) -> u64 {
        self.map.bytes(Area::Arena)
    }
}
