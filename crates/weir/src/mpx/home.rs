//! Where a participant sleeps and keeps its account.

use crate::connect::name;
use crate::memory::{LinkMap, Page};
use std::path::Path;
use std::sync::Arc;
use weir_ring::account::ParticipantLine;
use weir_ring::board::Board;
use weir_ring::lane::LinkSide;
use weir_ring::layout::SleepLine;
use weir_ring::primitive::Ordering;

/// The memory in which a participant sleeps and keeps its account: an owner's page, or a peer's
/// link.
#[derive(Clone, Debug)]
pub enum Home {
    Owner(Arc<Page<Board>>),
    Peer(Arc<LinkMap>),
}

impl Home {
    /// Says in the account whose it is: this process's, and of the mpx whose socket has this path.
    pub fn introduce(&self, path: &Path) {
        let account = self.account();
        account.pid.store(std::process::id(), Ordering::Relaxed);
        if let Some((device, inode)) = name::socket_id(path) {
            account.socket_device.store(device, Ordering::Relaxed);
            account.socket_inode.store(inode, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn account(&self) -> &ParticipantLine {
        match self {
            Home::Owner(page) => &page.words().mpx,
            Home::Peer(map) => &map.header().account,
        }
    }

    pub fn sleep(&self) -> &SleepLine {
        match self {
            Home::Owner(page) => &page.words().sleep,
            Home::Peer(map) => &map.board(LinkSide::Peer).sleep,
        }
    }

    pub fn side(&self) -> LinkSide {
        if matches!(self, Home::Owner(_)) { LinkSide::Owner } else { LinkSide::Peer }
    }

    /// Whether the board says that something has come.
    #[inline]
    pub fn has_bits(&self) -> bool {
        match self {
            Home::Owner(page) => page.words().any(),
            Home::Peer(map) => map.board(LinkSide::Peer).any(),
        }
    }
}
