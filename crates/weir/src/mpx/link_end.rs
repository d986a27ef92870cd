//! One link, from one side: its lanes, the blocks of its own arena, and how the other side is told.

use super::line::Line;
use crate::connect::acceptor::Identity;
use crate::memory::{LinkMap, Page};
use crate::port::Ending;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_policy::arena::{Arena, LARGEST_BYTES, SMALLEST_BYTES, block_for};
use weir_ring::board::Board;
use weir_ring::lane::{
    FrameKind, INLINE_BYTES, LaneId, LaneMemory, LaneReader, LaneWords, LaneWriter, Place, Side,
    footprint, go_cold, must_tell, needed,
};
use weir_ring::primitive::Ordering;
use weir_ring::{Corrupt, sleep};

/// No entry of the table of channels.
pub const NONE: u32 = u32::MAX;
/// A lane that was too small at its smallest gets so much, if there is so much.
const FIRST_WISH_BYTES: u32 = 16 << 10;
/// Lanes looked at in one go for one whose block could be taken back.
const RECLAIM_LOOKS: usize = 64;
/// Numbers tried for one whose lane has room for an open.
const OPEN_TRIES: usize = 8;

/// Both lanes of a channel, as this side knows them.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    pub out: LaneWriter,
    pub inward: LaneReader,
    /// The channel's entry in the table, or [`NONE`].
    pub entry: u32,
    /// Bytes the lane out should have, as its blocking has shown.
    wish_bytes: u32,
}

/// One link.
#[derive(Debug)]
pub struct Link {
    pub map: Arc<LinkMap>,
    pub line: Arc<Line>,
    pub identity: Identity,
    /// How it ended, once it has.
    pub ending: Option<Ending>,
    /// Channels that have an entry.
    pub entries: u32,
    side: Side,
    lanes: Vec<Lanes>,
    arena: Arena,
    /// Channels whose lane out has a block.
    lent: Vec<u32>,
    next_lent: usize,
    /// Of a peer: where the owner is told, once it has said so.
    bell: Option<(Page<Board>, u32)>,
    /// Of a peer: numbers that were used and are free again.
    free: VecDeque<u32>,
}

impl Link {
    pub fn new(map: Arc<LinkMap>, line: Arc<Line>, side: Side, identity: Identity) -> Link {
        let arena = Arena::new(map.extent().arena_bytes);
        Link {
            map,
            line,
            identity,
            ending: None,
            entries: 0,
            side,
            lanes: Vec::new(),
            arena,
            lent: Vec::new(),
            next_lent: 0,
            bell: None,
            free: VecDeque::new(),
        }
    }

    /// The lanes of a channel; none of a number that none can have.
    pub fn lanes(&mut self, number: u32) -> Option<&mut Lanes> {
        if number >= self.map.extent().channels {
            return None;
        }
        let at = number as usize;
        if at >= self.lanes.len() {
            let fresh = Lanes {
                out: LaneWriter::default(),
                inward: LaneReader::default(),
                entry: NONE,
                wish_bytes: 0,
            };
            self.lanes.resize(at + 1, fresh);
        }
        self.lanes.get_mut(at)
    }

    /// Whether a number was used before.
    pub fn knows(&self, number: u32) -> bool {
        (number as usize) < self.lanes.len()
    }

    /// The entries of all its channels.
    pub fn each_entry(&self) -> impl Iterator<Item = u32> + '_ {
        self.lanes.iter().map(|lanes| lanes.entry).filter(|entry| *entry != NONE)
    }

    fn out(&self, number: u32) -> LaneId {
        LaneId { writer: self.side, channel: number }
    }

    fn inward(&self, number: u32) -> LaneId {
        LaneId { writer: self.side.other(), channel: number }
    }

    /// The words of the lane from which this side reads.
    pub fn inward_words(&self, number: u32) -> &LaneWords {
        self.map.lane(self.inward(number))
    }

    /// Whether something has come of a channel.
    pub fn has(&self, number: u32) -> bool {
        let lanes = &self.lanes[number as usize];
        lanes.inward.has(&*self.map, self.inward(number))
    }

    /// The reader of a channel, with what it reads.
    pub fn reading(&mut self, number: u32) -> (&mut LaneReader, &LinkMap, LaneId) {
        let id = self.inward(number);
        (&mut self.lanes[number as usize].inward, &self.map, id)
    }

    /// Gives back what was read of a channel.
    pub fn give_back(&mut self, number: u32) {
        let id = self.inward(number);
        if self.lanes[number as usize].inward.give_back(&*self.map, id) {
            self.tell(number);
        }
    }

    /// Looks no longer at a channel. Whether that is right: nothing has come meanwhile.
    pub fn cool(&mut self, number: u32) -> bool {
        go_cold(&self.inward_words(number).reader.told);
        !self.has(number)
    }

    /// Bytes of data that can be sent now, at most `wanted`: all of them, or what is worth a piece;
    /// none if there is no room.
    pub fn room_for(&mut self, number: u32, wanted: usize) -> Result<Option<usize>, Corrupt> {
        let id = self.out(number);
        let at = number as usize;
        let lanes = &self.lanes[at];
        let too_small = lanes.wish_bytes as usize > lanes.out.place().bytes();
        if too_small || footprint(wanted) > lanes.out.room() {
            self.lanes[at].out.refresh(&*self.map, id)?;
            if self.lanes[at].out.is_empty() {
                self.fit(number, wanted);
            }
        }
        let out = &self.lanes[at].out;
        if footprint(wanted) <= out.room() {
            return Ok(Some(wanted));
        }
        Ok(out.is_roomy().then(|| (out.room() - footprint(0)) & !3))
    }

    /// Sends a frame for which there is room.
    pub fn put(&mut self, number: u32, kind: FrameKind, more: bool, bytes: &[u8]) {
        let id = self.out(number);
        let out = &mut self.lanes[number as usize].out;
        out.put(&*self.map, id, kind, more, bytes);
        out.publish(&*self.map, id);
        if must_tell(&self.map.lane(id).reader.told) {
            self.tell(number);
        }
    }

    /// Sends the last frame of a channel. It fits always, unless the other side goes against the
    /// protocol, where it is not sent.
    pub fn put_last(&mut self, number: u32, kind: FrameKind, bytes: &[u8]) -> bool {
        let fits = match kind {
            FrameKind::Close => self.lanes[number as usize].out.takes_last(),
            _ => matches!(self.room_for(number, bytes.len()), Ok(Some(all)) if all == bytes.len()),
        };
        if fits {
            self.put(number, kind, false, bytes);
        }
        fits
    }

    /// Says that this side wants to be told of room, and looks once more: whether there is some.
    pub fn want_room(&mut self, number: u32) -> Result<bool, Corrupt> {
        let id = self.out(number);
        sleep::announce(&self.map.lane(id).reader.wanted, 1);
        let lanes = &mut self.lanes[number as usize];
        let bytes = lanes.out.place().as_block().map_or(FIRST_WISH_BYTES, |(_, bytes)| 2 * bytes);
        lanes.wish_bytes = lanes.wish_bytes.max(bytes.min(LARGEST_BYTES));
        lanes.out.refresh(&*self.map, id)?;
        Ok(lanes.out.is_roomy())
    }

    /// Room is no longer wanted.
    pub fn content(&self, number: u32) {
        sleep::retract(&self.map.lane(self.out(number)).reader.wanted, 1);
    }

    /// Whether there is room for a writer that waited for it; if not, it goes on waiting.
    pub fn has_room_again(&mut self, number: u32) -> Result<bool, Corrupt> {
        let id = self.out(number);
        let out = &mut self.lanes[number as usize].out;
        out.refresh(&*self.map, id)?;
        if out.is_roomy() || self.want_room(number)? {
            self.content(number);
            return Ok(true);
        }
        Ok(false)
    }

    /// Moves an empty lane to where so many bytes, and what it is known to need, find room.
    fn fit(&mut self, number: u32, bytes: usize) {
        let lanes = &self.lanes[number as usize];
        let (place, wish) = (lanes.out.place(), lanes.wish_bytes as usize);
        let must = needed(bytes).min(LARGEST_BYTES as usize);
        if must.max(wish) <= place.bytes() {
            return;
        }
        let floor = place.as_block().map_or(SMALLEST_BYTES, |(_, bytes)| 2 * bytes);
        if self.take_block(number, block_for(must.max(wish)), floor) {
            return;
        }
        // Others' are taken back for what is to be sent now, hardly for what is only wished for.
        let looks = if must > place.bytes() { RECLAIM_LOOKS } else { RECLAIM_LOOKS / 16 };
        for _ in 0..looks.min(self.lent.len()) {
            self.next_lent %= self.lent.len().max(1);
            let Some(other) = self.lent.get(self.next_lent).copied() else { return };
            if other == number || !self.take_back(other) {
                self.next_lent += 1;
                continue;
            }
            self.lent.swap_remove(self.next_lent);
            if self.take_block(number, block_for(must), floor) {
                return;
            }
        }
    }

    /// Moves an empty lane to a block of this size, or of the next smaller there is.
    fn take_block(&mut self, number: u32, most_bytes: u32, floor: u32) -> bool {
        let mut bytes = most_bytes.max(floor);
        while bytes >= floor && bytes <= LARGEST_BYTES {
            if let Some(offset) = self.arena.take(bytes) {
                self.settle(number, Place::block(offset, bytes));
                return true;
            }
            bytes /= 2;
        }
        false
    }

    /// Gives a lane its place, and its former one back.
    fn settle(&mut self, number: u32, place: Place) {
        let out = &mut self.lanes[number as usize].out;
        match out.place().as_block() {
            Some((offset, bytes)) => self.arena.give(offset, bytes),
            None => self.lent.push(number),
        }
        out.move_to(place);
    }

    /// Takes the block of a lane back if all in it was read. A side that spoils its own position
    /// keeps its block; that is found out where the lane is used.
    fn take_back(&mut self, number: u32) -> bool {
        let id = self.out(number);
        let lanes = &mut self.lanes[number as usize];
        let is_empty = lanes.out.refresh(&*self.map, id).is_ok() && lanes.out.is_empty();
        if let (true, Some((offset, bytes))) = (is_empty, lanes.out.place().as_block()) {
            self.arena.give(offset, bytes);
            lanes.out.move_to(Place::INLINE);
            lanes.wish_bytes = 0;
        }
        is_empty
    }

    /// Tells the other side to look at a channel: something has come, or there is room.
    fn tell(&mut self, number: u32) {
        let board = self.map.board(self.side.other());
        board.set(number);
        if self.side == Side::Owner {
            self.line.wake(&board.sleep.word);
        } else if must_tell(&self.map.header().side(Side::Owner).told) {
            self.ring();
        }
    }

    /// Tells the owner to look at this link.
    fn ring(&mut self) {
        if self.bell.is_none() {
            // It was sent before the owner stopped looking at the link.
            self.hear();
        }
        if let Some((board, link)) = &self.bell {
            board.words().set(*link);
            self.line.wake(&board.words().sleep.word);
        }
    }

    /// Takes what the owner has said.
    pub fn hear(&mut self) {
        if let Some((file, link)) = self.line.take_messages()
            // What is no board is as if none had come: its sender is told of nothing.
            && let Some(Ok(board)) = file.get().map(Page::open)
        {
            self.bell = Some((board, link));
        }
    }

    /// Of a peer: the CPU its owner last ran on, and one, as that says.
    pub fn owner_cpu(&self) -> Option<u32> {
        self.bell.as_ref().map(|(board, _)| board.words().sleep.cpu.load(Ordering::Relaxed))
    }

    /// Whether the owner has taken this peer in.
    pub fn is_welcome(&self) -> bool {
        self.bell.is_some()
    }

    /// Whether the other side has said that it closed the link.
    pub fn other_has_closed(&self) -> bool {
        // Acquire pairs with the release in `say_closed`.
        self.map.header().side(self.side.other()).closed.load(Ordering::Acquire) != 0
    }

    /// Says that this side closes the link.
    pub fn say_closed(&self) {
        if self.map.is_here() {
            self.map.header().side(self.side).closed.store(1, Ordering::Release);
        }
    }

    /// Of a peer: a number whose lane takes an open of so many bytes; whether one is free at all.
    pub fn number_for_open(&mut self, bytes: usize) -> Result<Result<u32, bool>, Corrupt> {
        for _ in 0..OPEN_TRIES.min(self.free.len()) {
            let Some(number) = self.free.pop_front() else { break };
            if self.room_for(number, bytes)? == Some(bytes) {
                return Ok(Ok(number));
            }
            self.free.push_back(number);
        }
        let fresh = self.lanes.len() as u32;
        if self.lanes(fresh).is_some() {
            return Ok(Ok(fresh));
        }
        Ok(Err(!self.free.is_empty()))
    }

    /// A channel has no entry any more.
    pub fn leave(&mut self, number: u32) {
        self.lanes[number as usize].entry = NONE;
        self.entries -= 1;
        if self.side == Side::Peer {
            self.free.push_back(number);
        }
    }
}

// An open and what ends a channel fit into the ring that is always there.
const _: () = assert!(super::record::LABEL_BYTES + 12 <= INLINE_BYTES);
