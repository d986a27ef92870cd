//! What both ends of both kinds of pipe share: the memory, the lifeline, waiting and waking.

use crate::connect::passing::close_shared_later;
use crate::connect::peer::Ending;
use crate::error::{Error, ErrorKind, Result, Text};
use crate::memory::{Map, MapHere};
use crate::park::doorbell::Doorbell;
use crate::park::{HeadStart, Parked, Spinner, Until, barrier};
use crate::pipe::claim::ClaimedFile;
use crate::pipe::connection::{Connection, Role};
use crate::pipe::handle::Half;
use crate::pipe::options::{EndOptions, Resolved};
use crate::pipe::storage::{corrupt, open_kind};
use rustix::fd::{AsFd, BorrowedFd};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use weir_policy::pipe::PipeShape;
use weir_ring::account::{Account, add};
use weir_ring::layout::{AccountLine, PipeHeader};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::{Area, RingMemory, sleep};
use weir_sys::forks::ParentOnly;

pub mod drain;
mod fences;
mod moving;
mod tuning;

use drain::SpillReports;
use fences::Fences;
use tuning::Tuning;

/// How often a sleeping writer looks for room of less than a segment. A timer shorter than a tick
/// of the kernel's clock would cost more than the sleep.
pub const WRITER_SLICE: Duration = Duration::from_millis(20);

/// Looks of a writer that spins after which it sleeps if a thread drains: some milliseconds.
pub const MANY_LOOKS: u32 = 1 << 16;

/// Calls of a writer between two checks of requests from outside and of its CPU.
pub const CHECK_EVERY: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    Ready,
    /// The other end is gone, and there is nothing left to do.
    Gone,
    TimedOut,
}

#[derive(Debug)]
pub struct End {
    pub map: Arc<Map>,
    pub life: Connection,
    pub shape: PipeShape,
    pub head_start: HeadStart,
    role: Role,
    /// `None` at a port's reader, which saves the descriptors. The seals of its rings keep a memory
    /// from coming twice.
    file: Option<ClaimedFile>,
    pub spinner: Spinner,
    fences: Fences,
    tuning: Tuning,
    spill_reports: SpillReports,
    pub doorbell: Option<Doorbell>,
    /// A memory that came by the socket and is not yet used.
    pub arrived: Option<ParentOnly>,
    calls: Cell<u32>,
    handed_on: bool,
}

/// Adds records that a reader has taken to its account. Returns whether the writer waits for room.
#[inline(always)]
pub fn account_taken(map: MapHere<'_>, records: u32, bytes: usize) -> bool {
    let words = map.words();
    add(&words.reader_account.bytes, bytes as u64);
    add(&words.reader_account.records, u64::from(records));
    // Relaxed: before this end sleeps, it looks again, with a fence, whether the writer waits.
    words.writer_sleep.word.load(Ordering::Relaxed) != 0
}

impl End {
    /// Makes an end of both its halves, which were made or checked.
    pub(crate) fn of(half: Half, map: Arc<Map>, role: Role, resolved: &Resolved) -> Result<End> {
        let Half { memory, socket } = half;
        // Claimed first: the socket may be that of the end that is open.
        match ClaimedFile::new(memory, role) {
            Ok(file) => {
                let life = Connection::new(socket, role, &map)?;
                Ok(End::over(Some(file), map, life, resolved))
            }
            Err(error) => {
                close_shared_later(socket);
                Err(error)
            }
        }
    }

    /// Opens an end over memory that came from another process, or ends the connection with it.
    pub(crate) fn open(half: Half, kind: u32, role: Role, options: &EndOptions) -> Result<End> {
        let map = open_kind(&half.memory, kind);
        match map.and_then(|map| Ok((options.resolve_over(&map)?, map))) {
            Ok((resolved, map)) => End::of(half, map, role, &resolved),
            Err(error) => Err(half.refused(error)),
        }
    }

    /// Makes an end over memory that was made or checked.
    pub fn new(
        file: Option<ParentOnly>,
        map: Arc<Map>,
        life: Connection,
        resolved: &Resolved,
    ) -> Result<End> {
        let file = file.map(|file| ClaimedFile::new(file, life.role())).transpose()?;
        Ok(End::over(file, map, life, resolved))
    }

    fn over(
        file: Option<ClaimedFile>,
        map: Arc<Map>,
        life: Connection,
        resolved: &Resolved,
    ) -> End {
        let mut end = End {
            shape: resolved.shape,
            head_start: HeadStart::new(resolved.waiting),
            role: life.role(),
            file,
            spinner: Spinner::new(resolved.waiting),
            fences: Fences::default(),
            tuning: Tuning::new(resolved),
            spill_reports: SpillReports::default(),
            doorbell: None,
            arrived: None,
            calls: Cell::new(0),
            handed_on: false,
            map,
            life,
        };
        end.introduce();
        end
    }

    /// Publishes what the other end and `weir stat` look for in a memory.
    fn introduce(&mut self) {
        if self.take_up_tuning().is_some() {
            // A call of the writer moves there.
            self.tuning.forget_seen();
        }
        if self.role == Role::Writer {
            self.tuning.publish_wishes(self.map.header());
        }
        self.fences.give_back(self.role.sleep(self.map.header()));
        self.account_line().pid.store(std::process::id(), Ordering::Relaxed);
        self.publish_cpu();
    }

    #[inline]
    pub fn header(&self) -> &PipeHeader {
        self.map.header()
    }

    #[inline]
    pub fn account_line(&self) -> &AccountLine {
        self.role.account(self.header())
    }

    /// Counts a call of a writer. Returns whether it is time to [check](End::check_requests) what was
    /// asked for from outside.
    #[inline(always)]
    pub fn is_time_to_check(&self) -> bool {
        let calls = self.calls.get().wrapping_add(1);
        self.calls.set(calls);
        calls.is_multiple_of(CHECK_EVERY)
    }

    /// Returns the memory if all is as it was at the writer's last call: this is the same process,
    /// the reader is there, and it is not yet time to check requests. Counts the call.
    #[inline(always)]
    pub fn as_before(&self) -> Option<MapHere<'_>> {
        let map = self.map.here()?;
        let is_as_before = !self.is_gone_from(map, Role::Reader) && !self.is_time_to_check();
        is_as_before.then_some(map)
    }

    /// Counts a record that the writer has published, and wakes the reader if it waits.
    #[inline(always)]
    pub fn published(&self, map: MapHere<'_>, bytes: usize) {
        let line = &map.words().writer_account;
        add(&line.bytes, bytes as u64);
        add(&line.records, 1);
        if self.fences.is_wanted(&map.words().reader_sleep) {
            self.wake_now();
        }
        self.acted();
    }

    /// Counts records that a reader has taken. Returns whether the writer waits for room.
    #[inline(always)]
    pub fn taken(&mut self, records: u32, bytes: usize) -> bool {
        self.count_taken(records);
        self.map.here().is_some_and(|map| account_taken(map, records, bytes))
    }

    /// Counts records that a reader has taken, for itself. [`account_taken`] is for all to see. After
    /// a wait only that is left to do: [`End::begin_wait`] has counted the record beforehand.
    #[inline(always)]
    pub fn count_taken(&mut self, records: u32) {
        self.head_start.moved(records);
        if self.fences.moved(records) {
            Fences::take(&self.map.header().reader_sleep);
        }
    }

    /// Tells the other end on which CPU this one runs, and adopts what was asked for. Returns
    /// sizes of another capacity, if they were asked for and the writer may adopt them. Called now
    /// and then.
    pub fn check_requests(&mut self) -> Option<PipeShape> {
        self.publish_cpu();
        self.fences.be_reached(self.role.other().sleep(self.map.header()));
        self.take_up_tuning()
    }

    fn take_up_tuning(&mut self) -> Option<PipeShape> {
        self.tuning.take_up(self.map.header(), &mut self.shape)
    }

    /// Adopts this capacity from now on.
    pub fn grant(&mut self, capacity: u64) {
        self.tuning.grant(self.map.header(), capacity);
    }

    /// Whether the reader uses this memory, if it is not the pipe's first.
    pub fn is_followed(&self) -> bool {
        // Relaxed: the socket orders what was sent. A reader that claims this too early only misses
        // the memory that is sent to it.
        self.map.extent().generation == 0
            || self.header().reader_account.pid.load(Ordering::Relaxed) != 0
    }

    /// The error that the reader cannot spill, if it is new to this end.
    pub fn new_trouble(&mut self) -> Option<Error> {
        Some(match self.spill_reports.new_one(self.map.header())? {
            Ok(cause) => Error::os("spill", "the backlog of the pipe", cause),
            Err(why) => corrupt(Role::Writer, why),
        })
    }

    /// The reports of the reader that this end has seen.
    pub fn spill_reports(&self) -> SpillReports {
        self.spill_reports
    }

    /// Makes the last such error new again.
    pub fn report_spill_failure_again(&mut self) {
        self.spill_reports = SpillReports::default();
    }

    pub fn sleep_word(&self) -> &AtomicU32 {
        &self.role.sleep(self.header()).word
    }

    pub fn account(&self) -> Account {
        Account::read(self.account_line())
    }

    /// Fails in a forked child.
    #[inline]
    pub fn check_here(&self) -> Result<()> {
        self.here().map(drop)
    }

    /// The memory. Fails in a forked child.
    #[inline]
    pub fn here(&self) -> Result<MapHere<'_>> {
        self.map.here().ok_or_else(|| self.forked_error())
    }

    #[cold]
    #[inline(never)]
    fn forked_error(&self) -> Error {
        Error::forked(self.role.operation(), "the pipe")
    }

    pub(crate) fn error(&self, kind: ErrorKind, reason: impl Into<Text>) -> Error {
        Error::new(kind, self.role.operation(), "the pipe", reason)
    }

    /// The error of a writer whose reader is gone.
    #[inline(never)]
    pub fn peer_gone_error(&self) -> Error {
        self.error(ErrorKind::Closed, "the reader has closed or died")
    }

    /// Whether the other end has closed or died. The caller looks into the memory after this, for
    /// what was published before.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.other_has_closed() || self.life.is_dead()
    }

    /// As [`End::is_gone`], for a caller that knows that the memory is here, and who the other is.
    #[inline(always)]
    pub fn is_gone_from(&self, map: MapHere<'_>, other: Role) -> bool {
        other.has_closed(map.words()) || self.life.is_dead()
    }

    /// Whether the other end has closed, rather than died.
    #[inline]
    pub fn other_has_closed(&self) -> bool {
        self.role.other().has_closed(self.header())
    }

    /// How the other end has ended; `None` while it is there.
    pub fn ending(&self) -> Option<Ending> {
        // Looked at first: an end that closes publishes that before its socket hangs up.
        let is_dead = self.life.is_dead();
        if self.life.is_broken() {
            return Some(Ending::ShutOut);
        }
        if self.other_has_closed() {
            return Some(Ending::Closed);
        }
        // A writer that has gone on in another memory closes there.
        let continues = self.role == Role::Reader && drain::has_moved(self.header());
        (is_dead && !continues).then_some(Ending::Died)
    }

    /// Tells the other end on which CPU this one runs.
    pub fn publish_cpu(&self) {
        self.role.publish_cpu(self.header());
    }

    /// Sleeps until `look` finds something.
    pub fn sleep(
        &mut self,
        until: Until,
        poll: &mut dyn FnMut(&Map) -> Result<bool>,
    ) -> Result<WaitOutcome> {
        self.head_start.sleeps();
        let slice = (self.role == Role::Writer).then_some(WRITER_SLICE);
        loop {
            let had_both_fences = self.fences.leave(self.role.sleep(self.map.header()));
            let parked = Parked::announce(self.sleep_word(), self.life.inbox());
            if had_both_fences {
                barrier::pass();
            }
            let gone = self.is_gone();
            // Looked at after `is_gone`: what the other end published before it went counts.
            if poll(&self.map)? {
                return Ok(WaitOutcome::Ready);
            }
            if gone || until.is_over() {
                return Ok(if gone { WaitOutcome::Gone } else { WaitOutcome::TimedOut });
            }
            let slept = parked.sleep(until.at_most(slice));
            self.spinner.slept(slept.ns);
            self.account_line().waiting.count_sleep(slept.ns, slept.woken);
        }
    }

    /// Wakes the other end, after something was published, if it waits and `rule` allows it.
    #[inline]
    pub fn wake_other(&self, rule: impl FnOnce(&PipeHeader) -> bool) {
        let sleep = self.role.other().sleep(self.header());
        if self.fences.is_wanted(sleep) && rule(self.header()) {
            self.wake_now();
        }
    }

    #[cold]
    fn wake_now(&self) {
        let word = &self.role.other().sleep(self.header()).word;
        let how = sleep::take(word);
        if how != 0 {
            self.life.wake(word, how);
            add(&self.account_line().waiting.wakes_given, 1);
        }
    }

    /// Begins a wait for the other end. Returns how many quick looks come first.
    ///
    /// What a wait costs is counted here, before the looks: what they find is used at once.
    #[inline(never)]
    pub fn begin_wait(&mut self) -> u32 {
        let words = self.map.header();
        add(&self.role.account(words).waiting.waits, 1);
        if self.role == Role::Reader {
            // A wait that ends in a sleep takes this back.
            self.fences.spun(&words.reader_sleep);
            self.head_start.give(!self.spinner.shares_cpu());
            self.head_start.moved(1);
        }
        self.spinner.quick_polls()
    }

    /// Counts a wait that spinning has ended.
    #[inline(always)]
    pub fn spun(&self, map: MapHere<'_>) {
        add(&self.role.account(map.words()).waiting.spun, 1);
    }

    /// Waits by spinning until `look` finds something, the other end is gone, or spinning no longer
    /// pays. Returns what was found.
    pub fn spin<T>(
        &mut self,
        until: Until,
        poll: impl FnMut(MapHere<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let looks = self.begin_wait();
        self.spin_after(looks, until, poll)
    }

    /// As [`End::spin`], for a wait that has begun: makes so many quick looks, and continues.
    #[inline]
    pub fn spin_after<T>(
        &mut self,
        looks: u32,
        until: Until,
        mut poll: impl FnMut(MapHere<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let Some(map) = self.map.here() else { return Err(self.forked_error()) };
        let (words, life, role) = (map.words(), &*self.life, self.role);
        let gone = || role.other().has_closed(words) || life.is_dead();
        let peer = || role.publish_cpu(words);
        let found = self.spinner.spin(looks, until, peer, gone, || poll(map))?;
        if found.is_some() {
            self.spun(map);
        }
        Ok(found)
    }

    /// Announces that this end sleeps or polls. The caller looks once more after this.
    pub fn announce(&mut self, how: u32) -> u32 {
        self.fences.announce(self.role.sleep(self.map.header()), how)
    }

    /// Arms the doorbell, if the end is polled, after a `try_` call found nothing. The caller looks
    /// once more after this.
    pub fn arm(&mut self) {
        self.arm_and(|_| true);
    }

    /// As [`End::arm`], for an end that `continues` in the next memory, if that has come. Otherwise
    /// the memory stays in the socket, and goes with that to another process.
    pub fn arm_and(&mut self, mut continues: impl FnMut(&Map) -> bool) {
        let Some(doorbell) = &self.doorbell else { return };
        doorbell.clear();
        if let Some(file) = self.life.take_bell_or_next(|| continues(&self.map)) {
            self.arrived = Some(file);
        }
        self.announce(sleep::POLLING);
    }

    pub fn memory(&self) -> Result<BorrowedFd<'_>> {
        self.file.as_ref().and_then(|own| own.file.get()).ok_or_else(|| self.forked_error())
    }

    /// Makes the descriptor readable again, until the next `WouldBlock`, after something was done.
    #[inline(always)]
    pub fn acted(&self) {
        if self.doorbell.is_some() {
            self.ring_doorbell();
        }
    }

    #[cold]
    #[inline(never)]
    fn ring_doorbell(&self) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring();
        }
    }

    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_here()?;
        if self.doorbell.is_none() {
            let socket = self.life.socket().ok_or_else(|| self.forked_error())?;
            let doorbell = Doorbell::new(socket)?;
            self.life.its_end_rings(&doorbell)?;
            self.doorbell = Some(doorbell);
        }
        self.doorbell.as_ref().map(AsFd::as_fd).ok_or_else(|| self.forked_error())
    }

    pub fn close(&mut self) {
        self.role.close(self.header());
        if self.role == Role::Reader {
            self.close_next();
        }
        self.wake_other(|_| true);
    }

    /// Whether this process has the end, and has to close it.
    pub fn is_open(&self) -> bool {
        !self.handed_on && self.map.is_here()
    }

    pub fn arena_bytes(&self) -> u64 {
        self.map.bytes(Area::Arena)
    }
}
