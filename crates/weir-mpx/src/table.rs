//! The channels of one participant, and the links they are on.

use super::channels::{ChannelEntry, ChannelState, Channels};
use super::descriptor::Direction;
use super::descriptors::Descriptors;
use super::home::ParticipantHome;
use super::hot::HotLanes;
use super::link_end::{LinkEnd, NONE};
use super::overflow::Overflows;
use super::record::ChannelId;
use weir::{Ending, Error, ErrorKind, Result};
use weir_policy::ready::ReadyQueue;
use weir_ring::Corrupt;
use weir_ring::account::add;
use weir_ring::lane::{FrameKind, LinkSide, fence_before_last_poll, stop_polling};

/// The links and channels of one participant.
#[derive(Debug)]
pub struct ChannelTable {
    pub home: ParticipantHome,
    pub links: Vec<Option<LinkEnd>>,
    pub channels: Channels,
    pub ready: ReadyQueue,
    pub hot: HotLanes,
    /// Some channel was given a priority.
    pub has_priorities: bool,
    /// At a peer: why the owner refused it, if it did.
    pub refusal: Option<String>,
    /// The descriptors that channels are joined to, once there was one.
    pub descriptors: Option<Descriptors>,
    /// The backlogs of channels, if it is elastic.
    pub overflows: Option<Overflows>,
    /// What could not be read back of which channels, until it is reported.
    pub faults: Vec<(u32, Error)>,
    /// Links and numbers to look at; kept for its memory.
    scratch: Vec<(u32, u32)>,
}

impl ChannelTable {
    pub fn new(home: ParticipantHome) -> ChannelTable {
        ChannelTable {
            home,
            links: Vec::new(),
            channels: Channels::default(),
            ready: ReadyQueue::default(),
            hot: HotLanes::default(),
            has_priorities: false,
            refusal: None,
            descriptors: None,
            overflows: None,
            faults: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub fn number_for_link(&self) -> u32 {
        let free = self.links.iter().position(Option::is_none);
        free.unwrap_or(self.links.len()) as u32
    }

    pub fn add_link(&mut self, number: u32, link: LinkEnd) {
        let at = number as usize;
        if at == self.links.len() {
            self.links.push(None);
        }
        self.links[at] = Some(link);
        add(&self.home.account().peers, 1);
    }

    pub fn peers(&self) -> usize {
        self.links.iter().flatten().count()
    }

    #[inline]
    pub fn link(&mut self, at: u32) -> Option<&mut LinkEnd> {
        self.links.get_mut(at as usize)?.as_mut()
    }

    pub fn link_of(&mut self, index: u32) -> Option<&mut LinkEnd> {
        self.link(self.channels[index].link)
    }

    pub fn enter(&mut self, link: u32, number: u32, state: ChannelState) -> u32 {
        add(&self.home.account().channels, 1);
        let index = self.channels.enter(link, number, state);
        if let Some(link) = self.link(link)
            && let Some(lanes) = link.lanes(number)
        {
            lanes.entry = index;
            link.entries += 1;
        }
        index
    }

    /// Frees an entry whose channel has ended on both sides, or whose link has ended.
    pub fn leave(&mut self, index: u32) {
        self.unlink_partner(index);
        self.drop_rest(index);
        add(&self.home.account().channels, 1_u64.wrapping_neg());
        let ChannelEntry { link: at, number, .. } = self.channels[index];
        self.channels.leave(index);
        self.ready.remove(index);
        let Some(link) = self.link(at) else { return };
        link.give_back(number);
        link.leave(number);
        if link.ending.is_some() {
            self.drop_ended(at);
            return;
        }
        if !self.cool(at, number) {
            self.touch(at, number);
        }
    }

    /// Drops a link that has ended, once all its channels have.
    pub fn drop_ended(&mut self, at: u32) {
        let place = &mut self.links[at as usize];
        if place.as_ref().is_some_and(|link| link.ending.is_some() && link.entries == 0) {
            *place = None;
            add(&self.home.account().peers, 1_u64.wrapping_neg());
        }
    }

    /// Stops forwarding between a channel and its partner: whether it had one.
    pub fn unlink_partner(&mut self, index: u32) -> bool {
        let partner = self.channels[index].partner;
        if partner == NONE {
            return false;
        }
        for end in [index, partner] {
            let channel = &mut self.channels[end];
            (channel.partner, channel.forwards) = (NONE, false);
        }
        // Either may have waited for room in the other.
        self.wake(partner);
        self.wake(index);
        true
    }

    /// Whether what comes on its partner goes to this channel. Then room in it is not news for the
    /// user.
    pub fn is_fed(&self, index: u32) -> bool {
        let ChannelEntry { partner, has_input, .. } = self.channels[index];
        has_input || partner != NONE && self.channels[partner].forwards
    }

    /// Drops the descriptor that is joined to a channel in this direction. Returns whether the
    /// channel had it and has none any more.
    pub fn drop_descriptor(&mut self, index: u32, direction: Direction) -> bool {
        let channel = &mut self.channels[index];
        let has = match direction {
            Direction::Input => std::mem::take(&mut channel.has_input),
            Direction::Output => std::mem::take(&mut channel.has_output),
        };
        has && self.descriptors.as_mut().is_some_and(|all| all.leave(index, direction))
    }

    /// Drops the descriptors and the backlog of a channel that ends.
    fn drop_rest(&mut self, index: u32) {
        self.drop_descriptors(index);
        if std::mem::take(&mut self.channels[index].accumulates)
            && let Some(overflows) = &mut self.overflows
        {
            overflows.end(index, &self.home);
        }
    }

    pub fn drop_descriptors(&mut self, index: u32) {
        self.drop_descriptor(index, Direction::Input);
        self.drop_descriptor(index, Direction::Output);
    }

    /// Puts the channels whose descriptors have become ready, or whose backlogs were read back, into
    /// the queue: how many.
    pub fn poll_descriptors(&mut self) -> u32 {
        let mut found = self.overflows.as_ref().map_or(Vec::new(), Overflows::rung);
        if let Some(descriptors) = &mut self.descriptors {
            descriptors.poll(|index| found.push(index));
        }
        found.iter().for_each(|index| self.wake(*index));
        found.len() as u32
    }

    /// Puts a channel into the queue, to be looked at.
    pub fn wake(&mut self, index: u32) {
        let channel = &self.channels[index];
        if channel.state != ChannelState::Free {
            self.ready.push(index, channel.priority);
        }
    }

    /// Looks away from a lane in, unless it is hot: whether nothing has come on it.
    pub fn cool(&mut self, at: u32, number: u32) -> bool {
        let Some(link) = self.link(at) else { return true };
        if link.lanes(number).is_some_and(|lanes| !lanes.is_hot) {
            stop_polling(link.attention(number));
            fence_before_last_poll();
        }
        !link.has(number)
    }

    /// Puts the channels whose hot lanes have something into the queue: how many.
    pub fn poll_hot(&mut self) -> u32 {
        let mut found = std::mem::take(&mut self.scratch);
        self.hot.poll(&mut self.links, &mut found);
        self.touch_all(found)
    }

    /// Makes all hot lanes cold, and looks once more at each of them.
    pub fn stop_polling(&mut self) {
        let mut found = std::mem::take(&mut self.scratch);
        self.hot.stop_polling(&mut self.links, &mut found);
        self.touch_all(found);
    }

    /// Puts the channels that the board of a link names into the queue: how many.
    pub fn gather_link(&mut self, at: u32) -> u32 {
        let side = self.home.side();
        let Some(Some(link)) = self.links.get(at as usize) else { return 0 };
        if side == LinkSide::Owner {
            // Looks away first. The peer notifies of a bit that it sets after this, and the look
            // below finds one set before. So one look is enough, whatever the peer does meanwhile.
            stop_polling(&link.map.header().side(side).attention);
            fence_before_last_poll();
        }
        if !link.map.board(side).any() {
            return 0;
        }
        let mut found = std::mem::take(&mut self.scratch);
        link.map.board(side).gather(|number| found.push((at, number)));
        self.touch_all(found)
    }

    fn touch_all(&mut self, mut found: Vec<(u32, u32)>) -> u32 {
        let count = found.len() as u32;
        found.drain(..).for_each(|(at, number)| self.touch(at, number));
        self.scratch = found;
        count
    }

    /// Puts a channel on which something may have come into the queue.
    fn touch(&mut self, at: u32, number: u32) {
        let side = self.home.side();
        let Some(link) = self.link(at) else { return };
        // A peer ignores an owner that names a number which the peer has not used.
        if side == LinkSide::Peer && !link.knows(number) {
            return;
        }
        let Some(lanes) = link.lanes(number) else { return };
        let entry = lanes.entry;
        if entry != NONE {
            self.wake(entry);
        } else if side == LinkSide::Owner && link.has(number) {
            let index = self.enter(at, number, ChannelState::Fresh);
            self.wake(index);
        }
    }

    /// Ends a link if its other side is gone.
    pub fn on_peer_gone(&mut self, at: u32) {
        let Some(link) = self.link(at) else { return };
        if !link.other.line.is_dead() || link.ending.is_some() {
            return;
        }
        link.other.take_messages();
        let closed = link.other.has_closed();
        // What it sent before it went shows on its board by now, or in hot lanes.
        self.gather_link(at);
        self.poll_hot();
        self.end_link(at, if closed { Ending::Closed } else { Ending::Died });
    }

    /// Ends a link whose memory is corrupt. It is not read any more.
    pub fn shut_out(&mut self, at: u32) {
        self.end_link(at, Ending::ShutOut);
    }

    fn end_link(&mut self, at: u32, ending: Ending) {
        let Some(link) = self.link(at) else { return };
        if link.ending == Some(Ending::ShutOut) {
            return;
        }
        if ending == Ending::ShutOut {
            link.close();
            link.other.line.hang_up();
        }
        link.ending = Some(ending);
        let refusal = link.other.line.refusal().map(str::to_owned);
        let entries: Vec<u32> = link.each_entry().collect();
        self.refusal = refusal;
        self.hot.forget(at);
        entries.into_iter().for_each(|entry| self.wake(entry));
        self.drop_ended(at);
    }

    /// Sends short data if it fits for sure: whether it did.
    #[inline]
    pub fn send_short(&mut self, id: ChannelId, bytes: &[u8]) -> bool {
        let Some(entry) = self.channels.get(id.index) else { return false };
        let ChannelEntry { generation, link: at, number, state, .. } = *entry;
        let is_open = matches!(state, ChannelState::Opening | ChannelState::Open);
        let is_it = generation == id.generation && is_open;
        let goes = |link: &mut LinkEnd| link.ending.is_none() && link.send_short(number, bytes);
        is_it && self.link(at).is_some_and(goes)
    }

    /// Sends a frame: how many bytes of data were taken, and whether everything was. Frames other
    /// than data are taken whole or not at all.
    #[inline]
    pub fn send(
        &mut self,
        operation: &'static str,
        id: ChannelId,
        kind: FrameKind,
        bytes: &[u8],
    ) -> Result<(usize, bool)> {
        let index = self.channels.find(operation, id)?;
        let ChannelEntry { link: at, number, state, .. } = self.channels[index];
        let is_open = |link: &&mut LinkEnd| link.ending.is_none() && state != ChannelState::Asked;
        let Some(link) = self.link(at).filter(is_open) else {
            return Err(self.not_open(operation, index));
        };
        let is_nothing = kind == FrameKind::Data && bytes.is_empty();
        if is_nothing || link.send_directly(number, kind, bytes) {
            return Ok((bytes.len(), true));
        }
        let sent = link.send(number, kind, bytes);
        let sent = sent.map_err(|found| self.corrupt(index, operation, found))?;
        if !sent.whole {
            self.block(index);
        } else if sent.asked {
            self.clear_room_request(index);
        }
        Ok((sent.bytes, sent.whole))
    }

    /// The error of a send on a channel that is not open.
    #[cold]
    fn not_open(&self, operation: &'static str, index: u32) -> Error {
        let (kind, why) = match self.channels[index].state {
            ChannelState::Asked => (ErrorKind::Invalid, "it has not been accepted"),
            ChannelState::Joined => (ErrorKind::Invalid, "it is another mpx"),
            _ => (ErrorKind::Closed, "the other side is gone"),
        };
        Error::new(kind, operation, format!("channel {}", self.channels.id(index)), why)
    }

    /// Shuts a link out for something invalid that was found in its memory.
    #[cold]
    fn corrupt(&mut self, index: u32, operation: &'static str, Corrupt(what): Corrupt) -> Error {
        let object = format!("channel {}", self.channels.id(index));
        self.shut_out(self.channels[index].link);
        Error::new(ErrorKind::Corrupt, operation, object, format!("{what} is invalid"))
    }

    /// Clears the request for room. That may also be the request of an earlier, larger send that is
    /// still blocked, so the channel is then looked at again.
    pub fn clear_room_request(&mut self, index: u32) {
        let ChannelEntry { number, blocked, .. } = self.channels[index];
        if let Some(link) = self.link_of(index) {
            link.clear_room_request(number);
        }
        if blocked {
            self.wake(index);
        }
    }

    /// Marks a channel as blocked after a send that was not taken whole.
    fn block(&mut self, index: u32) {
        add(&self.home.account().blocked, 1);
        let is_fed = self.is_fed(index);
        let channel = &mut self.channels[index];
        // It may be blocked by what was moved there, of which the user knows nothing.
        let is_news = !(is_fed || channel.report_blocked || channel.knows_blocked);
        if !channel.blocked || is_news {
            channel.blocked = true;
            channel.report_blocked |= is_news;
            self.wake(index);
        }
    }

    /// Sends the last frame of a channel, and ignores what still comes on it.
    pub fn finish(&mut self, index: u32, kind: FrameKind, bytes: &[u8]) {
        self.unlink_partner(index);
        self.drop_rest(index);
        let channel = &mut self.channels[index];
        let (at, number) = (channel.link, channel.number);
        channel.state = ChannelState::Closing;
        (channel.blocked, channel.report_blocked, channel.knows_blocked) = (false, false, false);
        let Some(link) = self.link(at) else { return };
        if link.ending.is_none() && !link.put_last(number, kind, bytes) {
            self.shut_out(at);
        }
        self.wake(index);
    }
}
