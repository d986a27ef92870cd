//! How a side waits. It spins for as long as that has paid recently, then announces that it parks,
//! looks once more, and sleeps on its word and on those of the mpx joined to it.

use super::OBJECT;
use super::link_end::LinkEnd;
use super::multiplexer::{LOOK_AT_ALL, Multiplexer};
use super::record::{LABEL_BYTES, Record};
use super::turn::RecordDelivery;
use crate::error::{Error, ErrorKind, Result};
use crate::park::{Parked, Until, WaitSource, Waiting, futex, peer_of};
use std::time::{Duration, Instant};
use weir_policy::pipe::PeerCpu;
use weir_policy::ready::WorkBudget;
use weir_ring::account::add;
use weir_ring::lane::LinkSide;
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::sleep;

/// How often a call that does not wait serves channels without getting a record: it may move bytes
/// between connected channels, or do other work.
const MOST_MOVES: u32 = 16;

impl Multiplexer {
    /// Receives what there is, and waits for it until `until`: how many records.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        until: Until,
        each: &mut dyn FnMut(Record<'_>),
    ) -> Result<usize> {
        self.check_here()?;
        if buffer.len() < LABEL_BYTES {
            let bytes = buffer.len();
            let why = format!("the buffer has {bytes} bytes, it needs at least {LABEL_BYTES}");
            return Err(Error::new(ErrorKind::Invalid, "read from", OBJECT, why));
        }
        let (path, work) = (Vec::new(), WorkBudget::default());
        let mut delivery = RecordDelivery { buffer, each, path, records: 0, bytes: 0, work };
        let mut moves = 0;
        loop {
            let more = self.serve(&mut delivery, !matches!(until, Until::Now));
            // What was called may have forked.
            self.check_here()?;
            if delivery.records > 0 {
                self.acted();
                return Ok(delivery.records);
            }
            if let Some((index, fault)) = self.table.faults.pop() {
                // The next call tries again.
                self.table.wake(index);
                self.acted();
                return Err(fault);
            }
            if self.is_over() {
                return Err(self.gone());
            }
            moves += 1;
            delivery.bytes = 0;
            match until {
                Until::Now if moves >= MOST_MOVES => {
                    // The descriptor stays readable: there is more to do.
                    self.acted();
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
                    add(&self.table.home.account().waits, 1);
                    if !self.spins(until)? {
                        self.sleep(until)?;
                    }
                }
            }
        }
    }

    /// Spins for a while: whether something came, or it is time to look at all links.
    pub fn spins(&mut self, until: Until) -> Result<bool> {
        let until = until.at_most(LOOK_AT_ALL).map_or(until, Until::after);
        // Taken out, so that the looks may use all else.
        let Some(mut spinner) = self.spinner.take() else { return Ok(false) };
        let moved_bytes = self.table.home.account().bytes_in.load(Ordering::Relaxed);
        let look = || Ok(sees(self).then_some(()));
        let peer = || self.other_cpu();
        let found = spinner.spin(moved_bytes, until, peer, || 0, || false, look);
        let waiting = spinner.waiting();
        self.spinner = Some(spinner);
        let came = found?.is_some();
        if came {
            add(&self.table.home.account().spun, 1);
        } else if waiting == Waiting::Spin {
            self.look_at_all_in_time();
            return Ok(true);
        }
        Ok(came)
    }

    /// The CPU of the other side of the link that was served last. Also records the CPU of this side.
    fn other_cpu(&self) -> PeerCpu {
        let link = self.table.links.get(self.last as usize).and_then(Option::as_ref);
        peer_of(&self.table.home.sleep().cpu, link.map_or(0, LinkEnd::other_cpu))
    }

    /// Looks again for a call that does not wait and found nothing: whether there is nothing. If the
    /// participant is polled, this first makes its doorbell ring once there is something.
    pub fn looks_once_more(&mut self) -> Result<bool> {
        let Some(doorbell) = &self.doorbell else { return Ok(true) };
        doorbell.clear();
        if self.table.home.side() == LinkSide::Peer {
            self.table.links.iter_mut().flatten().for_each(LinkEnd::take_messages);
        }
        for link in doorbell.rung() {
            if let Some(link) = self.table.link(link as u32) {
                link.line.take_messages(true, |_, _| {});
            }
        }
        // A new connection may show here before the watcher reports it.
        self.inbox.notify();
        sleep::announce(&self.table.home.sleep().word, sleep::POLLING);
        self.table.look_away();
        Ok(!self.is_ready()?)
    }

    /// Announces that this one and all joined ones park, and looks once more: whether there is
    /// nothing. If there is something, the announcement is taken back.
    fn announce_all(&mut self) -> Result<bool> {
        self.each_mut(&mut |one| {
            one.announced = sleep::announce(&one.table.home.sleep().word, sleep::ASLEEP);
            one.table.look_away();
        });
        let nothing = self.is_ready().map(|is_ready| !is_ready && self.may_sleep());
        if !matches!(nothing, Ok(true)) {
            self.retract();
        }
        nothing
    }

    fn gone(&self) -> Error {
        match &self.table.refusal {
            Some(why) => Error::new(ErrorKind::Refused, "read from", OBJECT, why.clone()),
            None => Error::new(ErrorKind::Closed, "read from", OBJECT, "its owner is gone"),
        }
    }

    fn may_sleep(&self) -> bool {
        let mut may = true;
        self.each(&mut |one| may &= one.inbox.falls_asleep());
        may
    }

    pub fn sleep(&mut self, until: Until) -> Result<()> {
        let most = self.most_sleep();
        if self.announce_all()? {
            let mut words = Vec::new();
            self.words(0, &mut words);
            let begun = Instant::now();
            let slept = futex::wait_any(&words, until.at_most(most));
            let ns = begun.elapsed().as_nanos() as u64;
            self.spinner.iter_mut().for_each(|spinner| spinner.slept(ns));
            self.head_start.sleeps();
            let account = self.table.home.account();
            // Whoever wakes it changes the word.
            let word = &self.table.home.sleep().word;
            let woken = word.load(Ordering::Relaxed) != self.announced;
            add(&account.slept, 1);
            add(&account.slept_ns, ns);
            add(&account.wakes_taken, woken.into());
            self.retract();
            self.after_sleep(begun.elapsed())?;
            slept.map_err(|cause| Error::os("sleep on", OBJECT, cause))?;
        }
        Ok(())
    }
}

fn sees(one: &Multiplexer) -> bool {
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

impl WaitSource for Multiplexer {
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        Multiplexer::is_ready(self)
    }

    fn announce(&mut self, _: u64) -> Result<Option<u32>> {
        Ok(self.announce_all()?.then_some(self.announced))
    }

    fn retract(&mut self) {
        self.each(&mut |one| Parked::retract(&one.table.home.sleep().word, &one.inbox));
    }

    fn words<'w>(&'w self, _: u32, words: &mut Vec<(&'w AtomicU32, u32)>) {
        self.each(&mut |one| words.push((&one.table.home.sleep().word, one.announced)));
    }

    fn word_count(&self) -> usize {
        let mut count = 0;
        self.each(&mut |_| count += 1);
        count
    }

    /// An owner must look at all its links from time to time.
    fn most_sleep(&self) -> Option<Duration> {
        let mut looks = false;
        self.each(&mut |one| {
            looks |= one
                .listener
                .as_ref()
                .is_some_and(|listener| one.table.peers() > 0 || listener.acceptor.is_busy());
        });
        looks.then_some(LOOK_AT_ALL)
    }

    fn after_sleep(&mut self, _: Duration) -> Result<()> {
        self.each_mut(&mut Multiplexer::look_at_all_in_time);
        Ok(())
    }
}
