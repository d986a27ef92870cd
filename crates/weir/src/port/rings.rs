//! All rings of a port. This lets writers in, finds one that has something, and waits for it. The
//! reader spins on the hot rings, then makes all of them cold and sleeps on the board.

use super::choice::{Choice, LOOK_AT_ALL};
use super::watched::{Bell, HandleWatch};
use super::{HELLO, PortOptions, READ};
use crate::connect::acceptor::Acceptor;
use crate::connect::name::{self, Subject};
use crate::connect::site::ParkSite;
use crate::error::{Error, ErrorKind, Result, Text};
use crate::park::doorbell::Doorbell;
use crate::park::{Parked, Slept, Spinner, Until, WaitSource, sleep_on};
use crate::pipe::connection::Role;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_policy::ready::{WAIT_UNITS, WorkBudget};
use weir_ring::RingMemory;
use weir_ring::account::add;
use weir_ring::primitive::AtomicU32;
use weir_ring::sleep;
use weir_sys::forks::ParentOnly;

/// The work that one call has done so far, and the time until which it may continue.
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

    /// Counts a step that moved bytes but received nothing.
    pub fn was_in_vain(&mut self, bytes: usize) {
        self.work.moves(bytes);
    }
}

/// All rings of a port. Dropping it closes the port and removes its name.
#[derive(Debug)]
pub struct Rings {
    // Dropped first, so that nobody connects while the other fields are dropped.
    acceptor: Acceptor,
    /// The handles of a port without a name.
    handles: Option<HandleWatch>,
    /// Rings when a part of a backlog was read back, at an elastic port.
    pub bell: Option<Bell>,
    pub choice: Choice,
    pub options: PortOptions,
    doorbell: Option<Doorbell>,
    spinner: Spinner,
    /// What errors name. They cost no memory where calls are repeated.
    object: Arc<str>,
}

impl Rings {
    pub fn listen(what: &Subject, path: &Path, options: &PortOptions) -> Result<Rings> {
        options.check()?;
        let choice = Choice::new(options)?;
        let acceptor = Acceptor::new(what, path, options.mode_bits(), HELLO, choice.inbox())?;
        let account = &choice.board().account;
        name::publish_socket_id(path, &account.socket_device, &account.socket_inode);
        Ok(Rings::over(acceptor, None, choice, options))
    }

    /// Listens without a name, as long as the other side of `alive` is open or there are writers.
    /// Returns the descriptor through which writers connect as well.
    pub fn unnamed(
        what: &Subject,
        options: &PortOptions,
        alive: ParentOnly,
    ) -> Result<(Rings, OwnedFd)> {
        options.check()?;
        let choice = Choice::new(options)?;
        let (acceptor, way) = Acceptor::unnamed(what, options.mode_bits(), HELLO, choice.inbox())?;
        let handles = HandleWatch::start(alive, choice.inbox())?;
        Ok((Rings::over(acceptor, Some(handles), choice, options), way))
    }

    fn over(
        acceptor: Acceptor,
        handles: Option<HandleWatch>,
        choice: Choice,
        options: &PortOptions,
    ) -> Rings {
        let resolved = choice.resolved();
        let spinner = Spinner::new(resolved.waiting);
        Rings {
            object: READ.object(acceptor.path()).into(),
            acceptor,
            handles,
            bell: None,
            choice,
            options: options.clone(),
            doorbell: None,
            spinner,
        }
    }

    pub fn path(&self) -> &Path {
        self.acceptor.path()
    }

    pub fn check_here(&self) -> Result<()> {
        if self.acceptor.socket().is_some() {
            return Ok(());
        }
        Err(Error::forked(READ.operation, &self.object))
    }

    pub fn error(&self, kind: ErrorKind, why: impl Into<Text>) -> Error {
        Error::new(kind, READ.operation, &self.object, why)
    }

    /// Turns an error of a writer's ring into one of the port.
    #[cold]
    pub fn explain(&self, error: Error) -> Error {
        error.of(READ.operation, &self.object)
    }

    /// Finds the next writer for a call that may already have looked at others in vain.
    #[inline]
    pub fn next_of(&mut self, effort: &mut Effort) -> Result<u32> {
        if std::mem::take(&mut effort.is_first) {
            return self.next(effort.until);
        }
        self.next_after_all(effort)
    }

    /// Finds the next writer after the first look of a call. What writers send decides how often
    /// this is called, so it keeps to its caller's time, and lets new writers in only now and then.
    #[cold]
    fn next_after_all(&mut self, effort: &mut Effort) -> Result<u32> {
        if effort.work.is_over() {
            effort.work = WorkBudget::default();
            if effort.until == Until::Now {
                // The descriptor stays readable: there is more to do.
                self.doorbell.iter().for_each(Doorbell::ring_again);
                return Err(self.error(ErrorKind::WouldBlock, "no message is whole"));
            }
            if self.choice.inbox().has_news() {
                self.let_in()?;
            }
        }
        if let Until::Then(then) = effort.until
            && Instant::now() >= then
        {
            return Err(self.error(ErrorKind::TimedOut, "no message was whole in time"));
        }
        if let Some(place) = self.choice.ready_now()? {
            return Ok(place);
        }
        effort.work.does(WAIT_UNITS);
        self.wait(effort.until)
    }

    /// Finds a writer that has something, and waits for one.
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

    /// Lets new writers in, and makes the rings of those that are gone hot, so that what is left in
    /// them is received.
    pub fn let_in(&mut self) -> Result<()> {
        let news = self.choice.inbox().take();
        let mut is_news = false;
        for place in news.gone {
            if let Some(doorbell) = &self.doorbell {
                // Its end would ring until it is received, which may not be for long.
                self.choice.slot(place).map_or(Ok(()), |slot| slot.leaves(doorbell))?;
                is_news = true;
            }
            self.choice.warm_if_there(place)?;
        }
        if news.notified && self.bell.is_some() {
            self.choice.warm_backlogs()?;
        }
        if news.notified || self.acceptor.is_busy() {
            for arrival in self.acceptor.admit(self.doorbell.as_ref()) {
                is_news |= self.choice.let_in(arrival, &self.options, self.doorbell.as_ref());
            }
        }
        if is_news {
            // What made the descriptor readable is gone, but there may be something to receive.
            self.acted();
        }
        Ok(())
    }

    /// Whether there is something to receive. It also lets new writers in.
    pub fn is_ready(&mut self) -> Result<bool> {
        self.check_here()?;
        if self.choice.inbox().has_news() || self.acceptor.is_busy() {
            self.let_in()?;
        }
        if self.choice.ready_now()?.is_some() {
            return Ok(true);
        }
        // The reader has nothing to do, and a writer may wait for room that it still owes.
        self.choice.give_back()?;
        self.is_over()
    }

    /// Whether a port without a name is at its end: nobody can write to it any more.
    fn is_over(&mut self) -> Result<bool> {
        let Some(handles) = &self.handles else { return Ok(false) };
        if self.has_writers() || !handles.is_over() {
            return Ok(false);
        }
        // A writer may have connected before the last handle was closed.
        self.choice.inbox().notify();
        self.let_in()?;
        Ok(!self.has_writers() && !self.choice.inbox().has_news())
    }

    /// Whether somebody may have come or gone.
    pub fn has_news(&self) -> bool {
        self.choice.inbox().has_news() || self.acceptor.is_busy()
    }

    fn has_writers(&self) -> bool {
        self.choice.len() > 0 || self.acceptor.is_busy()
    }

    /// The error of a port at its end.
    fn ended(&self) -> Error {
        // The descriptor stays readable, as that of any end of file does.
        self.acted();
        self.error(ErrorKind::Closed, "its last writer is gone")
    }

    #[cold]
    fn wait(&mut self, until: Until) -> Result<u32> {
        self.count_wait();
        if until == Until::Now {
            return self.poll_again();
        }
        if self.spinner.only_spins() {
            // It looks at nothing but the next message until that is there, and its writer may wait
            // for this room.
            self.choice.give_back()?;
        }
        loop {
            let spun = self.spin(until)?;
            if self.is_ready()?
                && let Some(place) = self.choice.ready_now()?
            {
                return Ok(place);
            }
            if self.is_over()? {
                return Err(self.ended());
            }
            if until.is_over() {
                return Err(self.error(ErrorKind::TimedOut, "nothing came in time"));
            }
            if spun && self.spinner.only_spins() {
                self.choice.poll_all_in_time()?;
            } else if let Some(slept) = sleep_on(self, until)? {
                self.spinner.slept(slept.ns);
            }
        }
    }

    /// Looks again for a call that does not wait and found nothing. If the port is polled, this
    /// first makes its doorbell ring once there is something.
    pub fn poll_again(&mut self) -> Result<u32> {
        if self.doorbell.is_some() {
            self.take_bells()?;
            self.choice.poll_all_in_time()?;
            if self.choice.cool_all()? {
                sleep::announce(&self.choice.board().sleep.word, sleep::POLLING);
            }
        }
        if self.is_ready()?
            && let Some(place) = self.choice.ready_now()?
        {
            self.acted();
            return Ok(place);
        }
        if self.is_over()? {
            return Err(self.ended());
        }
        if self.choice.inbox().has_news() {
            // More have come than are let in at a time.
            self.acted();
        }
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring_soon(self.acceptor.is_busy() || self.choice.holds_someone_up());
        }
        Err(self.error(ErrorKind::WouldBlock, "it is empty"))
    }

    /// Spins for as long as that has paid recently, or until it is time to look at all rings: whether
    /// there is a ring to spin on.
    fn spin(&mut self, until: Until) -> Result<bool> {
        let Rings { choice, spinner, .. } = self;
        let Some(last) = choice.last.filter(|last| choice.hot.contains(*last)) else {
            return Ok(false);
        };
        let (end, _) = choice.slot(last)?.reader.parts()?;
        let map = end.map.clone();
        // The CPU of the writer that was served last is the best guess for the others.
        let peer = || Role::Reader.publish_cpu(map.header());
        let look = || Ok(choice.sees()?.then_some(()));
        let looks = spinner.quick_polls();
        let most = if spinner.only_spins() { until.at_most(LOOK_AT_ALL) } else { None };
        let until = most.map_or(until, Until::after);
        let came = spinner.spin(looks, until, peer, || false, look)?.is_some();
        add(&choice.board().account.waiting.spun, came.into());
        Ok(true)
    }

    /// The longest sleep. A writer may have spoiled bits on the board, and somebody who has
    /// connected may have to be refused.
    fn slice(&self) -> Option<Duration> {
        (self.choice.len() > 0 || self.acceptor.is_busy()).then_some(LOOK_AT_ALL)
    }

    /// Announces that the reader parks on the board. `None` if there is something after all.
    fn announce(&mut self) -> Result<Option<Parked<'_, dyn ParkSite>>> {
        if !self.choice.cool_all()? {
            return Ok(None);
        }
        let (board, inbox) = (self.choice.board(), self.choice.inbox());
        let parked = Parked::announce(&board.sleep.word, inbox);
        Ok((!board.any() && !inbox.has_news()).then_some(parked))
    }

    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_here()?;
        if self.doorbell.is_none() {
            let socket = self.acceptor.socket().ok_or_else(|| READ.os(self.path(), Errno::BADF))?;
            let doorbell = Doorbell::timed(socket)?;
            for slot in self.choice.slots.iter_mut().flatten() {
                slot.is_polled_by(&doorbell)?;
            }
            self.handles.as_ref().map_or(Ok(()), |handles| handles.is_polled_by(&doorbell))?;
            self.acceptor.is_polled_by(&doorbell);
            self.doorbell = Some(doorbell);
        }
        match &self.doorbell {
            Some(doorbell) => Ok(doorbell.as_fd()),
            None => Err(self.error(ErrorKind::Os, "no descriptor")),
        }
    }

    /// Takes the bells of writers off their sockets.
    fn take_bells(&mut self) -> Result<()> {
        let Some(doorbell) = &self.doorbell else { return Ok(()) };
        doorbell.clear();
        self.bell.iter().for_each(Bell::clear);
        self.handles.iter().for_each(|handles| handles.leave(doorbell));
        for place in doorbell.rung() {
            if let Ok(slot) = self.choice.slot(place as u32) {
                let (end, _) = slot.reader.parts()?;
                end.life.take_bell();
                // Another writer may have taken its bit off the board.
                self.choice.warm(place as u32)?;
            }
        }
        // A new connection or a death may show here before the watcher reports it.
        self.choice.inbox().notify();
        self.let_in()
    }

    /// Makes the descriptor readable until the next `WouldBlock`, because something was done.
    pub fn acted(&self) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring();
        }
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        if self.check_here().is_ok() {
            self.choice.publish_closed();
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

    fn count_wait(&self) {
        add(&self.choice.board().account.waiting.waits, 1);
    }

    fn after_sleep(&mut self, slept: Slept) -> Result<()> {
        self.choice.board().account.waiting.count_sleep(slept.ns, slept.woken);
        // A writer may have spoiled the bits of others on the board.
        self.choice.poll_all_in_time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::Timeout;
    use crate::park::ready::wait_ready;
    use crate::port::Port;
    use rustix::event::PollFlags;

    /// One who connects and sends nothing is sent away after a while, and the port is at its end then.
    /// Nobody told who polled.
    #[test]
    fn who_polls_hears_of_the_end_after_one_who_sends_nothing() {
        let (mut port, handle) = Port::unnamed(&PortOptions::new()).expect("a port");
        let polled = port.poll_descriptor().expect("one").try_clone_to_owned().expect("a copy");
        let (way, alive) = handle.into_descriptors();
        let path = weir_sys::proc::path_of_own(&way);
        let _silent = name::dial(&READ, path.as_ref(), None).expect("connected");
        drop((way, alive));
        let call = |port: &mut Port| {
            port.receive_timeout(&mut [0; 8], Timeout::Now).expect_err("nothing comes").kind()
        };
        assert_eq!(call(&mut port), ErrorKind::WouldBlock, "it may still send a ring");
        while call(&mut port) == ErrorKind::WouldBlock {
            port.rings.acceptor.make_older(Duration::from_secs(5));
            let told = wait_ready(&polled, PollFlags::IN, Some(Duration::from_secs(10)));
            assert_eq!(told, Ok(true), "the end is told");
        }
        assert_eq!(call(&mut port), ErrorKind::Closed);
    }
}
