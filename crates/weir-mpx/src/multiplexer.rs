//! One side of an mpx: it accepts peers, finds the channels that have something, and serves them.
//!
//! Gathering goes from the board of the owner to those of its links, and from there to channels. A
//! side that finds nothing announces that it parks, looks once more, and sleeps.

use super::OBJECT;
use super::channels::ChannelState;
use super::descriptors::Descriptors;
use super::home::ParticipantHome;
use super::link_end::LinkEnd;
use super::listener::{PeerListener, poll};
use super::record::{ChannelId, LABEL_BYTES, Record};
use super::sides::{Mpx, Multiplexer};
use super::table::ChannelTable;
use super::turn::{self, RecordDelivery};
use super::waiting::Idle;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir::parts::{Doorbell, Inbox, Parked, SHORT_BYTES, Slept, Until, WaitSource, sleep_on};
use weir::{Error, ErrorKind, Result, Waiting};
use weir_policy::ready::{CONNECTION_UNITS, WorkBudget};
use weir_ring::account::add;
use weir_ring::lane::LinkSide;
use weir_ring::primitive::AtomicU32;
use weir_ring::sleep;
use weir_sys::forks;

/// How often an owner looks at all its links. One peer can spoil the board of all.
pub const LOOK_AT_ALL: Duration = Duration::from_millis(100);
/// Calls between two readings of the clock while there is always something to do.
const CALLS: u32 = 64;
/// Turns of ready channels, all of one priority, between two looks at hot lanes.
const HOT_TURNS: u32 = 8;
/// How often a call that does not wait serves channels without getting a record: it may move bytes
/// between connected channels, or do other work.
const MOST_MOVES: u32 = 16;

impl Multiplexer {
    pub fn new(
        home: ParticipantHome,
        inbox: Arc<Inbox>,
        listener: Option<PeerListener>,
        waiting: Waiting,
    ) -> Multiplexer {
        Multiplexer {
            table: ChannelTable::new(home),
            listener,
            children: Vec::new(),
            inbox,
            doorbell: None,
            looked: Instant::now(),
            calls: 0,
            announced: 0,
            serving: None,
            idle: Idle::new(waiting),
            epoch: forks::epoch(),
        }
    }

    #[inline]
    pub fn check_here(&self) -> Result<()> {
        if self.epoch == forks::epoch() { Ok(()) } else { Err(forked_error()) }
    }

    /// Begins a call that changes something: the descriptor is readable until the next `WouldBlock`.
    #[inline]
    pub fn act(&self) -> Result<()> {
        self.check_here()?;
        self.acted();
        Ok(())
    }

    #[inline]
    pub fn acted(&self) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring();
        }
    }

    /// Sends short data if nothing else is to be done: whether it did.
    pub fn send_short(&mut self, channel: ChannelId, bytes: &[u8]) -> bool {
        SHORT_BYTES.contains(&bytes.len())
            && self.doorbell.is_none()
            && self.table.send_short(channel, bytes)
    }

    /// Calls `f` for this one and all that were joined to it.
    pub fn each<'a>(&'a self, f: &mut dyn FnMut(&'a Multiplexer)) {
        f(self);
        self.children.iter().for_each(|(_, child)| child.inner.each(f));
    }

    /// Calls `f` as [`Multiplexer::each`] does, with a mutable reference.
    pub fn each_mut(&mut self, f: &mut dyn FnMut(&mut Multiplexer)) {
        f(self);
        self.children.iter_mut().for_each(|(_, child)| child.inner.each_mut(f));
    }

    fn child(&mut self, index: u32) -> Option<&mut Multiplexer> {
        let found = self.children.iter_mut().find(|(at, _)| *at == index);
        found.map(|(_, child)| &mut child.inner)
    }

    fn collect(&mut self, work: &mut WorkBudget) {
        if let Some(index) = self.serving.take() {
            // What was called may have panicked the last time.
            self.table.wake(index);
        }
        if self.inbox.has_news() {
            work.does(self.let_in());
        }
        self.calls = self.calls.wrapping_add(1);
        if self.table.has_priorities
            || self.table.ready.is_empty()
            || self.calls.is_multiple_of(HOT_TURNS)
        {
            work.does(self.table.poll_hot());
        }
        match &self.table.home {
            ParticipantHome::Peer(_) => work.does(self.table.gather_link(0)),
            ParticipantHome::Owner(page) => {
                if page.words().any() {
                    let page = page.clone();
                    page.words().gather(|link| work.does(self.table.gather_link(link)));
                }
                if self.calls.is_multiple_of(CALLS) {
                    self.poll_all_in_time();
                }
            }
        }
        for (index, child) in &mut self.children {
            child.inner.collect(work);
            if !child.inner.table.ready.is_empty() {
                self.table.wake(*index);
            }
        }
    }

    /// Looks at every link if it is time for that: a peer may have spoiled the board.
    pub(super) fn poll_all_in_time(&mut self) {
        if self.listener.is_none() || self.looked.elapsed() < LOOK_AT_ALL {
            return;
        }
        self.looked = Instant::now();
        for link in 0..self.table.links.len() as u32 {
            self.table.gather_link(link);
        }
        if self.listener.as_ref().is_some_and(|listener| listener.acceptor.is_busy()) {
            self.inbox.notify();
            self.let_in();
        }
    }

    /// Takes new peers in, and ends the links of those that are gone. Returns the work that it was.
    fn let_in(&mut self) -> u32 {
        let news = self.inbox.take();
        let mut count = news.gone.len() as u32;
        if news.notified {
            count += self.table.poll_descriptors();
        }
        for at in news.gone {
            // A new link may have the number of one that is gone.
            let gone = self.table.link(at).filter(|link| link.other.line.is_dead());
            if let (Some(doorbell), Some(_)) = (&self.doorbell, &self.listener)
                && let Some(socket) = gone.and_then(|link| link.other.line.socket())
            {
                doorbell.remove(socket);
            }
            self.table.on_peer_gone(at);
        }
        if let Some(listener) =
            self.listener.as_mut().filter(|listener| news.notified || listener.acceptor.is_busy())
        {
            // A connection that is refused is work as well.
            count += 1 + listener.admit(&mut self.table, &self.inbox, self.doorbell.as_ref());
        }
        count.saturating_mul(CONNECTION_UNITS)
    }

    /// Serves channels in their order, up to the limits of a call: whether there are more. A call that
    /// may wait lets streaming writers run ahead when nothing is left.
    pub fn serve(&mut self, delivery: &mut RecordDelivery, may_wait: bool) -> bool {
        delivery.work = WorkBudget::default();
        if self.table.ready.is_empty() {
            let Multiplexer { table, inbox, idle, .. } = self;
            delivery.work.does(idle.let_writers_ahead(table, inbox, may_wait));
        }
        loop {
            self.collect(&mut delivery.work);
            let before = delivery.records;
            let served = self.serve_one(delivery);
            self.idle.moved_in_turn((delivery.records - before) as u32);
            if !served || self.check_here().is_err() {
                return false;
            }
            // The caller gets what there is before this looks for more: someone may wait for its
            // answer.
            let is_dry = self.table.ready.is_empty();
            if delivery.records > 0 && is_dry || delivery.is_full() {
                return !is_dry;
            }
        }
    }

    /// Serves the next channel: whether there is one. If it is a joined mpx, serves that one's next
    /// channel.
    fn serve_one(&mut self, delivery: &mut RecordDelivery) -> bool {
        let Some((index, _)) = self.table.ready.pop() else { return false };
        delivery.work.does(1);
        self.serving = Some(index);
        self.serve_channel(index, delivery);
        self.serving = None;
        true
    }

    fn serve_channel(&mut self, index: u32, delivery: &mut RecordDelivery) {
        let entry = &self.table.channels[index];
        if entry.state != ChannelState::Joined {
            self.idle.served(entry.link);
            return turn::serve(&mut self.table, index, delivery);
        }
        let id = self.table.channels.id(index);
        if let Some(child) = self.child(index) {
            delivery.path.push(id);
            child.serve_one(delivery);
            delivery.path.pop();
            if !child.table.ready.is_empty() {
                self.table.wake(index);
            }
        }
    }

    pub fn is_ready(&mut self) -> Result<bool> {
        self.check_here()?;
        self.collect(&mut WorkBudget::default());
        Ok(self.has_ready() || self.is_over())
    }

    /// Whether a channel has something to do. Channels that turn out to have nothing leave the queue.
    fn has_ready(&mut self) -> bool {
        while let Some((index, _)) = self.table.ready.first() {
            let is_idle = match self.child(index) {
                Some(child) => !child.has_ready(),
                None => turn::is_idle(&mut self.table, index),
            };
            if !is_idle {
                return true;
            }
            self.table.ready.remove(index);
        }
        false
    }

    /// At a peer: whether its owner is gone, and nothing is left to receive.
    pub fn is_over(&self) -> bool {
        self.table.home.side() == LinkSide::Peer && self.table.peers() == 0
    }

    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_here()?;
        let failed = || Error::os("poll", OBJECT, Errno::BADF);
        if self.doorbell.is_none() {
            let links = || self.table.links.iter().flatten();
            let doorbell = match &self.listener {
                Some(listener) => listener.acceptor.socket().map(Doorbell::timed),
                None => links().next().and_then(|it| it.other.line.socket()).map(Doorbell::new),
            };
            let doorbell = doorbell.ok_or_else(failed)??;
            if let Some(listener) = &self.listener {
                listener.acceptor.is_polled_by(&doorbell);
                for (number, link) in (0..).zip(&self.table.links) {
                    link.iter().try_for_each(|link| poll(&link.other.line, &doorbell, number))?;
                }
            }
            if let Some(own) = self.table.descriptors.as_ref().and_then(Descriptors::get) {
                doorbell.add_own(own)?;
            }
            self.doorbell = Some(doorbell);
        }
        self.doorbell.as_ref().map(AsFd::as_fd).ok_or_else(failed)
    }

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
        let mut delivery = RecordDelivery::new(buffer, each);
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
                return Err(self.peer_gone_error());
            }
            moves += 1;
            delivery.bytes = 0;
            match until {
                Until::Now if moves >= MOST_MOVES || delivery.work.is_over() => {
                    // The descriptor stays readable: there is more to do.
                    self.doorbell.iter().for_each(Doorbell::ring_again);
                    return Err(nothing(ErrorKind::WouldBlock));
                }
                Until::Now if !more && self.poll_again()? => {
                    return Err(nothing(ErrorKind::WouldBlock));
                }
                Until::Then(then) if Instant::now() >= then => {
                    return Err(nothing(ErrorKind::TimedOut));
                }
                Until::Now => {}
                _ if more => {}
                _ => {
                    self.count_wait();
                    if !self.spins(until)?
                        && let Some(slept) = sleep_on(self, until)?
                    {
                        self.idle.slept(slept.ns);
                    }
                }
            }
        }
    }

    /// Spins for a while: whether something came, or it is time to look at all links.
    fn spins(&mut self, until: Until) -> Result<bool> {
        let until = until.at_most(LOOK_AT_ALL).map_or(until, Until::after);
        let Multiplexer { table, inbox, children, idle, .. } = self;
        let came = idle.spin(until, table, || sees(table, inbox, children))?;
        if !came && idle.only_spins() {
            self.poll_all_in_time();
            return Ok(true);
        }
        Ok(came)
    }

    /// Looks again for a call that does not wait and found nothing: whether there is nothing. If the
    /// participant is polled, this first makes its doorbell ring once there is something.
    pub fn poll_again(&mut self) -> Result<bool> {
        let Some(doorbell) = &self.doorbell else { return Ok(true) };
        doorbell.clear();
        if self.table.home.side() == LinkSide::Peer {
            self.table.links.iter_mut().flatten().for_each(|link| link.other.take_messages());
        }
        for at in doorbell.rung() {
            if let Some(link) = self.table.link(at as u32) {
                link.other.line.take_messages(true, |_, _| {});
                // Another peer may have taken its bit off the owner's board.
                self.table.gather_link(at as u32);
            }
        }
        self.poll_all_in_time();
        // A new connection may show here before the watcher reports it.
        self.inbox.notify();
        sleep::announce(&self.table.home.sleep().word, sleep::POLLING);
        self.table.stop_polling();
        let is_ready = self.is_ready()?;
        if self.inbox.has_news() {
            // More have come than are taken in at a time.
            self.acted();
        }
        if let (Some(doorbell), Some(listener)) = (&self.doorbell, &self.listener) {
            doorbell.ring_soon(listener.acceptor.is_busy());
        }
        Ok(!is_ready)
    }

    /// Announces that this one and all joined ones park, and looks once more: whether there is
    /// nothing. If there is something, the announcement is taken back.
    fn announce_all(&mut self) -> Result<bool> {
        self.each_mut(&mut |one| {
            one.announced = sleep::announce(&one.table.home.sleep().word, sleep::ASLEEP);
            one.table.stop_polling();
        });
        let nothing = self.is_ready().map(|is_ready| !is_ready && self.may_sleep());
        if !matches!(nothing, Ok(true)) {
            self.retract();
        }
        nothing
    }

    fn peer_gone_error(&self) -> Error {
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
}

impl Drop for Multiplexer {
    fn drop(&mut self) {
        if self.check_here().is_ok() {
            self.table.links.iter().flatten().for_each(LinkEnd::close);
            // Removes the name first, so that nobody connects meanwhile.
            self.listener = None;
        }
    }
}

#[cold]
fn forked_error() -> Error {
    Error::forked("use", OBJECT)
}

/// Whether something has come for this one, or for one that was joined to it.
fn sees(table: &ChannelTable, inbox: &Inbox, children: &[(u32, Mpx)]) -> bool {
    let child_sees =
        |Multiplexer { table, inbox, children, .. }: &Multiplexer| sees(table, inbox, children);
    table.home.has_bits()
        || table.hot.any(&table.links)
        || inbox.has_news()
        || children.iter().any(|(_, child)| child_sees(&child.inner))
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

    fn count_wait(&self) {
        add(&self.table.home.account().waiting.waits, 1);
    }

    fn after_sleep(&mut self, slept: Slept) -> Result<()> {
        self.table.home.account().waiting.count_sleep(slept.ns, slept.woken);
        self.each_mut(&mut Multiplexer::poll_all_in_time);
        Ok(())
    }
}
