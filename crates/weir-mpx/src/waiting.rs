//! What a side does while there is nothing to receive: it lets streaming writers run ahead, and spins
//! for as long as that has paid recently, before it sleeps.

use super::table::ChannelTable;
use weir::parts::{HeadStart, Inbox, Spinner, Until, peer_of};
use weir::{Result, Waiting};
use weir_policy::pipe::PeerCpu;
use weir_ring::account::add;

/// What a side has learnt about waiting.
#[derive(Debug)]
pub struct Idle {
    spinner: Spinner,
    head_start: HeadStart,
    /// The link that was served last.
    last: u32,
}

impl Idle {
    pub fn new(waiting: Waiting) -> Idle {
        let (spinner, head_start) = (Spinner::new(waiting), HeadStart::new(waiting));
        Idle { spinner, head_start, last: 0 }
    }

    /// Whether the side never sleeps.
    pub fn only_spins(&self) -> bool {
        self.spinner.only_spins()
    }

    /// Notes the link whose channel is served now.
    #[inline]
    pub fn served(&mut self, link: u32) {
        self.last = link;
    }

    /// Counts what one channel has brought in its turn.
    #[inline]
    pub fn moved_in_turn(&mut self, records: u32) {
        self.head_start.moved_in_turn(records);
    }

    /// Gives writers that stream a head start, now that all they have sent is received, and looks at
    /// the hot lanes then: on how many something has come. The head start ends when anybody else comes,
    /// and there is none where some channels are more urgent than others.
    #[inline]
    pub fn let_writers_ahead(
        &mut self,
        table: &mut ChannelTable,
        inbox: &Inbox,
        may_wait: bool,
    ) -> u32 {
        let ChannelTable { hot, links, home, has_priorities, .. } = &*table;
        if !may_wait || *has_priorities || self.spinner.shares_cpu() {
            self.head_start.forgo();
            return 0;
        }
        let is_over = || hot.is_pressed(links) || home.has_bits() || inbox.has_news();
        let lanes = hot.len();
        if self.head_start.give_after_turns(lanes, is_over) { table.poll_hot() } else { 0 }
    }

    /// Spins until `sees` says that something has come: whether it has. Otherwise the time is over, or
    /// more spinning does not pay.
    pub fn spin(
        &mut self,
        until: Until,
        table: &ChannelTable,
        sees: impl Fn() -> bool,
    ) -> Result<bool> {
        let last = self.last;
        let peer = || other_cpu(table, last);
        let look = || Ok(sees().then_some(()));
        let looks = self.spinner.quick_polls();
        let came = self.spinner.spin(looks, until, peer, || false, look)?.is_some();
        if came {
            add(&table.home.account().waiting.spun, 1);
        }
        Ok(came)
    }

    /// Learns from a sleep that followed the spinning.
    pub fn slept(&mut self, ns: u64) {
        self.spinner.slept(ns);
        self.head_start.sleeps();
    }

    /// How often it has let writers run ahead.
    #[cfg(test)]
    pub fn given(&self) -> u32 {
        self.head_start.given
    }
}

/// The CPU of the other side of a link. Also records the CPU of this side.
fn other_cpu(table: &ChannelTable, link: u32) -> PeerCpu {
    let link = table.links.get(link as usize).and_then(Option::as_ref);
    peer_of(&table.home.sleep().cpu, link.map_or(0, |link| link.other.cpu()))
}
