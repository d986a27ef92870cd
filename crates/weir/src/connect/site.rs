//! Where the reader of many rings sleeps, and its inbox.

use crate::memory::{LinkMap, Page};
use crate::park::futex;
use std::fmt::Debug;
use weir_ring::board::Board;
use weir_ring::inbox::{self, Sleeper};
use weir_ring::lane::LinkSide;
use weir_ring::layout::SleepLine;
use weir_ring::sleep;

/// Where somebody sleeps.
pub trait ParkSite: Debug + Send + Sync {
    /// Its sleep.
    fn sleep(&self) -> &SleepLine;
}

/// News for one who sleeps there.
pub type Inbox = inbox::Inbox<dyn ParkSite>;
/// Whether a peer of such a one lives.
pub type Fate = inbox::Fate<dyn ParkSite>;

impl Sleeper for dyn ParkSite {
    fn wake(&self) {
        let word = &self.sleep().word;
        sleep::take(word);
        futex::wake(word, u32::MAX);
    }
}

impl ParkSite for Page<Board> {
    fn sleep(&self) -> &SleepLine {
        &self.words().sleep
    }
}

/// Of the peer of an mpx.
impl ParkSite for LinkMap {
    fn sleep(&self) -> &SleepLine {
        &self.board(LinkSide::Peer).sleep
    }
}

/// Of one who shares no memory with those who connect.
impl ParkSite for SleepLine {
    fn sleep(&self) -> &SleepLine {
        self
    }
}
