//! The other side of a link: who it is, how it is told that something has come, and what it says.

use super::home::ParticipantHome;
use crate::memory::LinkMap;
use std::sync::Arc;
use weir::Identity;
use weir::parts::{BoardSlot, Lifeline, barrier, drain, publish_cpu};
use weir_ring::account::add;
use weir_ring::lane::{LaneId, LinkSide, attention_to, is_looking_with_barrier, must_notify};
use weir_ring::primitive::{AtomicU32, Ordering};

/// The other side of a link, as this side reaches it.
#[derive(Debug)]
pub struct OtherSide {
    pub line: Lifeline,
    /// Who it is, as an owner learns from the kernel.
    pub identity: Option<Identity>,
    map: Arc<LinkMap>,
    home: ParticipantHome,
    /// At a peer: the place to notify the owner, once the owner has sent it.
    owner: Option<BoardSlot>,
    /// Whether the barriers of the other side are known to reach this process.
    reached: bool,
}

impl OtherSide {
    pub fn new(
        map: Arc<LinkMap>,
        line: Lifeline,
        home: ParticipantHome,
        identity: Option<Identity>,
    ) -> OtherSide {
        OtherSide { line, identity, map, home, owner: None, reached: false }
    }

    /// Whether it is known to look at a lane, of which this is its word, so that nothing is left to do.
    #[inline(always)]
    pub fn is_known_to_poll(&self, attention: &AtomicU32) -> bool {
        self.reached && is_looking_with_barrier(attention)
    }

    /// Notifies it of what was published on a channel, if it does not look.
    #[inline(never)]
    pub fn notify_if_away(&mut self, number: u32) {
        let attention =
            attention_to(&*self.map, LaneId { writer: self.home.side(), channel: number });
        if !self.reached && is_looking_with_barrier(attention) {
            self.reached = barrier::reaches_here();
        }
        if must_notify(attention, self.reached) {
            self.notify(number);
        }
    }

    /// Notifies it that a channel has something, or has room.
    #[cold]
    pub fn notify(&mut self, number: u32) {
        let board = self.map.board(self.home.side().other());
        board.set(number);
        let mut woken = false;
        if self.home.side() == LinkSide::Owner {
            woken = self.line.wake_if_wanted(&board.sleep.word);
        } else if must_notify(&self.map.header().side(LinkSide::Owner).attention, false) {
            // The owner sent its place before it looked away from the link.
            woken = self.owner().is_some_and(|owner| owner.0.ring(owner.1));
        }
        add(&self.home.account().waiting.wakes_given, woken.into());
        if woken {
            // A side that only sends never waits, and would not say where it runs: the other would
            // spin for what cannot come while it spins, if both are on one CPU.
            publish_cpu(&self.home.sleep().cpu);
        }
    }

    /// Has it empty a lane that it reads, if it is elastic.
    pub fn request_drain(&mut self) {
        if self.home.side() == LinkSide::Owner {
            return drain::request_drain(&self.map.board(LinkSide::Peer).sleep);
        }
        if let Some((owner, _)) = self.owner() {
            drain::request_drain(&owner.page().words().sleep);
        }
    }

    /// At a peer: the place to notify the owner, if the owner has sent it, and the line to it.
    fn owner(&mut self) -> Option<(&BoardSlot, &Lifeline)> {
        if self.owner.is_none() {
            self.take_messages();
        }
        Some((self.owner.as_ref()?, &self.line))
    }

    /// Takes its messages off the socket.
    pub fn take_messages(&mut self) {
        let owner = &mut self.owner;
        self.line.take_messages(false, |text, memory| {
            *owner = BoardSlot::open(text, &memory).or(owner.take());
        });
    }

    /// The CPU on which it ran last, plus one, as it reports that. 0 if it has not reported any.
    pub fn cpu(&self) -> u32 {
        match self.home.side() {
            LinkSide::Owner => self.map.board(LinkSide::Peer).sleep.cpu.load(Ordering::Relaxed),
            LinkSide::Peer => self.owner.as_ref().map_or(0, BoardSlot::reader_cpu),
        }
    }

    /// At a peer: whether the owner has taken this peer in.
    pub fn has_welcomed(&self) -> bool {
        self.owner.is_some()
    }

    /// Whether it has closed the link.
    pub fn has_closed(&self) -> bool {
        // Acquire pairs with the release in `LinkEnd::close`.
        self.map.header().side(self.home.side().other()).closed.load(Ordering::Acquire) != 0
    }
}
