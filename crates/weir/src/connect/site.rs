//! Where an end sleeps, and its inbox.

use crate::memory::SharedPage;
use crate::park::futex;
use std::fmt::Debug;
use weir_ring::board::Board;
use weir_ring::inbox::{self, Sleeper};
use weir_ring::layout::SleepLine;
use weir_ring::sleep;

/// A place with a word to sleep on.
pub trait ParkSite: Debug + Send + Sync {
    /// The line with that word.
    fn sleep(&self) -> &SleepLine;
}

/// News for an end that sleeps at a site.
pub type Inbox = inbox::Inbox<dyn ParkSite>;
/// Whether a peer of such an end lives.
pub type Fate = inbox::Fate<dyn ParkSite>;

impl Sleeper for dyn ParkSite {
    fn wake(&self) {
        let word = &self.sleep().word;
        sleep::take(word);
        futex::wake(word, u32::MAX);
    }
}

impl ParkSite for SharedPage<Board> {
    fn sleep(&self) -> &SleepLine {
        &self.words().sleep
    }
}

/// The site of a listener, which shares no memory with those who connect.
impl ParkSite for SleepLine {
    fn sleep(&self) -> &SleepLine {
        self
    }
}
