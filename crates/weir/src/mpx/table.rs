//! The links of one participant and the channels on them: what owner and peer have in common.
//!
//! A channel of a link is known outside by its entry in one table for all links; entries are
//! used again, with another generation.

use super::link::{Link, NONE};
use super::record::{ChannelId, DEFAULT_PRIORITY, invalid};
use crate::error::{Error, ErrorKind, Result};
use crate::port::Ending;
use weir_policy::ready::{ReadyQueue, Turn};
use weir_ring::Corrupt;
use weir_ring::lane::{FrameKind, Side, go_cold};

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

/// Two of these, the place in the queue, and what the link knows of its lanes.
const _: () = assert!(size_of::<Channel>() + size_of::<super::link::Lanes>() + 12 <= 256);

/// The links and channels of one participant.
#[derive(Debug)]
pub struct Core {
    pub side: Side,
    pub links: Vec<Option<Link>>,
    pub channels: Vec<Channel>,
    pub ready: ReadyQueue,
    /// Of a peer: why the owner did not take it, if it said so.
    pub refusal: Option<String>,
    free: Vec<u32>,
    /// For the numbers of a board.
    scratch: Vec<u32>,
}

impl Core {
    pub fn new(side: Side) -> Core {
        let (links, channels) = (Vec::new(), Vec::new());
        let (ready, free, scratch) = (ReadyQueue::default(), Vec::new(), Vec::new());
        Core { side, links, channels, ready, refusal: None, free, scratch }
    }

    /// A number for one more link.
    pub fn number_for_link(&self) -> u32 {
        let free = self.links.iter().position(Option::is_none);
        free.unwrap_or(self.links.len()) as u32
    }

    /// Puts a link at its number.
    pub fn add_link(&mut self, number: u32, link: Link) {
        let at = number as usize;
        if at == self.links.len() {
            self.links.push(None);
        }
        self.links[at] = Some(link);
    }

    /// Links there are.
    pub fn peers(&self) -> usize {
        self.links.iter().flatten().count()
    }

    /// Channels that can be named.
    pub fn open_channels(&self) -> usize {
        self.channels.iter().filter(|channel| is_visible(channel.state)).count()
    }

    /// The link of a channel.
    pub fn link_of(&mut self, index: u32) -> Option<&mut Link> {
        let link = self.channels[index as usize].link;
        self.links.get_mut(link as usize)?.as_mut()
    }

    /// The place of a channel in the table.
    pub fn find(&self, operation: &'static str, id: ChannelId) -> Result<u32> {
        let there = self.channels.get(id.index as usize).is_some_and(|channel| {
            channel.generation == id.generation && is_visible(channel.state)
        });
        if there { Ok(id.index) } else { Err(invalid(operation, id)) }
    }

    pub fn id(&self, index: u32) -> ChannelId {
        ChannelId { index, generation: self.channels[index as usize].generation }
    }

    /// A new entry of the table.
    pub fn enter(&mut self, link: u32, number: u32, state: State) -> u32 {
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
        if let Some(Some(link)) = self.links.get_mut(link as usize).filter(|_| number != NONE)
            && let Some(lanes) = link.lanes(number)
        {
            lanes.entry = index;
            link.entries += 1;
        }
        index
    }

    /// Lets an entry go: the channel has ended on both sides, or its link has.
    pub fn leave(&mut self, index: u32) {
        self.part(index);
        let Channel { link, number, .. } = self.channels[index as usize];
        self.channels[index as usize].state = State::Free;
        self.ready.remove(index);
        // One whose generations are used up names no channel any more.
        if self.channels[index as usize].generation != u32::MAX {
            self.free.push(index);
        }
        let Some(Some(here)) = self.links.get_mut(link as usize).filter(|_| number != NONE) else {
            return;
        };
        here.give_back(number);
        here.leave(number);
        if here.ending.is_some() {
            self.drop_ended(link);
        } else if !here.cool(number) {
            self.touch(link, number);
        }
    }

    /// Drops a link that has ended, once all its channels have.
    pub fn drop_ended(&mut self, link: u32) {
        let place = &mut self.links[link as usize];
        if place.as_ref().is_some_and(|link| link.ending.is_some() && link.entries == 0) {
            *place = None;
        }
    }

    /// What comes of the channel goes where it went no more.
    pub fn part(&mut self, index: u32) -> bool {
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

    /// Looks at the board of a link, and has the channels looked at that it names: how many.
    pub fn gather_link(&mut self, at: u32) -> u32 {
        let Some(Some(link)) = self.links.get(at as usize) else { return 0 };
        let (map, side) = (&link.map, self.side);
        if side == Side::Owner {
            // First, so that a bit set after this is told of, and one set before is found: once is
            // enough, whatever the peer does meanwhile.
            go_cold(&map.header().side(side).told);
        }
        if !map.board(side).any() {
            return 0;
        }
        let mut numbers = std::mem::take(&mut self.scratch);
        map.board(side).gather(|number| numbers.push(number));
        let count = numbers.len() as u32;
        for number in numbers.drain(..) {
            self.touch(at, number);
        }
        self.scratch = numbers;
        count
    }

    /// Has a channel looked at of which something may have come.
    fn touch(&mut self, at: u32, number: u32) {
        let Some(Some(link)) = self.links.get_mut(at as usize) else { return };
        // A peer knows of each number it has used; an owner that names others is not listened to.
        if self.side == Side::Peer && !link.knows(number) {
            return;
        }
        let Some(lanes) = link.lanes(number) else { return };
        let entry = lanes.entry;
        if entry != NONE {
            self.wake(entry);
        } else if self.side == Side::Owner && link.has(number) {
            let index = self.enter(at, number, State::Fresh);
            self.wake(index);
        }
    }

    /// The other side of a link may be gone.
    pub fn on_gone(&mut self, at: u32) {
        let Some(Some(link)) = self.links.get_mut(at as usize) else { return };
        if !link.line.is_dead() || link.ending.is_some() {
            return;
        }
        link.hear();
        let closed = link.other_has_closed();
        // What it has said before it went is on its board by now.
        self.gather_link(at);
        self.end_link(at, if closed { Ending::Closed } else { Ending::Died });
    }

    /// What was read of a link cannot be: it is not read any more.
    pub fn shut_out(&mut self, at: u32) {
        self.end_link(at, Ending::ShutOut);
    }

    fn end_link(&mut self, at: u32, ending: Ending) {
        let Some(Some(link)) = self.links.get_mut(at as usize) else { return };
        if link.ending == Some(Ending::ShutOut) {
            return;
        }
        if ending == Ending::ShutOut {
            link.say_closed();
            link.line.hang_up();
        }
        link.ending = Some(ending);
        self.refusal = link.line.refusal().map(str::to_owned);
        let entries: Vec<u32> = link.each_entry().collect();
        entries.into_iter().for_each(|entry| self.wake(entry));
        self.drop_ended(at);
    }

    /// Sends bytes: how many were taken.
    pub fn send(&mut self, id: ChannelId, bytes: &[u8]) -> Result<usize> {
        let index = self.find_open("send on", id)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let sent = self.send_data(index, bytes);
        self.checked(index, "send on", sent)
    }

    /// Sends a mark or a number: whether it was taken.
    pub fn send_small(
        &mut self,
        operation: &'static str,
        id: ChannelId,
        kind: FrameKind,
        bytes: &[u8],
    ) -> Result<bool> {
        let index = self.find_open(operation, id)?;
        let sent = self.try_frame(index, kind, bytes);
        self.checked(index, operation, sent)
    }

    /// A channel on which can be sent.
    fn find_open(&mut self, operation: &'static str, id: ChannelId) -> Result<u32> {
        let index = self.find(operation, id)?;
        let failed =
            |kind, why: &str| Err(Error::new(kind, operation, format!("channel {id}"), why));
        match self.channels[index as usize].state {
            State::Asked => return failed(ErrorKind::Invalid, "it has not been accepted"),
            State::Joined => return failed(ErrorKind::Invalid, "it is another mpx"),
            _ => {}
        }
        match self.link_of(index).map(|link| link.ending) {
            Some(None) => Ok(index),
            _ => failed(ErrorKind::Closed, "the other side is gone"),
        }
    }

    /// What was found, or that the link is shut out for what was found in its memory.
    fn checked<T>(
        &mut self,
        index: u32,
        operation: &'static str,
        found: std::result::Result<T, Corrupt>,
    ) -> Result<T> {
        found.map_err(|Corrupt(what)| {
            let object = format!("channel {}", self.id(index));
            self.shut_out(self.channels[index as usize].link);
            let why = format!("{what} cannot be as it is");
            Error::new(ErrorKind::Corrupt, operation, object, why)
        })
    }

    fn send_data(&mut self, index: u32, bytes: &[u8]) -> std::result::Result<usize, Corrupt> {
        let number = self.channels[index as usize].number;
        let Some(link) = self.link_of(index) else { return Ok(0) };
        let (mut taken, mut wanted) = (0, false);
        loop {
            match link.room_for(number, bytes.len() - taken)? {
                Some(count) => {
                    let more = taken + count < bytes.len();
                    link.put(number, FrameKind::Data, more, &bytes[taken..taken + count]);
                    taken += count;
                    if !more {
                        break;
                    }
                }
                None => {
                    wanted = true;
                    if !link.want_room(number)? {
                        self.block(index);
                        return Ok(taken);
                    }
                }
            }
        }
        if wanted {
            self.content(index);
        }
        Ok(taken)
    }

    /// Sends a frame that is not cut, if there is room.
    pub fn try_frame(
        &mut self,
        index: u32,
        kind: FrameKind,
        bytes: &[u8],
    ) -> std::result::Result<bool, Corrupt> {
        let number = self.channels[index as usize].number;
        let Some(link) = self.link_of(index) else { return Ok(false) };
        let mut wanted = false;
        for _ in 0..2 {
            if link.room_for(number, bytes.len())? == Some(bytes.len()) {
                link.put(number, kind, false, bytes);
                if wanted {
                    self.content(index);
                }
                return Ok(true);
            }
            if !link.want_room(number)? {
                break;
            }
            wanted = true;
        }
        self.block(index);
        Ok(false)
    }

    /// Room that was wanted is there. Where more was wanted before, that is looked at again: the
    /// wish for it is gone too.
    pub fn content(&mut self, index: u32) {
        let Channel { number, blocked, .. } = self.channels[index as usize];
        if let Some(link) = self.link_of(index) {
            link.content(number);
        }
        if blocked {
            self.wake(index);
        }
    }

    /// A send was not taken whole: that is to be said, where anybody listens.
    pub fn block(&mut self, index: u32) {
        let channel = &mut self.channels[index as usize];
        if !channel.blocked {
            channel.blocked = true;
            channel.tell_blocked = channel.partner == NONE;
            self.wake(index);
        }
    }

    /// Sends the last there is of a channel, and hears no more of it.
    pub fn finish(&mut self, index: u32, kind: FrameKind, bytes: &[u8]) {
        self.part(index);
        let channel = &mut self.channels[index as usize];
        let number = channel.number;
        (channel.state, channel.blocked, channel.tell_blocked) = (State::Closing, false, false);
        let Some(link) = self.link_of(index) else { return };
        if link.ending.is_none() && !link.put_last(number, kind, bytes) {
            let at = self.channels[index as usize].link;
            self.shut_out(at);
        }
        self.wake(index);
    }
}

/// Whether a channel can be named.
fn is_visible(state: State) -> bool {
    !matches!(state, State::Free | State::Fresh | State::Closing)
}
