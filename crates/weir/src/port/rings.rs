//! All rings of a port: lets writers in, finds one that has something, and waits for it. The reader
//! spins on the rings it looks at, then makes all of them cold and sleeps on the board.

use super::choice::{Choice, LOOK_AT_ALL};
use super::{HELLO, PortOptions, READ};
use crate::connect::acceptor::Acceptor;
use crate::connect::name::Subject;
use crate::connect::site::ParkSite;
use crate::error::{ErrorKind, Result};
use crate::park::doorbell::Doorbell;
use crate::park::{Parked, Spinner, Until, WaitSource};
use crate::pipe::connection::Role;
use crate::pipe::end::cpu;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_policy::ready::{WAIT_UNITS, WorkBudget};
use weir_ring::account::add;
use weir_ring::primitive::AtomicU32;
use weir_ring::sleep;

/// What one call has done so far, and until when it may go on.
#[derive(Debug)]
pub struct Effort {
    until: Until,
    work: WorkBudget,
    is_first: bool,
}

impl Effort {
    #[inline]
    pub fn new(until: Until) -> Effort {
        Effort { until, work: WorkBudget::default(), is_first: true }
    }

    /// A step showed nothing, and moved so many bytes.
    pub fn was_in_vain(&mut self, bytes: usize) {
        self.work.moves(bytes);
    }
}

/// All rings of a port. Dropping it closes the port, and its name goes.
#[derive(Debug)]
pub struct Rings {
    // First, so that nobody comes meanwhile: fields are dropped in their order.
    acceptor: Acceptor,
    pub choice: Choice,
    pub options: PortOptions,
    doorbell: Option<Doorbell>,
    spinner: Spinner,
}

impl Rings {
    /// Listens at `path`.
    pub fn listen(what: &Subject, path: &Path, options: &PortOptions) -> Result<Rings> {
        options.check()?;
        let choice = Choice::new(options)?;
        let acceptor = Acceptor::new(what, path, options.mode_bits(), HELLO, choice.inbox())?;
        choice.say_where(path);
        let spinner = Spinner::new(choice.resolved.waiting, choice.resolved.levers.wake_ns);
        Ok(Rings { acceptor, choice, options: options.clone(), doorbell: None, spinner })
    }

    pub fn path(&self) -> &Path {
        self.acceptor.path()
    }

    /// Refuses to work in a forked child.
    pub fn check_here(&self) -> Result<()> {
        if self.acceptor.socket().is_some() {
            return Ok(());
        }
        let why = "it belongs to the process this one was forked from";
        Err(READ.error(ErrorKind::Forked, self.path(), why))
    }

    /// A writer that has something, for a call that may have looked at others in vain.
    #[inline]
    pub fn next_of(&mut self, effort: &mut Effort) -> Result<u32> {
        if std::mem::take(&mut effort.is_first) {
            return self.next(effort.until);
        }
        self.next_after_all(effort)
    }

    /// What writers send decides how often this is called: it does not do so for longer than its
    /// caller wants to wait, nor let in everybody each time.
    #[cold]
    fn next_after_all(&mut self, effort: &mut Effort) -> Result<u32> {
        if effort.work.is_over() {
            effort.work = WorkBudget::default();
            if effort.until == Until::Now {
                // Readable as before: there is more to do.
                self.acted();
                return Err(READ.error(ErrorKind::WouldBlock, self.path(), "no message is whole"));
            }
            if self.choice.inbox().has_news() {
                self.let_in()?;
            }
        }
        if let Until::Then(then) = effort.until
            && Instant::now() >= then
        {
            let why = "no message was whole in time";
            return Err(READ.error(ErrorKind::TimedOut, self.path(), why));
        }
        if let Some(place) = self.choice.ready_now()? {
            return Ok(place);
        }
        effort.work.does(WAIT_UNITS);
        self.wait(effort.until)
    }

    /// A writer that has something, once there is one.
    #[inline]
    pub fn next(&mut self, until: Until) -> Result<u32> {
        self.check_here()?;
        if self.choice.inbox().has_news() {
            self.let_in()?;
        }
        match self.choice.ready_now()? {
            Some(place) => Ok(place),
            None => self.wait(until),
        }
    }

    /// Lets in who came, and hears of who is gone.
    pub fn let_in(&mut self) -> Result<()> {
        let news = self.choice.inbox().take();
        self.choice.on_gone(&news.gone)?;
        if news.notified || self.acceptor.is_busy() {
            for arrival in self.acceptor.admit() {
                let place = self.choice.let_in(arrival, &self.options);
                if let (Some(place), Some(doorbell)) = (place, &self.doorbell) {
                    self.choice.slot(place)?.is_polled_by(doorbell)?;
                }
            }
        }
        Ok(())
    }

    /// Whether there is something, looking at everything.
    pub fn is_ready(&mut self) -> Result<bool> {
        self.check_here()?;
        if self.choice.inbox().has_news() || self.acceptor.is_busy() {
            self.let_in()?;
        }
        Ok(self.choice.ready_now()?.is_some())
    }

    #[cold]
    fn wait(&mut self, until: Until) -> Result<u32> {
        add(&self.choice.board().account.waits, 1);
        if until == Until::Now {
            return self.look_once_more();
        }
        loop {
            self.spin(until)?;
            if self.is_ready()?
                && let Some(place) = self.choice.ready_now()?
            {
                return Ok(place);
            }
            if until.is_over() {
                let why = "nothing came in time";
                return Err(READ.error(ErrorKind::TimedOut, self.path(), why));
            }
            self.sleep(until)?;
        }
    }

    /// For a `try_` call that found nothing: if the port is polled, makes its doorbell ring once
    /// there is something, and looks again.
    fn look_once_more(&mut self) -> Result<u32> {
        if self.doorbell.is_some() {
            self.hear_bells()?;
            if self.choice.cool_all()? {
                sleep::announce(&self.choice.board().sleep.word, sleep::POLLING);
            }
        }
        if self.is_ready()?
            && let Some(place) = self.choice.ready_now()?
        {
            return Ok(place);
        }
        Err(READ.error(ErrorKind::WouldBlock, self.path(), "it is empty"))
    }

    /// Looks for a while, as long as that has paid of late.
    fn spin(&mut self, until: Until) -> Result<bool> {
        let Rings { choice, spinner, .. } = self;
        let Some(last) = choice.last.filter(|last| choice.hot.contains(*last)) else {
            return Ok(false);
        };
        let alone = choice.hot.len() == 1;
        let (end, _) = choice.slot(last)?.reader.parts()?;
        if alone {
            let dry = std::mem::take(&mut end.since_dry);
            end.pause(dry);
        }
        let map = end.map.clone();
        // Where the writer that was served last runs is the best guess for the others.
        spinner.spin(until, || cpu(&map, Role::Reader), || 0, || false, || choice.sees())
    }

    /// Makes all rings cold and sleeps on the board.
    fn sleep(&mut self, until: Until) -> Result<()> {
        let slice = self.slice();
        let Some(parked) = self.announce()? else { return Ok(()) };
        let slept = parked.sleep(until.at_most(slice));
        self.spinner.slept(slept.ns);
        let account = &self.choice.board().account;
        add(&account.slept, 1);
        add(&account.slept_ns, slept.ns);
        self.after_sleep(Duration::from_nanos(slept.ns))
    }

    /// How long to sleep at most: bits on the board may have been spoiled by a writer, and someone
    /// who has come may have to be sent away.
    fn slice(&self) -> Option<Duration> {
        (self.choice.len() > 0 || self.acceptor.is_busy()).then_some(LOOK_AT_ALL)
    }

    /// Says that the reader is about to sleep on the board. `None` if there is something after all.
    fn announce(&mut self) -> Result<Option<Parked<'_, dyn ParkSite>>> {
        if !self.choice.cool_all()? {
            return Ok(None);
        }
        let (board, inbox) = (self.choice.board(), self.choice.inbox());
        let parked = Parked::announce(&board.sleep.word, inbox);
        Ok((!board.any() && !inbox.has_news()).then_some(parked))
    }

    /// The descriptor for poll and epoll.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_here()?;
        if self.doorbell.is_none() {
            let socket = self.acceptor.socket().ok_or_else(|| READ.os(self.path(), Errno::BADF))?;
            let doorbell = Doorbell::new(socket)?;
            for slot in self.choice.slots.iter_mut().flatten() {
                slot.is_polled_by(&doorbell)?;
            }
            self.doorbell = Some(doorbell);
        }
        match &self.doorbell {
            Some(doorbell) => Ok(doorbell.as_fd()),
            None => Err(READ.error(ErrorKind::Os, self.path(), "no descriptor")),
        }
    }

    /// Takes the bells that writers have rung off their sockets.
    fn hear_bells(&mut self) -> Result<()> {
        let Some(doorbell) = &self.doorbell else { return Ok(()) };
        doorbell.clear();
        for place in doorbell.rung() {
            if let Ok(slot) = self.choice.slot(place as u32) {
                let (end, _) = slot.reader.parts()?;
                end.life.take_bell();
            }
        }
        // Somebody at the door, or a death, shows here as well as at the watcher's.
        self.choice.inbox().notify();
        self.let_in()
    }

    /// Something was done: the descriptor is readable until the next `WouldBlock`.
    pub fn acted(&self) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring();
        }
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        if self.check_here().is_ok() {
            self.choice.say_closed();
        }
    }
}

impl WaitSource for Rings {
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        Rings::is_ready(self)
    }

    fn announce(&mut self, _: u64) -> Result<Option<u32>> {
        Ok(Rings::announce(self)?.and_then(Parked::leave))
    }

    fn retract(&mut self) {
        Parked::retract(&self.choice.board().sleep.word, self.choice.inbox());
    }

    fn words<'w>(&'w self, said: u32, words: &mut Vec<(&'w AtomicU32, u32)>) {
        words.push((&self.choice.board().sleep.word, said));
    }

    fn most_sleep(&self) -> Option<Duration> {
        self.slice()
    }

    fn after_sleep(&mut self, slept: Duration) -> Result<()> {
        // It was the longest: a writer may have spoiled the bits of others on the board.
        if self.slice().is_some_and(|slice| slept >= slice) {
            self.choice.look_at_all()?;
        }
        Ok(())
    }
}
