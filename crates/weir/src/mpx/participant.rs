//! One participant: its links and channels, where it sleeps, and whom it lets in.
//!
//! Gathering goes from the board of the owner to those of its links, and from there to channels; a
//! participant that finds nothing says so, looks once more, and sleeps.

use super::core::{Core, State};
use super::line::Line;
use super::link::Link;
use super::owner::Mpx;
use super::record::{LABEL_BYTES, Record};
use super::serve::Show;
use super::waiting::Habits;
use super::{MpxOptions, OBJECT};
use crate::connect::acceptor::{Arrival, Entrance, turn_off};
use crate::connect::inbox::{Bed, Inbox};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::LinkMap;
use crate::park::doorbell::Doorbell;
use crate::pipe::end::Until;
use crate::pipe::options::Waiting;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_policy::ready::{CONNECTION_UNITS, Work};
use weir_ring::board::Board;
use weir_ring::lane::Side;
use weir_sys::forks::{self, ParentOnly};

/// An owner looks at all its links so often, since one peer can spoil the board of all.
pub const LOOK_AT_ALL: Duration = Duration::from_millis(100);
/// Calls between two readings of the clock while there is always something to do.
const CALLS: u32 = 64;
/// Records and bytes after which a call ends that has found more than it can show at once.
const MOST_RECORDS: usize = 1024;
const MOST_BYTES: usize = 256 << 10;
/// Times a call that does not wait moves so many bytes between connected channels, or does other
/// work of which no record comes.
const MOST_MOVES: u32 = 16;

/// The board of an owner.
#[derive(Debug)]
pub struct OwnBoard {
    pub page: Arc<crate::memory::Page<Board>>,
    pub file: ParentOnly,
}

/// What is an owner's alone.
#[derive(Debug)]
pub struct Door {
    pub entrance: Entrance,
    pub board: OwnBoard,
    pub options: MpxOptions,
}

/// One participant.
#[derive(Debug)]
pub struct Hub {
    pub core: Core,
    pub door: Option<Door>,
    /// Those that were joined, and their channels here.
    pub children: Vec<(u32, Mpx)>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) bed: Arc<dyn Bed>,
    pub(super) doorbell: Option<Doorbell>,
    pub(super) looked: Instant,
    calls: u32,
    /// What it has said of its sleep.
    pub(super) said: u32,
    pub(super) habits: Habits,
    epoch: u32,
}

impl Hub {
    pub fn new(
        side: Side,
        bed: Arc<dyn Bed>,
        inbox: Arc<Inbox>,
        door: Option<Door>,
        waiting: Waiting,
    ) -> Hub {
        Hub {
            core: Core::new(side),
            door,
            children: Vec::new(),
            inbox,
            bed,
            doorbell: None,
            looked: Instant::now(),
            calls: 0,
            said: 0,
            habits: Habits::new(waiting),
            epoch: forks::epoch(),
        }
    }

    pub fn check_here(&self) -> Result<()> {
        if self.epoch == forks::epoch() {
            return Ok(());
        }
        let why = "it belongs to the process this one was forked from";
        Err(Error::new(ErrorKind::Forked, "use", OBJECT, why))
    }

    /// Finds out which channels something has come of.
    fn collect(&mut self, work: &mut Work) {
        if self.inbox.has_news() {
            work.does(self.let_in());
        }
        self.calls = self.calls.wrapping_add(1);
        if self.core.side == Side::Peer {
            work.does(self.core.gather_link(0));
        } else {
            if self.has_bits() {
                self.gather_links(work);
            }
            if self.calls.is_multiple_of(CALLS) && self.looked.elapsed() >= LOOK_AT_ALL {
                self.look_at_all();
            }
        }
        for place in 0..self.children.len() {
            let (index, child) = &mut self.children[place];
            child.hub.collect(work);
            if !child.hub.core.ready.is_empty() {
                self.core.wake(*index);
            }
        }
    }

    fn gather_links(&mut self, work: &mut Work) {
        let Some(door) = &self.door else { return };
        let page = door.board.page.clone();
        page.words().gather(|link| work.does(self.core.gather_link(link)));
    }

    /// Looks at every link: what the board says has perhaps been spoilt.
    pub(super) fn look_at_all(&mut self) {
        self.looked = Instant::now();
        for link in 0..self.core.links.len() as u32 {
            self.core.gather_link(link);
        }
        if self.door.as_ref().is_some_and(|door| door.entrance.is_busy()) {
            self.inbox.knock();
            self.let_in();
        }
    }

    /// Lets in who came, and hears of who is gone: what work that was.
    fn let_in(&mut self) -> u32 {
        let news = self.inbox.take();
        let mut count = news.gone.len() as u32;
        for link in news.gone {
            let socket = self.core.links.get(link as usize).and_then(Option::as_ref);
            if let (Some(doorbell), Some(socket)) =
                (&self.doorbell, socket.and_then(|link| link.line.socket()))
                && self.core.side == Side::Owner
            {
                doorbell.remove(socket);
            }
            self.core.on_gone(link);
        }
        if let Some(door) =
            self.door.as_mut().filter(|door| news.knocked || door.entrance.is_busy())
        {
            // Whoever comes only to be refused is work as well.
            count += 1;
            for arrival in door.entrance.admit() {
                count += 1;
                self.take_in(arrival);
            }
        }
        count.saturating_mul(CONNECTION_UNITS)
    }

    /// Takes a peer in, or refuses it.
    fn take_in(&mut self, arrival: Arrival) {
        let Some(door) = &self.door else { return };
        let Arrival { socket, memory, identity } = arrival;
        let peers = self.core.peers();
        if peers >= door.options.peers as usize {
            turn_off(socket, &format!("it has {peers} peers, and takes no more"));
            return;
        }
        let Some(file) = memory.get() else { return };
        let map = match LinkMap::open(file) {
            Ok(map) => map,
            Err(error) => {
                turn_off(socket, &error.to_string());
                return;
            }
        };
        if let Some(why) = door.options.objection(map.extent()) {
            turn_off(socket, &why);
            return;
        }
        let number = self.core.number_for_link();
        // There are not the means to watch it: it is dropped, and others are not held up.
        let Ok(line) = Line::start(socket, &self.inbox, number) else { return };
        // Who is gone already has sent what is to be received all the same.
        if let Some(board) = door.board.file.get() {
            let _ = line.welcome(board);
        }
        if let (Some(doorbell), Some(socket)) = (&self.doorbell, line.socket()) {
            // It is heard all the same, if late.
            if let Ok(epoll) = doorbell.add(socket, number.into()) {
                line.is_polled_by(epoll);
            }
        }
        self.core.add_link(number, Link::new(Arc::new(map), line, Side::Owner, identity));
        self.core.gather_link(number);
        // It may have died before it had its place.
        self.core.on_gone(number);
    }

    /// Serves channels in their order as long as there are some: whether there are more.
    fn serve(&mut self, show: &mut Show) -> bool {
        show.work = Work::default();
        loop {
            self.collect(&mut show.work);
            let Some((index, _)) = self.core.ready.pop() else { return false };
            show.work.does(1);
            if self.core.channels[index as usize].state == State::Joined {
                self.serve_child(index, show);
            } else {
                self.habits.last = self.core.channels[index as usize].link;
                self.core.serve(index, show);
            }
            if show.records >= MOST_RECORDS || show.bytes >= MOST_BYTES || show.work.is_over() {
                return !self.core.ready.is_empty();
            }
        }
    }

    /// Serves one channel of another mpx.
    fn serve_child(&mut self, index: u32, show: &mut Show) {
        let id = self.core.id(index);
        let Some((_, child)) = self.children.iter_mut().find(|(at, _)| *at == index) else {
            return;
        };
        let hub = &mut child.hub;
        let Some((ready, _)) = hub.core.ready.pop() else { return };
        show.path.push(id);
        if hub.core.channels[ready as usize].state == State::Joined {
            hub.serve_child(ready, show);
        } else {
            hub.core.serve(ready, show);
        }
        show.path.pop();
        if !hub.core.ready.is_empty() {
            self.core.wake(index);
        }
    }

    /// Whether anything is there for a call to do.
    pub fn is_ready(&mut self) -> Result<bool> {
        self.check_here()?;
        self.collect(&mut Work::default());
        Ok(self.has_ready() || self.is_over())
    }

    /// Whether there is something to do with a channel. Those of which that only seemed so are not
    /// looked at any more.
    fn has_ready(&mut self) -> bool {
        while let Some((index, _)) = self.core.ready.first() {
            let idle = match self.children.iter_mut().find(|(at, _)| *at == index) {
                Some((_, child)) => !child.hub.has_ready(),
                None => self.core.is_idle(index),
            };
            if !idle {
                return true;
            }
            self.core.ready.remove(index);
        }
        false
    }

    /// Of a peer: whether its owner is gone, and nothing is left of it.
    fn is_over(&self) -> bool {
        self.core.side == Side::Peer && self.core.peers() == 0
    }

    /// Receives what there is, waiting for it until then: how many records.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        until: Until,
        each: &mut dyn FnMut(Record<'_>),
    ) -> Result<usize> {
        self.check_here()?;
        if buffer.len() < LABEL_BYTES {
            let why = format!("the buffer has {} bytes, {LABEL_BYTES} are the least", buffer.len());
            return Err(Error::new(ErrorKind::Invalid, "read from", OBJECT, why));
        }
        let (path, work) = (Vec::new(), Work::default());
        let mut show = Show { buffer, each, path, records: 0, bytes: 0, work };
        let mut moves = 0;
        loop {
            let more = self.serve(&mut show);
            if show.records > 0 {
                self.acted();
                return Ok(show.records);
            }
            if self.is_over() {
                return Err(self.gone());
            }
            moves += 1;
            show.bytes = 0;
            match until {
                Until::Now if moves >= MOST_MOVES => {
                    // Readable as before: there is more to do.
                    self.acted();
                    return Err(nothing(ErrorKind::WouldBlock));
                }
                Until::Now if more => continue,
                Until::Now if self.looks_once_more()? => {
                    return Err(nothing(ErrorKind::WouldBlock));
                }
                Until::Then(then) if Instant::now() >= then => {
                    return Err(nothing(ErrorKind::TimedOut));
                }
                Until::Now => continue,
                _ if more => continue,
                _ => {}
            }
            if !self.looks_a_while(until) {
                self.sleep(until)?;
            }
        }
    }

    pub(super) fn has_bits(&self) -> bool {
        match &self.door {
            Some(door) => door.board.page.words().any(),
            None => self
                .core
                .links
                .first()
                .and_then(Option::as_ref)
                .is_some_and(|link| link.map.board(Side::Peer).any()),
        }
    }

    /// Something was done: the descriptor is readable until the next `WouldBlock`.
    pub fn acted(&self) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.ring();
        }
    }

    /// The descriptor to poll.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_here()?;
        let failed = || Error::os("poll", OBJECT, Errno::BADF);
        if self.doorbell.is_none() {
            let links = || self.core.links.iter().flatten();
            let own = match &self.door {
                Some(door) => door.entrance.socket(),
                None => links().next().and_then(|link| link.line.socket()),
            };
            let doorbell = Doorbell::new(own.ok_or_else(failed)?)?;
            if self.door.is_some() {
                for (number, link) in self.core.links.iter().enumerate() {
                    if let Some(link) = link
                        && let Some(socket) = link.line.socket()
                    {
                        link.line.is_polled_by(doorbell.add(socket, number as u64)?);
                    }
                }
            }
            self.doorbell = Some(doorbell);
        }
        self.doorbell.as_ref().map(AsFd::as_fd).ok_or_else(failed)
    }

    fn gone(&self) -> Error {
        match &self.core.refusal {
            Some(why) => Error::new(ErrorKind::Refused, "read from", OBJECT, why),
            None => Error::new(ErrorKind::Closed, "read from", OBJECT, "its owner is gone"),
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if self.check_here().is_ok() {
            self.core.links.iter().flatten().for_each(Link::say_closed);
            // First the name, so that nobody comes meanwhile.
            self.door = None;
        }
    }
}

fn nothing(kind: ErrorKind) -> Error {
    let why = if kind == ErrorKind::TimedOut { "nothing came in time" } else { "there is nothing" };
    Error::new(kind, "read from", OBJECT, why)
}
