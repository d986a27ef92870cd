//! One end of a link: its lanes, and the blocks of its own arena.

use super::blocks::LentBlocks;
use super::home::ParticipantHome;
use super::other_side::OtherSide;
use crate::memory::{LinkHere, LinkMap};
use std::collections::VecDeque;
use std::sync::Arc;
use weir::parts::Lifeline;
use weir::{Ending, Identity};
use weir_policy::arena::{LARGEST_BYTES, SMALLEST_BYTES, block_for};
use weir_ring::account::add;
use weir_ring::lane::{
    FrameKind, INLINE_BYTES, LaneId, LaneMemory, LanePlace, LaneReader, LaneWriter, LinkSide,
    attention_to, footprint, needed,
};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::{Corrupt, sleep};

/// No entry of the table of channels.
pub const NONE: u32 = u32::MAX;
/// The size wished for a lane that blocked without a block, if the arena has as much.
const FIRST_WISH_BYTES: u32 = 16 << 10;
/// The most lanes looked at in one go for a block that can be taken back.
const RECLAIM_LOOKS: usize = 64;
/// The most free numbers tried for a lane that has room for an open.
const OPEN_TRIES: usize = 8;

/// Both lanes of a channel, as this side knows them.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    pub out: LaneWriter,
    pub inward: LaneReader,
    /// The channel's entry in the table, or [`NONE`].
    pub entry: u32,
    /// This side looks at the lane in by itself: see [`super::hot`].
    pub is_hot: bool,
    /// The lane in is not looked at for now.
    pub is_held: bool,
}

/// A number for the channel that a peer opens.
pub enum OpenNumber {
    /// Its lane has room.
    Free(u32),
    /// No lane of a free number has room.
    NoRoom,
    /// No number is free.
    None,
}

/// The result of a send.
pub struct Sent {
    /// Bytes taken.
    pub bytes: usize,
    /// Everything was taken.
    pub whole: bool,
    /// The send asked for room on the way.
    pub asked: bool,
}

#[derive(Debug)]
pub struct LinkEnd {
    pub map: Arc<LinkMap>,
    pub other: OtherSide,
    /// How it ended, once it has.
    pub ending: Option<Ending>,
    /// The number of its channels that have an entry in the table.
    pub entries: u32,
    home: ParticipantHome,
    side: LinkSide,
    lanes: Vec<Lanes>,
    /// The blocks of lanes out.
    blocks: LentBlocks,
    /// At a peer: numbers that were used and are free again.
    free: VecDeque<u32>,
}

impl LinkEnd {
    pub fn new(
        map: Arc<LinkMap>,
        line: Lifeline,
        home: ParticipantHome,
        identity: Option<Identity>,
    ) -> LinkEnd {
        let blocks = LentBlocks::new(map.extent().arena_bytes);
        add(&home.account().arena_bytes, blocks.arena.bytes().into());
        LinkEnd {
            other: OtherSide::new(map.clone(), line, home.clone(), identity),
            map,
            ending: None,
            entries: 0,
            side: home.side(),
            home,
            lanes: Vec::new(),
            blocks,
            free: VecDeque::new(),
        }
    }

    /// The lanes of a channel. `None` for a number that no channel can have.
    pub fn lanes(&mut self, number: u32) -> Option<&mut Lanes> {
        if number >= self.map.extent().channels {
            return None;
        }
        for next in self.lanes.len() as u32..=number {
            let out = LaneWriter::new(&*self.map, self.out(next));
            let inward = LaneReader::new(&*self.map, self.inward(next));
            self.lanes.push(Lanes { out, inward, entry: NONE, is_hot: false, is_held: false });
        }
        self.lanes.get_mut(number as usize)
    }

    /// Whether a number was used before.
    pub fn knows(&self, number: u32) -> bool {
        (number as usize) < self.lanes.len()
    }

    pub fn each_entry(&self) -> impl Iterator<Item = u32> + '_ {
        self.lanes.iter().map(|lanes| lanes.entry).filter(|entry| *entry != NONE)
    }

    #[inline]
    fn out(&self, number: u32) -> LaneId {
        LaneId { writer: self.side, channel: number }
    }

    #[inline]
    fn inward(&self, number: u32) -> LaneId {
        self.out(number).back()
    }

    /// The word that tells the writer whether this side looks at the lane in of a channel.
    #[inline]
    pub fn attention(&self, number: u32) -> &AtomicU32 {
        attention_to(&*self.map, self.inward(number))
    }

    /// Whether something has come on a channel.
    #[inline]
    pub fn has(&self, number: u32) -> bool {
        let lanes = &self.lanes[number as usize];
        lanes.inward.has(&*self.map, self.inward(number))
    }

    /// Whether something has come on a channel that is not held.
    #[inline]
    pub fn has_to_show(&self, number: u32) -> bool {
        !self.lanes[number as usize].is_held && self.has(number)
    }

    /// The reader of a channel, with the memory and lane that it reads.
    #[inline]
    pub fn reading(&mut self, number: u32) -> (&mut LaneReader, &LinkMap, LaneId) {
        let id = self.inward(number);
        (&mut self.lanes[number as usize].inward, &self.map, id)
    }

    /// Gives back the room of what was read from a channel.
    #[inline]
    pub fn give_back(&mut self, number: u32) {
        let id = self.inward(number);
        if self.lanes[number as usize].inward.give_back(&*self.map, id) {
            self.other.notify(number);
        }
    }

    /// Sends short data if it goes out directly: whether it did.
    #[inline(always)]
    pub fn send_short(&mut self, number: u32, bytes: &[u8]) -> bool {
        self.put_and_publish(number, Some(bytes.len()), |out, here| out.put_short(&here, bytes))
    }

    /// Sends a frame if it goes out directly: whether it did.
    pub fn send_directly(&mut self, number: u32, kind: FrameKind, bytes: &[u8]) -> bool {
        self.lanes[number as usize].out.surely_fits(bytes.len())
            && self.put_if_fits(number, kind, false, bytes)
    }

    /// Sends data, in pieces if there is not room for all, or another frame as a whole.
    #[cold]
    #[inline(never)]
    pub fn send(&mut self, number: u32, kind: FrameKind, bytes: &[u8]) -> Result<Sent, Corrupt> {
        let mut sent = Sent { bytes: 0, whole: false, asked: false };
        loop {
            let left = bytes.len() - sent.bytes;
            let room = self.room_for(number, left)?;
            if let Some(count) = room.filter(|count| *count == left || kind == FrameKind::Data) {
                self.put(number, kind, count < left, &bytes[sent.bytes..sent.bytes + count]);
                sent.bytes += count;
                if count == left {
                    sent.whole = true;
                    return Ok(sent);
                }
            } else if room.is_some() || !self.want_room(number)? {
                return Ok(sent);
            } else {
                sent.asked = true;
            }
        }
    }

    /// Bytes of data that can be sent now: `wanted`, or fewer if they are worth a piece. `None` if
    /// there is no room.
    #[inline]
    pub fn room_for(&mut self, number: u32, wanted: usize) -> Result<Option<usize>, Corrupt> {
        if self.lanes[number as usize].out.surely_fits(wanted) {
            return Ok(Some(wanted));
        }
        self.make_room(number, wanted)
    }

    /// Whether the lane out has no block.
    pub fn is_small(&self, number: u32) -> bool {
        self.lanes[number as usize].out.place().as_block().is_none()
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self, number: u32, wanted: usize) -> Result<Option<usize>, Corrupt> {
        let (id, at) = (self.out(number), number as usize);
        self.lanes[at].out.refresh(&*self.map, id)?;
        if self.lanes[at].out.is_empty() {
            self.fit(number, wanted);
        }
        let out = &self.lanes[at].out;
        if footprint(wanted) <= out.room() {
            return Ok(Some(wanted));
        }
        Ok(out.is_roomy().then(|| (out.room() - footprint(0)) & !3))
    }

    /// Sends a frame for which there is room.
    pub fn put(&mut self, number: u32, kind: FrameKind, more: bool, bytes: &[u8]) {
        assert!(self.put_if_fits(number, kind, more, bytes), "no room for a frame");
    }

    /// Sends a frame if it is known to fit: whether it is.
    fn put_if_fits(&mut self, number: u32, kind: FrameKind, more: bool, bytes: &[u8]) -> bool {
        let data = if kind == FrameKind::Data { bytes.len() } else { 0 };
        let counts = kind.is_record().then_some(data);
        self.put_and_publish(number, counts, |out, here| out.put(&here, kind, more, bytes))
    }

    /// Publishes what `put` puts into a lane: whether it did. Counts a record of so many bytes.
    #[inline(always)]
    fn put_and_publish(
        &mut self,
        number: u32,
        counts: Option<usize>,
        put: impl FnOnce(&mut LaneWriter, LinkHere<'_>) -> bool,
    ) -> bool {
        let (id, out) = (self.out(number), &mut self.lanes[number as usize].out);
        let Some(here) = self.map.here().filter(|here| put(out, *here)) else { return false };
        let attention = out.publish(&here, id);
        if let Some(bytes) = counts {
            self.home.account_beside(here).count_sent(bytes);
        }
        if !self.other.is_known_to_poll(attention) {
            self.other.notify_if_away(number);
        }
        true
    }

    /// Sends the last frame of a channel: whether it fits. It always does, unless the other side
    /// breaks the protocol.
    pub fn put_last(&mut self, number: u32, kind: FrameKind, bytes: &[u8]) -> bool {
        let has_room = kind == FrameKind::Close
            || matches!(self.room_for(number, bytes.len()), Ok(Some(all)) if all == bytes.len());
        has_room && self.put_if_fits(number, kind, false, bytes)
    }

    /// Asks to be notified of room, and looks once more: whether there is some.
    pub fn want_room(&mut self, number: u32) -> Result<bool, Corrupt> {
        let id = self.out(number);
        sleep::announce(&self.map.lane(id).reader.wanted, 1);
        let out = &mut self.lanes[number as usize].out;
        let bytes = out.place().as_block().map_or(FIRST_WISH_BYTES, |(_, bytes)| 2 * bytes);
        out.set_wish(out.wish_bytes().max(bytes.min(LARGEST_BYTES)));
        out.refresh(&*self.map, id)?;
        let is_roomy = out.is_roomy();
        if !is_roomy {
            self.other.request_drain();
        }
        Ok(is_roomy)
    }

    /// Whether the sender of a channel waits for room.
    pub fn is_pressed(&self, number: u32) -> bool {
        // Relaxed: the draining thread has announced itself before, with a fence that pairs with
        // the one in `drain::say_full`.
        self.map.lane(self.inward(number)).reader.wanted.load(Ordering::Relaxed) != 0
    }

    pub fn clear_room_request(&self, number: u32) {
        sleep::retract(&self.map.lane(self.out(number)).reader.wanted, 1);
    }

    /// Whether there is room for a writer that waited for it. If not, it continues waiting.
    pub fn has_room_again(&mut self, number: u32) -> Result<bool, Corrupt> {
        let id = self.out(number);
        let out = &mut self.lanes[number as usize].out;
        out.refresh(&*self.map, id)?;
        let has_room = out.is_roomy() || self.want_room(number)?;
        if has_room {
            self.clear_room_request(number);
        }
        Ok(has_room)
    }

    /// Moves an empty lane to a block that holds this many bytes, and as many as it wishes for.
    fn fit(&mut self, number: u32, bytes: usize) {
        let out = &self.lanes[number as usize].out;
        let (place, wish) = (out.place(), out.wish_bytes() as usize);
        let must = needed(bytes).min(LARGEST_BYTES as usize);
        // A lane that is used again gets a block while most of the arena is free: in the small
        // ring it would have to look at the reader's position for each frame.
        let could_have = place == LanePlace::INLINE && self.blocks.are_mostly_free();
        let could = if could_have { SMALLEST_BYTES } else { 0 };
        let most = must.max(wish).max(could as usize);
        if most <= place.bytes() {
            return;
        }
        let floor = place.as_block().map_or(SMALLEST_BYTES, |(_, bytes)| 2 * bytes);
        if self.take_block(number, block_for(most), floor) || must.max(wish) <= place.bytes() {
            return;
        }
        // Looks hard for a block of another lane if these bytes need one now, less for a mere wish.
        let looks = if must > place.bytes() { RECLAIM_LOOKS } else { RECLAIM_LOOKS / 16 };
        for _ in 0..looks.min(self.blocks.lent()) {
            let Some(other) = self.blocks.candidate() else { return };
            if other == number || !self.take_back(other) {
                self.blocks.pass_over();
                continue;
            }
            self.blocks.remove();
            if self.take_block(number, block_for(must), floor) {
                return;
            }
        }
    }

    /// Moves an empty lane to a block of this size, or of the next smaller size that is free and
    /// not below `floor`.
    fn take_block(&mut self, number: u32, most_bytes: u32, floor: u32) -> bool {
        let (id, out) = (self.out(number), &mut self.lanes[number as usize].out);
        let found = self.blocks.arena.take_down_to(most_bytes.max(floor), floor);
        let Some((offset, bytes)) = found else { return false };
        match out.place().as_block() {
            Some((offset, bytes)) => self.blocks.arena.give(offset, bytes),
            None => self.blocks.add(number),
        }
        out.move_to(&*self.map, id, LanePlace::block(offset, bytes));
        self.count_used();
        true
    }

    /// Takes the block of a lane back if everything in it was read. A side that spoils its own
    /// position keeps its block; the next use of the lane finds that out.
    fn take_back(&mut self, number: u32) -> bool {
        let (id, out) = (self.out(number), &mut self.lanes[number as usize].out);
        let is_empty = out.refresh(&*self.map, id).is_ok() && out.is_empty();
        if let (true, Some((offset, bytes))) = (is_empty, out.place().as_block()) {
            self.blocks.arena.give(offset, bytes);
            out.move_to(&*self.map, id, LanePlace::INLINE);
            out.set_wish(0);
            self.count_used();
        }
        is_empty
    }

    /// Tells the other side that this side closes the link.
    pub fn close(&self) {
        if self.map.is_here() {
            self.map.header().side(self.side).closed.store(1, Ordering::Release);
        }
    }

    /// At a peer: a number whose lane has room for an open with a label of this many bytes.
    pub fn number_for_open(&mut self, bytes: usize) -> Result<OpenNumber, Corrupt> {
        for _ in 0..OPEN_TRIES.min(self.free.len()) {
            let Some(number) = self.free.pop_front() else { break };
            if self.room_for(number, bytes)? == Some(bytes) {
                return Ok(OpenNumber::Free(number));
            }
            self.free.push_back(number);
        }
        let fresh = self.lanes.len() as u32;
        if self.lanes(fresh).is_some() {
            return Ok(OpenNumber::Free(fresh));
        }
        Ok(if self.free.is_empty() { OpenNumber::None } else { OpenNumber::NoRoom })
    }

    /// Releases the number of a channel that has no entry any more.
    pub fn leave(&mut self, number: u32) {
        let lanes = &mut self.lanes[number as usize];
        (lanes.entry, lanes.is_held) = (NONE, false);
        self.entries -= 1;
        if self.side == LinkSide::Peer {
            self.free.push_back(number);
        }
    }

    /// Updates the account's count of bytes in blocks that lanes have.
    fn count_used(&mut self) {
        add(&self.home.account().arena_used, self.blocks.growth());
    }
}

impl Drop for LinkEnd {
    fn drop(&mut self) {
        if !self.map.is_here() {
            return;
        }
        let account = self.home.account();
        add(&account.arena_bytes, u64::from(self.blocks.arena.bytes()).wrapping_neg());
        add(&account.arena_used, self.blocks.used().wrapping_neg());
    }
}

// An open and the frame that ends a channel fit into the ring that each lane always has.
const _: () = assert!(super::record::LABEL_BYTES + 12 <= INLINE_BYTES);
