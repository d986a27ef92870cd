//! How a participant waits: looks for as long as that has paid of late, then says so, looks once
//! more, and sleeps on the words of its board and of those that were joined to it.

use super::hub::{Hub, LOOK_AT_ALL};
use super::link::Link;
use super::{Mpx, MpxPeer, OBJECT};
use crate::error::{Error, Result};
use crate::park::{Parked, Source, Spinner, Until, Wait, Waiting, futex, peer_of};
use crate::pipe::options::Options;
use std::time::{Duration, Instant};
use weir_policy::pipe::Peer;
use weir_ring::lane::Side;
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::sleep;

/// What a wake-up is taken to cost where nothing was measured.
const WAKE_NS: u64 = 20_000;

/// How a participant that waits so spins.
pub fn spinner(waiting: Waiting) -> Spinner {
    Spinner::new(waiting, Options::new().resolve().map_or(WAKE_NS, |found| found.levers.wake_ns))
}

impl Hub {
    /// Looks for a while whether something comes, or it is time to look at more.
    pub(super) fn looks_a_while(&mut self, until: Until) -> Result<bool> {
        let until = until.at_most(LOOK_AT_ALL).map_or(until, Until::after);
        let mut spinner = self.spinner.clone();
        let came = spinner.spin(until, || self.other_cpu(), || false, || Ok(self.sees()))?;
        self.spinner = spinner;
        if !came && self.spinner.waiting() == Waiting::Spin {
            self.slept();
            return Ok(true);
        }
        Ok(came)
    }

    fn sees(&self) -> bool {
        self.has_bits()
            || self.inbox.has_news()
            || self.children.iter().any(|(_, child)| child.hub.sees())
    }

    /// Where the other side of the link that was served last has said that it is; and says so of
    /// this one.
    fn other_cpu(&self) -> Peer {
        let link = self.core.links.get(self.last as usize).and_then(Option::as_ref);
        let other = link.and_then(|link| match self.core.side {
            Side::Owner => Some(link.map.board(Side::Peer).sleep.cpu.load(Ordering::Relaxed)),
            Side::Peer => link.owner_cpu(),
        });
        peer_of(&self.bed.sleep().cpu, other.unwrap_or_default())
    }

    /// For a call that does not wait and found nothing: if the participant is polled, makes its
    /// doorbell ring once there is something. Whether there is nothing.
    pub(super) fn looks_once_more(&mut self) -> Result<bool> {
        let Some(doorbell) = &self.doorbell else { return Ok(true) };
        doorbell.clear();
        if self.core.side == Side::Peer {
            self.core.links.iter_mut().flatten().for_each(Link::hear);
        }
        for link in doorbell.rung() {
            if let Some(Some(link)) = self.core.links.get(link as usize) {
                link.line.take_messages(true, |_, _| {});
            }
        }
        // Somebody at the door shows here as well as at the watcher's.
        self.inbox.notify();
        sleep::announce(&self.bed.sleep().word, sleep::POLLING);
        Ok(!self.is_ready()?)
    }

    /// Says that it is about to sleep, on its words. False if there is something after all.
    pub fn announce(&mut self) -> Result<bool> {
        self.says_sleep();
        let nothing = self.is_ready().map(|is_ready| !is_ready && self.may_sleep());
        if !matches!(nothing, Ok(true)) {
            self.retract();
        }
        nothing
    }

    fn says_sleep(&mut self) {
        self.said = sleep::announce(&self.bed.sleep().word, sleep::ASLEEP);
        self.children.iter_mut().for_each(|(_, child)| child.hub.says_sleep());
    }

    fn may_sleep(&self) -> bool {
        self.inbox.falls_asleep() && self.children.iter().all(|(_, child)| child.hub.may_sleep())
    }

    /// After a sleep of that length.
    fn slept(&mut self) {
        if self.door.is_some() && self.looked.elapsed() >= LOOK_AT_ALL {
            self.look_at_all();
        }
        self.children.iter_mut().for_each(|(_, child)| child.hub.slept());
    }

    pub(super) fn sleep(&mut self, until: Until) -> Result<()> {
        let most = self.most_sleep();
        if self.announce()? {
            let mut words = Vec::new();
            self.words(self.said, &mut words);
            let begun = Instant::now();
            let slept = futex::wait_any(&words, until.at_most(most));
            self.spinner.slept(begun.elapsed().as_nanos() as u64);
            self.retract();
            self.slept();
            slept.map_err(|cause| Error::os("sleep on", OBJECT, cause))?;
        }
        Ok(())
    }
}

impl<'a> Wait<'a> {
    /// For what comes of the channels of an mpx. That there is something for its calls to do may
    /// also be what they do without a record.
    ///
    /// # Errors
    /// There are too many already; each that is joined to it counts.
    pub fn mpx(self, mpx: &'a mut Mpx) -> Result<Wait<'a>> {
        self.source(mpx.hub(), 0)
    }

    /// The same of a peer of one, also that its owner is gone.
    ///
    /// # Errors
    /// There are too many already.
    pub fn mpx_peer(self, peer: &'a mut MpxPeer) -> Result<Wait<'a>> {
        self.source(peer.hub(), 0)
    }
}

impl Source for Hub {
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        Hub::is_ready(self)
    }

    fn announce(&mut self, _: u64) -> Result<Option<u32>> {
        Ok(Hub::announce(self)?.then_some(self.said))
    }

    fn retract(&mut self) {
        Parked::retract(&self.bed.sleep().word, &self.inbox);
        self.children.iter_mut().for_each(|(_, child)| child.hub.retract());
    }

    fn words<'w>(&'w self, _: u32, words: &mut Vec<(&'w AtomicU32, u32)>) {
        words.push((&self.bed.sleep().word, self.said));
        self.children.iter().for_each(|(_, child)| child.hub.words(0, words));
    }

    fn word_count(&self) -> usize {
        1 + self.children.iter().map(|(_, child)| child.hub.word_count()).sum::<usize>()
    }

    fn most_sleep(&self) -> Option<Duration> {
        let door = self.door.as_ref();
        let looks = self.core.peers() > 0 || door.is_some_and(|door| door.entrance.is_busy());
        let own = (door.is_some() && looks).then_some(LOOK_AT_ALL);
        let children = self.children.iter().filter_map(|(_, child)| child.hub.most_sleep());
        own.into_iter().chain(children).min()
    }

    fn after_sleep(&mut self, _: Duration) -> Result<()> {
        self.slept();
        Ok(())
    }
}
