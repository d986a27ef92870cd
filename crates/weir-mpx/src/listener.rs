//! The place where peers connect to an owner: each gets a link, or is turned away with a reason.

use super::MpxOptions;
use super::link_end::LinkEnd;
use super::table::ChannelTable;
use crate::memory::LinkMap;
use std::sync::Arc;
use weir::Result;
use weir::parts::{
    Acceptor, Arrival, Doorbell, Inbox, Lifeline, passing::refuse, passing::turn_away, welcome,
};
use weir_sys::forks::ParentOnly;

/// The place where peers connect to an owner.
#[derive(Debug)]
pub struct PeerListener {
    pub acceptor: Acceptor,
    /// The owner's page, which each peer gets.
    pub page: ParentOnly,
    pub options: MpxOptions,
}

impl PeerListener {
    /// Takes those in who have connected, or turns them away. Returns how many they were.
    pub fn admit(
        &mut self,
        table: &mut ChannelTable,
        inbox: &Arc<Inbox>,
        doorbell: Option<&Doorbell>,
    ) -> u32 {
        let arrivals = self.acceptor.admit(doorbell);
        let count = arrivals.len() as u32;
        arrivals.into_iter().for_each(|arrival| self.take_in(arrival, table, inbox, doorbell));
        count
    }

    fn take_in(
        &self,
        arrival: Arrival,
        table: &mut ChannelTable,
        inbox: &Arc<Inbox>,
        doorbell: Option<&Doorbell>,
    ) {
        let Arrival { socket, memory, identity, .. } = arrival;
        let peers = table.peers();
        if peers >= self.options.most_peers as usize {
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
        if let Some(why) = self.options.objection(map.extent()) {
            turn_away(socket, &why);
            return;
        }
        let number = table.number_for_link();
        // A peer that cannot be watched is dropped, so that it does not hold up others.
        let started = Lifeline::start(socket, inbox.clone(), number);
        let Ok(line) = started.map(Lifeline::exclusive) else { return };
        if let Some(doorbell) = doorbell
            && poll(&line, doorbell, number).is_err()
        {
            // Its bells would not be heard.
            let why = "its owner cannot poll one more peer";
            line.socket().into_iter().for_each(|socket| refuse(socket, why));
            return;
        }
        // A peer that is already gone may have sent something that is still received.
        if let Some(page) = self.page.get() {
            let _ = welcome(&line, page, number, 0);
        }
        let home = table.home.clone();
        table.add_link(number, LinkEnd::new(Arc::new(map), line, home, Some(identity)));
        table.gather_link(number);
        // It may have died before it was in the table.
        table.on_peer_gone(number);
    }
}

/// Lets the bells of a link's peer ring an owner's doorbell.
pub fn poll(line: &Lifeline, doorbell: &Doorbell, number: u32) -> Result<()> {
    line.is_polled_by(doorbell, number.into())
}
