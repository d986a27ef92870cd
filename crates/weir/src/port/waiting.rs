//! How the reader of a port waits: spins on the rings it looks at, then makes all of them cold and
//! sleeps on the board.

use super::choice::LOOK_AT_ALL;
use super::reader::{Port, READ};
use super::slot::Sight;
use crate::connect::site::ParkSite;
use crate::error::{ErrorKind, Result};
use crate::park::doorbell::Doorbell;
use crate::park::{Parked, Source, Until, Wait};
use rustix::io::Errno;
use std::time::{Duration, Instant};
use weir_policy::ready::{WAIT_UNITS, Work};
use weir_ring::account::add;
use weir_ring::primitive::AtomicU32;
use weir_ring::sleep;

/// What one call has done so far, and until when it may go on.
#[derive(Debug)]
pub(super) struct Effort {
    until: Until,
    work: Work,
    is_first: bool,
}

impl Effort {
    #[inline]
    pub fn new(until: Until) -> Effort {
        Effort { until, work: Work::default(), is_first: true }
    }

    /// A step showed nothing, and moved so many bytes.
    pub fn was_in_vain(&mut self, bytes: usize) {
        self.work.moves(bytes);
    }
}

impl Port {
    /// A writer that has something, for a call that may have looked at others in vain.
    #[inline]
    pub(super) fn next_of(&mut self, effort: &mut Effort) -> Result<u32> {
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
            effort.work = Work::default();
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
    pub(super) fn next(&mut self, until: Until) -> Result<u32> {
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
    pub(super) fn let_in(&mut self) -> Result<()> {
        let news = self.choice.inbox().take();
        self.choice.on_gone(&news.gone)?;
        if news.notified || self.entrance.is_busy() {
            for arrival in self.entrance.admit() {
                let place = self.choice.let_in(arrival, &self.options);
                if let (Some(place), Some(doorbell)) = (place, &self.doorbell) {
                    let (end, _) = self.choice.slot(place)?.reader.parts()?;
                    if let Some(socket) = end.life.socket() {
                        end.life.is_polled_by(doorbell.add(socket, u64::from(place))?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until there is something to receive, for that time at most; receives nothing.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing came. [`ErrorKind::Forked`].
    pub fn wait_for(&mut self, time: Duration) -> Result<()> {
        self.next(Until::after(time)).map(drop)
    }

    /// Whether there is something, looking at everything.
    pub(crate) fn is_ready(&mut self) -> Result<bool> {
        self.check_here()?;
        if self.choice.inbox().has_news() || self.entrance.is_busy() {
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

    /// Looks for a while, as long as that has paid of late, with the habits of the end that was
    /// served last: it knows where its writer runs.
    fn spin(&mut self, until: Until) -> Result<()> {
        let Some(last) = self.choice.last.filter(|last| self.choice.hot.contains(*last)) else {
            return Ok(());
        };
        let Some(mut slot) = self.choice.slots[last as usize].take() else { return Ok(()) };
        let inbox = self.choice.inbox().clone();
        let choice = &mut self.choice;
        let alone = choice.hot.len() == 1;
        let (end, ring) = slot.reader.parts()?;
        if alone {
            let dry = std::mem::take(&mut end.since_dry);
            end.pause(dry);
        }
        let board = choice.board_handle();
        let (slots, hot) = (&mut choice.slots, &choice.hot);
        let spun = end.spin(until, |map| {
            if !matches!(ring.look(map), Ok(None)) || board.words().any() || inbox.has_news() {
                return Ok(true);
            }
            for place in hot.iter() {
                if let Some(other) = &mut slots[place as usize]
                    && other.look()? == Sight::Something
                {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        self.choice.slots[last as usize] = Some(slot);
        spun.map(drop)
    }

    /// Makes all rings cold and sleeps on the board.
    fn sleep(&mut self, until: Until) -> Result<()> {
        let slice = self.slice();
        let Some(parked) = self.announce()? else { return Ok(()) };
        let slept = parked.sleep(until.at_most(slice));
        let account = &self.choice.board().account;
        add(&account.slept, 1);
        add(&account.slept_ns, slept.ns);
        self.after_sleep(Duration::from_nanos(slept.ns))
    }

    /// How long to sleep at most: bits on the board may have been spoiled by a writer, and someone
    /// who has come may have to be sent away.
    fn slice(&self) -> Option<Duration> {
        (self.choice.len() > 0 || self.entrance.is_busy()).then_some(LOOK_AT_ALL)
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

    pub(super) fn make_doorbell(&mut self) -> Result<()> {
        if self.doorbell.is_some() {
            return Ok(());
        }
        let path = self.entrance.path();
        let socket = self.entrance.socket().ok_or_else(|| READ.os(path, Errno::BADF))?;
        let doorbell = Doorbell::new(socket)?;
        for slot in self.choice.slots.iter_mut().flatten() {
            let place = u64::from(slot.id.slot);
            let (end, _) = slot.reader.parts()?;
            if let Some(socket) = end.life.socket() {
                end.life.is_polled_by(doorbell.add(socket, place)?);
            }
        }
        self.doorbell = Some(doorbell);
        Ok(())
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
    pub(super) fn acted(&self) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring();
        }
    }
}

impl<'a> Wait<'a> {
    /// For a message of a port, or the end of one of its writers.
    ///
    /// # Errors
    /// There are too many already.
    pub fn port(self, port: &'a mut Port) -> Result<Wait<'a>> {
        self.source(port, 0)
    }
}

impl Source for Port {
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        Port::is_ready(self)
    }

    fn announce(&mut self, _: u64) -> Result<Option<u32>> {
        Ok(Port::announce(self)?.and_then(Parked::leave))
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
