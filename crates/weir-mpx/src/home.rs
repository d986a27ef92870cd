//! The memory in which a participant parks and keeps its account.

use crate::memory::{LinkHere, LinkMap};
use std::path::Path;
use std::sync::Arc;
use weir::parts::{ParkSite, SharedPage, name};
use weir_ring::account::ParticipantLine;
use weir_ring::board::Board;
use weir_ring::lane::LinkSide;
use weir_ring::layout::SleepLine;
use weir_ring::primitive::Ordering;

/// The memory in which a participant parks and keeps its account: an owner's page, or a peer's link.
#[derive(Clone, Debug)]
pub enum ParticipantHome {
    Owner(Arc<SharedPage<Board>>),
    Peer(Arc<LinkMap>),
}

impl ParticipantHome {
    /// Writes this process and the mpx whose socket has this path into the account.
    pub fn introduce(&self, path: &Path) {
        let account = self.account();
        account.pid.store(std::process::id(), Ordering::Relaxed);
        name::publish_socket_id(path, &account.socket_device, &account.socket_inode);
    }

    #[inline]
    pub fn account(&self) -> &ParticipantLine {
        match self {
            ParticipantHome::Owner(page) => &page.words().mpx,
            ParticipantHome::Peer(map) => &map.header().account,
        }
    }

    /// As [`ParticipantHome::account`], for a call that has found that its link is here. A peer has one
    /// link.
    #[inline]
    pub fn account_beside<'a>(&'a self, link: LinkHere<'a>) -> &'a ParticipantLine {
        match self {
            ParticipantHome::Owner(page) => &page.words().mpx,
            ParticipantHome::Peer(_) => &link.header().account,
        }
    }

    pub fn sleep(&self) -> &SleepLine {
        match self {
            ParticipantHome::Owner(page) => &page.words().sleep,
            ParticipantHome::Peer(map) => &map.board(LinkSide::Peer).sleep,
        }
    }

    pub fn side(&self) -> LinkSide {
        if matches!(self, ParticipantHome::Owner(_)) { LinkSide::Owner } else { LinkSide::Peer }
    }

    /// Whether a bit on the board is set: something has come.
    #[inline]
    pub fn has_bits(&self) -> bool {
        match self {
            ParticipantHome::Owner(page) => page.words().any(),
            ParticipantHome::Peer(map) => map.board(LinkSide::Peer).any(),
        }
    }
}

/// The site of a peer.
impl ParkSite for LinkMap {
    fn sleep(&self) -> &SleepLine {
        &self.board(LinkSide::Peer).sleep
    }
}
