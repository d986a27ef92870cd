//! How a participant waits: looks for as long as that has paid of late, then says so, looks once
//! more, and sleeps on the words of its board and of those that were joined to it.

use super::OBJECT;
use super::hub::{Hub, LOOK_AT_ALL};
use super::link::Link;
use crate::error::{Error, Result};
use crate::park::futex;
use crate::pipe::end::Until;
use crate::pipe::options::{Options, Waiting};
use std::time::{Duration, Instant};
use weir_policy::pipe::{Peer, Spin, Yielding};
use weir_ring::lane::Side;
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::sleep;

/// Looks before the clock is read: some times what a line takes to travel.
const QUICK_LOOKS: u32 = 250;
/// Looks between two readings of the clock.
const LOOKS: u32 = 16;
/// What a wake-up is taken to cost where nothing was measured.
const WAKE_NS: u64 = 20_000;

/// What a participant has learnt of waiting.
#[derive(Debug)]
pub struct Habits {
    waiting: Waiting,
    spin: Spin,
    yielding: Yielding,
    /// The other side ran on this CPU the last time: looking only keeps it from it.
    shares_cpu: bool,
    /// The link that was served last.
    pub last: u32,
}

impl Habits {
    pub fn new(waiting: Waiting) -> Habits {
        let wake_ns = Options::new().resolve().map_or(WAKE_NS, |found| found.levers.wake_ns);
        let (spin, yielding) = (Spin::new(wake_ns), Yielding::default());
        Habits { waiting, spin, yielding, shares_cpu: false, last: 0 }
    }
}

impl Hub {
    /// Looks for a while whether something comes, or it is time to look at more.
    pub(super) fn looks_a_while(&mut self, until: Until) -> bool {
        let habits = &self.habits;
        if habits.waiting == Waiting::Sleep {
            return false;
        }
        let looks = if habits.shares_cpu { 1 } else { QUICK_LOOKS };
        if (0..looks).any(|_| self.sees()) {
            return true;
        }
        let peer = self.other_cpu();
        self.habits.shares_cpu = peer == Peer::SameCpu && self.habits.waiting == Waiting::Adaptive;
        let budget_ns = match self.habits.waiting {
            Waiting::Spin => LOOK_AT_ALL.as_nanos() as u64,
            _ => self.habits.spin.budget_ns(peer),
        };
        let left = match until {
            Until::Then(then) => then.saturating_duration_since(Instant::now()),
            _ => Duration::MAX,
        };
        let budget_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX).min(budget_ns);
        if budget_ns == 0 {
            return self.gives_way();
        }
        let begun = Instant::now();
        let mut rounds = 0_u64;
        loop {
            if (0..LOOKS).any(|_| self.sees()) {
                self.habits.spin.learn(true);
                return true;
            }
            rounds += 1;
            let over = begun.elapsed().as_nanos() as u64 >= budget_ns;
            if over && self.habits.waiting == Waiting::Spin {
                self.slept();
                return true;
            }
            // Now and then: where the other side has come to this CPU, this keeps it from it.
            let pointless = rounds.is_multiple_of(64) && self.other_cpu() == Peer::SameCpu;
            if over || (pointless && self.habits.waiting != Waiting::Spin) {
                self.habits.spin.learn(false);
                return false;
            }
        }
    }

    fn sees(&self) -> bool {
        std::hint::spin_loop();
        self.has_bits()
            || self.inbox.has_news()
            || self.children.iter().any(|(_, child)| child.hub.sees())
    }

    /// Lets the other side run once, on the CPU of both.
    fn gives_way(&mut self) -> bool {
        if !self.habits.shares_cpu || !self.habits.yielding.wants() {
            return false;
        }
        let begun = Instant::now();
        rustix::thread::sched_yield();
        let came = self.sees();
        self.habits.yielding.learn(came, begun.elapsed().as_nanos() as u64);
        came
    }

    /// Where the other side of the link that was served last has said that it is; and says so of
    /// this one. What it says is a hint.
    fn other_cpu(&self) -> Peer {
        let own = rustix::thread::sched_getcpu() as u32 + 1;
        let word = &self.bed.sleep().cpu;
        if word.load(Ordering::Relaxed) != own {
            word.store(own, Ordering::Relaxed);
        }
        let link = self.core.links.get(self.habits.last as usize).and_then(Option::as_ref);
        let other = link.and_then(|link| match self.core.side {
            Side::Owner => Some(link.map.board(Side::Peer).sleep.cpu.load(Ordering::Relaxed)),
            Side::Peer => link.owner_cpu(),
        });
        match other {
            None | Some(0) => Peer::Unknown,
            Some(other) if other == own => Peer::SameCpu,
            Some(_) => Peer::OtherCpu,
        }
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

    /// Says that it is about to sleep, on [`Hub::words`]. False if there is something after all:
    /// a sleep on these then ends at once.
    pub fn announce(&mut self) -> Result<bool> {
        self.says_sleep();
        if !self.is_ready()? && self.may_sleep() {
            return Ok(true);
        }
        self.retract();
        self.said = !&self.bed.sleep().word.load(Ordering::Relaxed);
        Ok(false)
    }

    fn says_sleep(&mut self) {
        self.said = sleep::announce(&self.bed.sleep().word, sleep::ASLEEP);
        self.children.iter_mut().for_each(|(_, child)| child.hub.says_sleep());
    }

    fn may_sleep(&self) -> bool {
        self.inbox.falls_asleep() && self.children.iter().all(|(_, child)| child.hub.may_sleep())
    }

    /// The words to sleep on, and what to expect of each.
    pub fn words<'a>(&'a self, words: &mut Vec<(&'a AtomicU32, u32)>) {
        words.push((&self.bed.sleep().word, self.said));
        self.children.iter().for_each(|(_, child)| child.hub.words(words));
    }

    /// It sleeps no more.
    pub fn retract(&mut self) {
        self.inbox.wakes_up();
        sleep::retract(&self.bed.sleep().word, sleep::ASLEEP);
        self.children.iter_mut().for_each(|(_, child)| child.hub.retract());
    }

    /// The most it may sleep.
    pub fn most_sleep(&self) -> Option<Duration> {
        let door = self.door.as_ref();
        let looks = self.core.peers() > 0 || door.is_some_and(|door| door.entrance.is_busy());
        let own = (door.is_some() && looks).then_some(LOOK_AT_ALL);
        let children = self.children.iter().filter_map(|(_, child)| child.hub.most_sleep());
        own.into_iter().chain(children).min()
    }

    /// How many words it sleeps on.
    pub fn word_count(&self) -> usize {
        1 + self.children.iter().map(|(_, child)| child.hub.word_count()).sum::<usize>()
    }

    /// After a sleep of that length.
    pub fn slept(&mut self) {
        if self.door.is_some() && self.looked.elapsed() >= LOOK_AT_ALL {
            self.look_at_all();
        }
        self.children.iter_mut().for_each(|(_, child)| child.hub.slept());
    }

    pub(super) fn sleep(&mut self, until: Until) -> Result<()> {
        let most = self.most_sleep();
        let time = match until {
            Until::Then(then) => {
                let left = then.saturating_duration_since(Instant::now());
                Some(most.map_or(left, |most| most.min(left)))
            }
            _ => most,
        };
        if self.announce()? {
            let mut words = Vec::new();
            self.words(&mut words);
            let begun = Instant::now();
            let slept = futex::wait_any(&words, time);
            self.habits.spin.slept(begun.elapsed().as_nanos() as u64);
            self.retract();
            self.slept();
            slept.map_err(|cause| Error::os("sleep on", OBJECT, cause))?;
        }
        Ok(())
    }
}
