//! One side of an mpx: it accepts peers, finds the channels that have something, and serves them.
//!
//! Gathering goes from the board of the owner to those of its links, and from there to channels. A
//! side that finds nothing announces that it parks, looks once more, and sleeps.

use super::descriptors::Descriptors;
use super::home::ParticipantHome;
use super::link_end::LinkEnd;
use super::record::ChannelId;
use super::table::{ChannelState, ChannelTable};
use super::turn::{self, RecordDelivery};
use super::{MpxOptions, OBJECT};
use crate::connect::acceptor::{Acceptor, Arrival};
use crate::connect::board::welcome;
use crate::connect::lifeline::Lifeline;
use crate::connect::passing::turn_away;
use crate::connect::site::Inbox;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::LinkMap;
use crate::memory::SHORT_BYTES;
use crate::park::doorbell::Doorbell;
use crate::park::{HeadStart, Spinner, Waiting};
use crate::pipe::options::Options;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_policy::ready::{CONNECTION_UNITS, WorkBudget};
use weir_ring::lane::LinkSide;
use weir_sys::forks::{self, ParentOnly};

/// How often an owner looks at all its links. One peer can spoil the board of all.
pub const LOOK_AT_ALL: Duration = Duration::from_millis(100);
/// Calls between two readings of the clock while there is always something to do.
const CALLS: u32 = 64;
/// Turns of ready channels, all of one priority, between two looks at hot lanes.
const HOT_TURNS: u32 = 8;
/// A call ends after this many records, even if there are more.
const MOST_RECORDS: usize = 1024;
/// A call ends after this many bytes, even if there are more.
const MOST_BYTES: usize = 256 << 10;
/// The assumed cost of a wake-up if none was measured.
const WAKE_NS: u64 = 20_000;

/// The place where peers connect to an owner.
#[derive(Debug)]
pub struct PeerListener {
    pub acceptor: Acceptor,
    /// The owner's page, which each peer gets.
    pub page: ParentOnly,
    pub options: MpxOptions,
}

/// One side of an mpx: its owner, [`Mpx`], or a peer, [`MpxPeer`].
///
/// Both sides receive records of channels and send on channels. A send never waits for room.
///
/// ```
/// use weir::mpx::{Answer, RecordKind};
/// use weir::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let mut owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// let channel = peer.open(b"echo")?;
/// peer.send(channel, b"hello")?;
///
/// let mut buffer = [0; 4096];
/// let mut echoed = false;
/// while !echoed {
///     let mut back = Vec::new();
///     owner.receive_each(&mut buffer, |record| back.push((record.channel, record.kind, record.bytes.to_vec())))?;
///     for (channel, kind, bytes) in back {
///         match kind {
///             RecordKind::Open => owner.accept(channel)?,
///             RecordKind::Data => echoed = owner.send(channel, &bytes)? == 5,
///             _ => {}
///         }
///     }
/// }
/// let mut came = Vec::new();
/// while came.is_empty() {
///     peer.receive_each(&mut buffer, |record| came.extend_from_slice(record.bytes))?;
/// }
/// assert_eq!(came, b"hello");
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct Participant<R> {
    pub(super) inner: Multiplexer,
    pub(super) role: R,
}

/// The role of an owner.
///
/// ```
/// use weir::mpx::{Owner, Participant};
/// use weir::{Mpx, MpxOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let owner: Participant<Owner> = Mpx::create(&name, &MpxOptions::new())?;
/// assert_eq!(owner.peers(), 0);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Owner;

/// The role of a peer.
///
/// ```
/// use weir::mpx::{Participant, Peer};
/// use weir::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let _owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer: Participant<Peer> = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// peer.open(b"log")?;
/// assert_eq!(peer.channels(), 1);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct Peer {
    pub(super) channels: u32,
    /// The link's memory. Other processes find the account by this descriptor.
    pub(super) _memory: ParentOnly,
}

/// The owner of an mpx. Dropping it ends all its channels and removes its name.
///
/// ```
/// use weir::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let mut owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// peer.open(b"log")?;
/// assert_eq!(owner.receive_each(&mut [0; 4096], |_| {})?, 1);
/// assert_eq!(owner.peers(), 1);
/// # Ok::<(), weir::Error>(())
/// ```
pub type Mpx = Participant<Owner>;

/// A process that is connected to an mpx and opens channels there. Dropping it ends them; the owner
/// still receives what was sent.
///
/// ```
/// use weir::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let _owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// let channel = peer.open(b"log")?;
/// // This waits until the owner has accepted the channel.
/// assert_eq!(peer.send(channel, b"started")?, 7);
/// # Ok::<(), weir::Error>(())
/// ```
pub type MpxPeer = Participant<Peer>;

/// The part that both sides of an mpx have in common.
#[derive(Debug)]
pub struct Multiplexer {
    pub table: ChannelTable,
    /// An owner has one.
    pub listener: Option<PeerListener>,
    /// The mpx that were joined to this one, each with its entry in the table.
    pub children: Vec<(u32, Mpx)>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) doorbell: Option<Doorbell>,
    looked: Instant,
    calls: u32,
    /// The value of its sleep word when it announced its sleep.
    pub(super) announced: u32,
    /// Missing only while it spins.
    pub(super) spinner: Option<Box<Spinner>>,
    pub(super) head_start: HeadStart,
    /// The link that was served last.
    pub(super) last: u32,
    epoch: u32,
}

impl Multiplexer {
    pub fn new(
        home: ParticipantHome,
        inbox: Arc<Inbox>,
        listener: Option<PeerListener>,
        waiting: Waiting,
    ) -> Multiplexer {
        let levers = Options::new().resolve().map(|found| found.levers);
        let (wake_ns, backoff_ns) =
            levers.map_or((WAKE_NS, 0), |levers| (levers.wake_ns, levers.backoff_ns));
        Multiplexer {
            table: ChannelTable::new(home),
            listener,
            children: Vec::new(),
            inbox,
            doorbell: None,
            looked: Instant::now(),
            calls: 0,
            announced: 0,
            spinner: Some(Box::new(Spinner::new(waiting, wake_ns))),
            head_start: HeadStart::new(waiting, backoff_ns),
            last: 0,
            epoch: forks::epoch(),
        }
    }

    #[inline]
    pub fn check_here(&self) -> Result<()> {
        if self.epoch == forks::epoch() { Ok(()) } else { Err(elsewhere()) }
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
        if self.inbox.has_news() {
            work.does(self.let_in());
        }
        self.calls = self.calls.wrapping_add(1);
        if self.table.has_priorities
            || self.table.ready.is_empty()
            || self.calls.is_multiple_of(HOT_TURNS)
        {
            work.does(self.table.look_at_hot());
        }
        match &self.table.home {
            ParticipantHome::Peer(_) => work.does(self.table.gather_link(0)),
            ParticipantHome::Owner(page) => {
                if page.words().any() {
                    let page = page.clone();
                    page.words().gather(|link| work.does(self.table.gather_link(link)));
                }
                if self.calls.is_multiple_of(CALLS) {
                    self.look_at_all_in_time();
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
    pub(super) fn look_at_all_in_time(&mut self) {
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
            count += self.table.look_at_descriptors();
        }
        for at in news.gone {
            if let (Some(doorbell), Some(_)) = (&self.doorbell, &self.listener)
                && let Some(socket) = self.table.link(at).and_then(|link| link.line.socket())
            {
                doorbell.remove(socket);
            }
            self.table.on_gone(at);
        }
        if let Some(listener) =
            self.listener.as_mut().filter(|listener| news.notified || listener.acceptor.is_busy())
        {
            // A connection that is refused is work as well.
            count += 1;
            for arrival in listener.acceptor.admit() {
                count += 1;
                self.take_in(arrival);
            }
        }
        count.saturating_mul(CONNECTION_UNITS)
    }

    fn take_in(&mut self, arrival: Arrival) {
        let Some(listener) = &self.listener else { return };
        let Arrival { socket, memory, identity, .. } = arrival;
        let peers = self.table.peers();
        if peers >= listener.options.most_peers as usize {
            turn_away(socket, &format!("it has {peers} peers already, its limit"));
            return;
        }
        let Some(file) = memory.get() else { return };
        let map = match LinkMap::open(file) {
            Ok(map) => map,
            Err(error) => {
                turn_away(socket, &error.to_string());
                return;
            }
        };
        if let Some(why) = listener.options.objection(map.extent()) {
            turn_away(socket, &why);
            return;
        }
        let number = self.table.number_for_link();
        // A peer that cannot be watched is dropped, so that it does not hold up others.
        let started = Lifeline::start(socket, self.inbox.clone(), number);
        let Ok(line) = started.map(Lifeline::exclusive) else { return };
        // A peer that is already gone may have sent something that is still received.
        if let Some(page) = listener.page.get() {
            let _ = welcome(&line, page, number, 0);
        }
        if let (Some(doorbell), Some(socket)) = (&self.doorbell, line.socket()) {
            // Without this the peer's bells are only noticed later.
            if let Ok(epoll) = doorbell.add(socket, number.into()) {
                line.is_polled_by(epoll);
            }
        }
        let home = self.table.home.clone();
        self.table.add_link(number, LinkEnd::new(Arc::new(map), line, home, identity));
        self.table.gather_link(number);
        // It may have died before it was in the table.
        self.table.on_gone(number);
    }

    /// Serves channels in their order, up to the limits of a call: whether there are more. A call that
    /// may wait lets streaming writers run ahead when nothing is left.
    pub fn serve(&mut self, delivery: &mut RecordDelivery, may_wait: bool) -> bool {
        delivery.work = WorkBudget::default();
        if self.table.ready.is_empty() {
            self.let_writers_ahead(may_wait);
        }
        loop {
            self.collect(&mut delivery.work);
            let before = delivery.records;
            let served = self.serve_one(delivery);
            self.head_start.moved_in_turn((delivery.records - before) as u32);
            if !served || self.check_here().is_err() {
                return false;
            }
            // The caller gets what there is before this looks for more: someone may wait for its
            // answer.
            let is_dry = self.table.ready.is_empty();
            if delivery.records > 0 && is_dry
                || delivery.records >= MOST_RECORDS
                || delivery.bytes >= MOST_BYTES
                || delivery.work.is_over()
            {
                return !is_dry;
            }
        }
    }

    /// Gives writers that stream a head start, now that all they have sent is received. It ends when
    /// anybody else comes, and there is none where some channels are more urgent than others.
    #[inline]
    fn let_writers_ahead(&mut self, may_wait: bool) {
        let Multiplexer { table, inbox, spinner, .. } = self;
        let ChannelTable { hot, links, home, has_priorities, .. } = &*table;
        let shares_cpu = spinner.as_ref().is_none_or(|spinner| spinner.shares_cpu());
        if !may_wait || *has_priorities || shares_cpu {
            return self.head_start.forgo();
        }
        let is_over = || hot.is_pressed(links) || home.has_bits() || inbox.has_news();
        self.head_start.give_after_turns(hot.len(), is_over);
    }

    /// Serves the next channel: whether there is one. If it is a joined mpx, serves that one's next
    /// channel.
    fn serve_one(&mut self, delivery: &mut RecordDelivery) -> bool {
        let Some((index, _)) = self.table.ready.pop() else { return false };
        delivery.work.does(1);
        let entry = &self.table.channels[index as usize];
        if entry.state != ChannelState::Joined {
            self.last = entry.link;
            turn::serve(&mut self.table, index, delivery);
            return true;
        }
        let id = self.table.id(index);
        if let Some(child) = self.child(index) {
            delivery.path.push(id);
            child.serve_one(delivery);
            delivery.path.pop();
            if !child.table.ready.is_empty() {
                self.table.wake(index);
            }
        }
        true
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
            let own = match &self.listener {
                Some(listener) => listener.acceptor.socket(),
                None => links().next().and_then(|link| link.line.socket()),
            };
            let doorbell = Doorbell::new(own.ok_or_else(failed)?)?;
            if self.listener.is_some() {
                for (number, link) in self.table.links.iter().enumerate() {
                    if let Some(link) = link
                        && let Some(socket) = link.line.socket()
                    {
                        link.line.is_polled_by(doorbell.add(socket, number as u64)?);
                    }
                }
            }
            if let Some(own) = self.table.descriptors.as_ref().and_then(Descriptors::get) {
                doorbell.add_own(own)?;
            }
            self.doorbell = Some(doorbell);
        }
        self.doorbell.as_ref().map(AsFd::as_fd).ok_or_else(failed)
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
fn elsewhere() -> Error {
    let why = "it belongs to the process this one was forked from";
    Error::new(ErrorKind::Forked, "use", OBJECT, why)
}
