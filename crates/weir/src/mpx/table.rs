//! The channels of one participant, and the links they are on.
//!
//! A channel of a link is known outside by its entry in one table for all links; entries are
//! used again, with another generation.

use super::home::Home;
use super::hot::HotLanes;
use super::link_end::{LinkEnd, NONE};
use super::record::{ChannelId, DEFAULT_PRIORITY, invalid};
use crate::connect::peer::Ending;
use crate::error::{Error, ErrorKind, Result};
use weir_policy::ready::{ReadyQueue, Turn};
use weir_ring::Corrupt;
use weir_ring::account::add;
use weir_ring::lane::{FrameKind, LinkSide, fence_before_last_look, look_away};

/// Where a channel stands, from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none.
    Free,
    /// At the owner: something has come of a number that has no channel, an open, or nonsense.
    Fresh,
    /// At the owner: to be accepted or refused. What follows the open is not looked at.
    Asked,
    /// At the peer: not yet answered.
    Opening,
    /// Both send and receive.
    Open,
    /// This side has sent the last it sends; what comes is passed over, up to the other's last.
    Closing,
    /// Another mpx.
    Joined,
}

/// One channel.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    pub generation: u32,
    pub link: u32,
    pub number: u32,
    pub state: State,
    pub priority: u8,
    /// A send was not taken whole, and there has not been room since.
    pub blocked: bool,
    /// That is to be said.
    pub tell_blocked: bool,
    pub turn: Turn,
    /// The channel to which what comes goes, or [`NONE`].
    pub partner: u32,
}

impl Channel {
    /// Whether it can be named.
    fn is_visible(&self) -> bool {
        !matches!(self.state, State::Free | State::Fresh | State::Closing)
    }
}

/// Two of these, the place in the queue, and what the link knows of its lanes: the private bytes of
/// an idle channel, at most.
const _: () = assert!(size_of::<Channel>() + size_of::<super::link_end::Lanes>() + 12 <= 256);

/// The links and channels of one participant.
#[derive(Debug)]
pub struct ChannelTable {
    pub home: Home,
    pub links: Vec<Option<LinkEnd>>,
    pub channels: Vec<Channel>,
    pub ready: ReadyQueue,
    pub hot: HotLanes,
    /// Some channel was given another priority than the others.
    pub has_priorities: bool,
    /// Of a peer: why the owner did not take it, if it said so.
    pub refusal: Option<String>,
    free: Vec<u32>,
    /// Links and numbers at which to look.
    scratch: Vec<(u32, u32)>,
}

impl ChannelTable {
    pub fn new(home: Home) -> ChannelTable {
        ChannelTable {
            home,
            links: Vec::new(),
            channels: Vec::new(),
            ready: ReadyQueue::default(),
            hot: HotLanes::default(),
            has_priorities: false,
            refusal: None,
            free: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// A number for one more link.
    pub fn number_for_link(&self) -> u32 {
        let free = self.links.iter().position(Option::is_none);
        free.unwrap_or(self.links.len()) as u32
    }

    /// Puts a link at its number.
    pub fn add_link(&mut self, number: u32, link: LinkEnd) {
        let at = number as usize;
        if at == self.links.len() {
            self.links.push(None);
        }
        self.links[at] = Some(link);
        add(&self.home.account().peers, 1);
    }

    /// Links there are.
    pub fn peers(&self) -> usize {
        self.links.iter().flatten().count()
    }

    /// Channels that can be named.
    pub fn open_channels(&self) -> usize {
        self.channels.iter().filter(|channel| channel.is_visible()).count()
    }

    /// A link that there is.
    #[inline]
    pub fn link(&mut self, at: u32) -> Option<&mut LinkEnd> {
        self.links.get_mut(at as usize)?.as_mut()
    }

    /// The link of a channel.
    pub fn link_of(&mut self, index: u32) -> Option<&mut LinkEnd> {
        self.link(self.channels[index as usize].link)
    }

    /// The place of a channel in the table.
    #[inline]
    pub fn find(&self, operation: &'static str, id: ChannelId) -> Result<u32> {
        let there = self
            .channels
            .get(id.index as usize)
            .is_some_and(|channel| channel.generation == id.generation && channel.is_visible());
        if there { Ok(id.index) } else { Err(invalid(operation, id)) }
    }

    pub fn id(&self, index: u32) -> ChannelId {
        ChannelId { index, generation: self.channels[index as usize].generation }
    }

    /// A new entry of the table.
    pub fn enter(&mut self, link: u32, number: u32, state: State) -> u32 {
        add(&self.home.account().channels, 1);
        let fresh = Channel {
            generation: 1,
            link,
            number,
            state,
            priority: DEFAULT_PRIORITY,
            blocked: false,
            tell_blocked: false,
            turn: Turn::default(),
            partner: NONE,
        };
        let index = match self.free.pop() {
            Some(index) => {
                let generation = self.channels[index as usize].generation + 1;
                self.channels[index as usize] = Channel { generation, ..fresh };
                index
            }
            None => {
                self.channels.push(fresh);
                self.channels.len() as u32 - 1
            }
        };
        if let Some(link) = self.link(link)
            && let Some(lanes) = link.lanes(number)
        {
            lanes.entry = index;
            link.entries += 1;
        }
        index
    }

    /// Lets an entry go: the channel has ended on both sides, or its link has.
    pub fn leave(&mut self, index: u32) {
        self.unlink_partner(index);
        add(&self.home.account().channels, 1_u64.wrapping_neg());
        let Channel { link: at, number, .. } = self.channels[index as usize];
        self.channels[index as usize].state = State::Free;
        self.ready.remove(index);
        // One whose generations are used up names no channel any more.
        if self.channels[index as usize].generation != u32::MAX {
            self.free.push(index);
        }
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
        let partner = std::mem::replace(&mut self.channels[index as usize].partner, NONE);
        if partner == NONE {
            return false;
        }
        self.channels[partner as usize].partner = NONE;
        // Either may have waited for room of the other.
        self.wake(partner);
        self.wake(index);
        true
    }

    /// Has a channel looked at.
    pub fn wake(&mut self, index: u32) {
        let channel = &self.channels[index as usize];
        if channel.state != State::Free {
            self.ready.push(index, channel.priority);
        }
    }

    /// Looks away from a lane in, unless it is hot. Whether nothing has come of it.
    pub fn cool(&mut self, at: u32, number: u32) -> bool {
        let Some(link) = self.link(at) else { return true };
        if link.lanes(number).is_some_and(|lanes| !lanes.is_hot) {
            look_away(link.attention(number));
            fence_before_last_look();
        }
        !link.has(number)
    }

    /// Looks at the hot lanes: how many have something.
    pub fn look_at_hot(&mut self) -> u32 {
        let mut found = std::mem::take(&mut self.scratch);
        self.hot.look(&mut self.links, &mut found);
        self.touch_all(found)
    }

    /// Looks away from the hot lanes, and once more at each of them.
    pub fn look_away(&mut self) {
        let mut found = std::mem::take(&mut self.scratch);
        self.hot.look_away(&mut self.links, &mut found);
        self.touch_all(found);
    }

    /// Looks at the board of a link, and has the channels looked at that it names: how many.
    pub fn gather_link(&mut self, at: u32) -> u32 {
        let side = self.home.side();
        let Some(Some(link)) = self.links.get(at as usize) else { return 0 };
        if side == LinkSide::Owner {
            // First, so that a bit set after this is told of, and one set before is found: once is
            // enough, whatever the peer does meanwhile.
            look_away(&link.map.header().side(side).attention);
            fence_before_last_look();
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

    /// Has a channel looked at of which something may have come.
    fn touch(&mut self, at: u32, number: u32) {
        let side = self.home.side();
        let Some(link) = self.link(at) else { return };
        // A peer knows of each number it has used; an owner that names others is not listened to.
        if side == LinkSide::Peer && !link.knows(number) {
            return;
        }
        let Some(lanes) = link.lanes(number) else { return };
        let entry = lanes.entry;
        if entry != NONE {
            self.wake(entry);
        } else if side == LinkSide::Owner && link.has(number) {
            let index = self.enter(at, number, State::Fresh);
            self.wake(index);
        }
    }

    /// The other side of a link may be gone.
    pub fn on_gone(&mut self, at: u32) {
        let Some(link) = self.link(at) else { return };
        if !link.line.is_dead() || link.ending.is_some() {
            return;
        }
        link.hear();
        let closed = link.other_has_closed();
        // What it has said before it went is on its board by now, or in lanes that are hot.
        self.gather_link(at);
        self.look_at_hot();
        self.end_link(at, if closed { Ending::Closed } else { Ending::Died });
    }

    /// The memory of a link is corrupt: it is not read any more.
    pub fn shut_out(&mut self, at: u32) {
        self.end_link(at, Ending::ShutOut);
    }

    fn end_link(&mut self, at: u32, ending: Ending) {
        let Some(link) = self.link(at) else { return };
        if link.ending == Some(Ending::ShutOut) {
            return;
        }
        if ending == Ending::ShutOut {
            link.say_closed();
            link.line.hang_up();
        }
        link.ending = Some(ending);
        let refusal = link.line.refusal().map(str::to_owned);
        let entries: Vec<u32> = link.each_entry().collect();
        self.refusal = refusal;
        self.hot.forget(at);
        entries.into_iter().for_each(|entry| self.wake(entry));
        self.drop_ended(at);
    }

    /// Sends a frame: how many bytes of data were taken, and whether all was. Of other frames all
    /// is taken, or nothing.
    #[inline]
    pub fn send(
        &mut self,
        operation: &'static str,
        id: ChannelId,
        kind: FrameKind,
        bytes: &[u8],
    ) -> Result<(usize, bool)> {
        let index = self.find(operation, id)?;
        let Channel { link: at, number, state, .. } = self.channels[index as usize];
        match self.link(at) {
            Some(link) if link.ending.is_none() && state != State::Asked => {
                if kind == FrameKind::Data && bytes.is_empty() {
                    return Ok((0, true));
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
            _ => Err(self.not_open(operation, index)),
        }
    }

    /// Why nothing can be sent on a channel.
    #[cold]
    fn not_open(&self, operation: &'static str, index: u32) -> Error {
        let (kind, why) = match self.channels[index as usize].state {
            State::Asked => (ErrorKind::Invalid, "it has not been accepted"),
            State::Joined => (ErrorKind::Invalid, "it is another mpx"),
            _ => (ErrorKind::Closed, "the other side is gone"),
        };
        Error::new(kind, operation, format!("channel {}", self.id(index)), why)
    }

    /// Shuts a link out for what was found in its memory.
    #[cold]
    fn corrupt(&mut self, index: u32, operation: &'static str, Corrupt(what): Corrupt) -> Error {
        let object = format!("channel {}", self.id(index));
        self.shut_out(self.channels[index as usize].link);
        Error::new(ErrorKind::Corrupt, operation, object, format!("{what} is invalid"))
    }

    /// Clears the request for room. If an earlier, larger send is still blocked, the channel is
    /// looked at again: its request is gone too.
    pub fn clear_room_request(&mut self, index: u32) {
        let Channel { number, blocked, .. } = self.channels[index as usize];
        if let Some(link) = self.link_of(index) {
            link.clear_room_request(number);
        }
        if blocked {
            self.wake(index);
        }
    }

    /// A send was not taken whole: that is to be said, where anybody listens.
    fn block(&mut self, index: u32) {
        add(&self.home.account().blocked, 1);
        let channel = &mut self.channels[index as usize];
        if !channel.blocked {
            channel.blocked = true;
            channel.tell_blocked = channel.partner == NONE;
            self.wake(index);
        }
    }

    /// Sends the last there is of a channel, and hears no more of it.
    pub fn finish(&mut self, index: u32, kind: FrameKind, bytes: &[u8]) {
        self.unlink_partner(index);
        let channel = &mut self.channels[index as usize];
        let (at, number) = (channel.link, channel.number);
        (channel.state, channel.blocked, channel.tell_blocked) = (State::Closing, false, false);
        let Some(link) = self.link(at) else { return };
        if link.ending.is_none() && !link.put_last(number, kind, bytes) {
            self.shut_out(at);
        }
        self.wake(index);
    }
}
