//! How a participant waits: looks for as long as that has paid of late, then says so, looks once
//! more, and sleeps on its word and those of what was joined to it.

use super::OBJECT;
use super::link_end::LinkEnd;
use super::participant::{LOOK_AT_ALL, Participant};
use super::record::{LABEL_BYTES, Record};
use super::turn::Delivery;
use crate::error::{Error, ErrorKind, Result};
use crate::park::{Parked, Source, Until, Waiting, futex, peer_of};
use std::time::{Duration, Instant};
use weir_policy::pipe::Peer;
use weir_policy::ready::Work;
use weir_ring::account::add;
use weir_ring::lane::Side;
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::sleep;

/// Times a call that does not wait moves so many bytes between connected channels, or does other
/// work of which no record comes.
const MOST_MOVES: u32 = 16;

/// A participant that waits.
pub struct Waiter<'a>(pub &'a mut Participant);

impl Waiter<'_> {
    /// Receives what there is, waiting for it until then: how many records.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        until: Until,
        each: &mut dyn FnMut(Record<'_>),
    ) -> Result<usize> {
        self.0.check_here()?;
        if buffer.len() < LABEL_BYTES {
            let why = format!("the buffer has {} bytes, {LABEL_BYTES} are the least", buffer.len());
            return Err(Error::new(ErrorKind::Invalid, "read from", OBJECT, why));
        }
        let (path, work) = (Vec::new(), Work::default());
        let mut delivery = Delivery { buffer, each, path, records: 0, bytes: 0, work };
        let mut moves = 0;
        loop {
            let more = self.0.serve(&mut delivery);
            if delivery.records > 0 {
                self.0.acted();
                return Ok(delivery.records);
            }
            if self.0.is_over() {
                return Err(self.gone());
            }
            moves += 1;
            delivery.bytes = 0;
            match until {
                Until::Now if moves >= MOST_MOVES => {
                    // Readable as before: there is more to do.
                    self.0.acted();
                    return Err(nothing(ErrorKind::WouldBlock));
                }
                Until::Now if !more && self.looks_once_more()? => {
                    return Err(nothing(ErrorKind::WouldBlock));
                }
                Until::Then(then) if Instant::now() >= then => {
                    return Err(nothing(ErrorKind::TimedOut));
                }
                Until::Now => {}
                _ if more => {}
                _ => {
                    add(&self.0.table.home.account().waits, 1);
                    if !self.spins(until)? {
                        self.sleep(until)?;
                    }
                }
            }
        }
    }

    /// Looks for a while whether something comes, or it is time to look at more.
    pub fn spins(&mut self, until: Until) -> Result<bool> {
        let until = until.at_most(LOOK_AT_ALL).map_or(until, Until::after);
        let mut spinner = self.0.spinner.clone();
        let came = spinner.spin(until, || self.other_cpu(), || 0, || false, || Ok(sees(self.0)))?;
        self.0.spinner = spinner;
        if came {
            add(&self.0.table.home.account().spun, 1);
        } else if self.0.spinner.waiting() == Waiting::Spin {
            self.0.look_at_all_in_time();
            return Ok(true);
        }
        Ok(came)
    }

    /// Where the other side of the link that was served last has said that it is; and says so of
    /// this one.
    fn other_cpu(&self) -> Peer {
        let link = self.0.table.links.get(self.0.last as usize).and_then(Option::as_ref);
        peer_of(&self.0.table.home.sleep().cpu, link.map_or(0, LinkEnd::other_cpu))
    }

    /// For a call that does not wait and found nothing: if the participant is polled, makes its
    /// doorbell ring once there is something. Whether there is nothing.
    pub fn looks_once_more(&mut self) -> Result<bool> {
        let Some(doorbell) = &self.0.doorbell else { return Ok(true) };
        doorbell.clear();
        if self.0.table.home.side() == Side::Peer {
            self.0.table.links.iter_mut().flatten().for_each(LinkEnd::hear);
        }
        for link in doorbell.rung() {
            if let Some(link) = self.0.table.link(link as u32) {
                link.line.take_messages(true, |_, _| {});
            }
        }
        // Somebody at the door shows here as well as at the watcher's.
        self.0.inbox.notify();
        sleep::announce(&self.0.table.home.sleep().word, sleep::POLLING);
        self.0.table.look_away();
        Ok(!self.0.is_ready()?)
    }

    /// Says that it is about to sleep, and looks once more: whether
    /// there is nothing. Else it has said nothing.
    fn announce(&mut self) -> Result<bool> {
        self.0.each_mut(&mut |one| {
            one.said = sleep::announce(&one.table.home.sleep().word, sleep::ASLEEP);
            one.table.look_away();
        });
        let nothing = self.0.is_ready().map(|is_ready| !is_ready && self.may_sleep());
        if !matches!(nothing, Ok(true)) {
            self.0.retract();
        }
        nothing
    }

    fn gone(&self) -> Error {
        match &self.0.table.refusal {
            Some(why) => Error::new(ErrorKind::Refused, "read from", OBJECT, why.clone()),
            None => Error::new(ErrorKind::Closed, "read from", OBJECT, "its owner is gone"),
        }
    }

    fn may_sleep(&self) -> bool {
        let mut may = true;
        self.0.each(&mut |one| may &= one.inbox.falls_asleep());
        may
    }

    /// Sleeps until something comes.
    pub fn sleep(&mut self, until: Until) -> Result<()> {
        let most = self.0.most_sleep();
        if self.announce()? {
            let mut words = Vec::new();
            self.0.words(0, &mut words);
            let begun = Instant::now();
            let slept = futex::wait_any(&words, until.at_most(most));
            let ns = begun.elapsed().as_nanos() as u64;
            self.0.spinner.slept(ns);
            let account = self.0.table.home.account();
            // Whoever wakes it takes what it has said away.
            let word = &self.0.table.home.sleep().word;
            let woken = word.load(Ordering::Relaxed) != self.0.said;
            add(&account.slept, 1);
            add(&account.slept_ns, ns);
            add(&account.wakes_taken, woken.into());
            self.0.retract();
            self.0.after_sleep(begun.elapsed())?;
            slept.map_err(|cause| Error::os("sleep on", OBJECT, cause))?;
        }
        Ok(())
    }
}

/// Whether something has come, as far as one quick look says.
fn sees(one: &Participant) -> bool {
    one.table.home.has_bits()
        || one.table.hot.any(&one.table.links)
        || one.inbox.has_news()
        || one.children.iter().any(|(_, child)| sees(&child.inner))
}

#[cold]
fn nothing(kind: ErrorKind) -> Error {
    let why = if kind == ErrorKind::TimedOut { "nothing came in time" } else { "there is nothing" };
    Error::new(kind, "read from", OBJECT, why)
}

impl Source for Participant {
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        Participant::is_ready(self)
    }

    fn announce(&mut self, _: u64) -> Result<Option<u32>> {
        Ok(Waiter(self).announce()?.then_some(self.said))
    }

    fn retract(&mut self) {
        self.each(&mut |one| Parked::retract(&one.table.home.sleep().word, &one.inbox));
    }

    fn words<'w>(&'w self, _: u32, words: &mut Vec<(&'w AtomicU32, u32)>) {
        self.each(&mut |one| words.push((&one.table.home.sleep().word, one.said)));
    }

    fn word_count(&self) -> usize {
        let mut count = 0;
        self.each(&mut |_| count += 1);
        count
    }

    /// An owner looks at all its links now and then.
    fn most_sleep(&self) -> Option<Duration> {
        let mut looks = false;
        self.each(&mut |one| {
            looks |= one
                .door
                .as_ref()
                .is_some_and(|door| one.table.peers() > 0 || door.entrance.is_busy());
        });
        looks.then_some(LOOK_AT_ALL)
    }

    fn after_sleep(&mut self, _: Duration) -> Result<()> {
        self.each_mut(&mut Participant::look_at_all_in_time);
        Ok(())
    }
}
