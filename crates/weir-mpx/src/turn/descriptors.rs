//! What a turn of a channel does with the descriptors that are joined to it: what its input has is
//! sent, and data that comes is written to its output.

use super::{ChannelTurn, CorruptLink, FrameStep};
use crate::channels::{ChannelEntry, ChannelState};
use crate::descriptor::{ChannelDescriptor, Direction};
use crate::record::{LABEL_BYTES, RecordKind};
use crate::table::ChannelTable;
use rustix::io::Errno;
use weir_ring::lane::{FrameKind, LaneFrame};

/// Bytes that a channel reads from its input in one turn.
const INPUT_BYTES: usize = 16 << 10;

/// Bytes that are read if there is no room for more.
const FEW_BYTES: usize = 64;

/// Whether the descriptors of a channel may have something to do, whatever comes on the channel.
pub fn has_work(table: &mut ChannelTable, index: u32) -> bool {
    let ChannelEntry { has_input, has_output, blocked, .. } = table.channels[index];
    let Some(all) = table.descriptors.as_mut().filter(|_| has_input || has_output) else {
        return false;
    };
    let is_over = all.of(index, Direction::Output).is_some_and(|output| output.at_end);
    let may_read = all.of(index, Direction::Input).is_some_and(|input| input.may || input.at_end);
    is_over || may_read && !blocked
}

impl ChannelTurn<'_, '_> {
    /// Sends what the input has, and drops an output that nobody reads. Returns whether the input
    /// may have more.
    pub(super) fn descriptors(&mut self) -> Result<bool, CorruptLink> {
        let ChannelEntry { state, has_input, has_output, .. } = *self.channel();
        let is_alive = self.table.link(self.at).is_some_and(|link| link.ending.is_none());
        let is_open = matches!(state, ChannelState::Open | ChannelState::Opening);
        if has_output && self.joined(Direction::Output).is_some_and(|output| output.at_end) {
            self.release(Direction::Output, None);
        }
        if !has_input || !is_alive || !is_open {
            return Ok(false);
        }
        let mut left = INPUT_BYTES;
        while left > 0 {
            let Some(moved) = self.read_in(left)? else { return Ok(false) };
            left -= moved.min(left);
        }
        Ok(true)
    }

    fn joined(&mut self, direction: Direction) -> Option<&mut ChannelDescriptor> {
        self.table.descriptors.as_mut()?.of(self.index, direction)
    }

    /// Sends what one read of the input gives: how many bytes, or `None` if nothing more can be
    /// done now.
    fn read_in(&mut self, most: usize) -> Result<Option<usize>, CorruptLink> {
        let index = self.index;
        let Some(input) = self.joined(Direction::Input) else { return Ok(None) };
        if input.at_end {
            if self.room_on(index, 0, false)?.is_some() {
                self.put(FrameKind::End, 0);
                self.release(Direction::Input, None);
            }
            return Ok(None);
        }
        if !input.may {
            return Ok(None);
        }
        let wanted = most.min(self.delivery.buffer.len());
        let Some(room) = self.room_for_input(wanted)? else { return Ok(None) };
        self.delivery.work.does(1);
        let ChannelTurn { table, delivery, .. } = self;
        let all = table.descriptors.as_mut();
        let Some(input) = all.and_then(|all| all.of(index, Direction::Input)) else {
            return Ok(None);
        };
        match input.read(&mut delivery.buffer[..room]) {
            Ok(0) => {
                input.at_end = true;
                self.read_in(most)
            }
            Ok(count) => {
                self.put(FrameKind::Data, count);
                self.delivery.bytes += count;
                Ok(Some(count))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(why) => {
                self.release(Direction::Input, Some(why));
                Ok(None)
            }
        }
    }

    /// Room for what the input may give. The ring that a lane always has takes a few bytes at once,
    /// though a longer frame must wait until it is empty.
    fn room_for_input(&mut self, wanted: usize) -> Result<Option<usize>, CorruptLink> {
        let (at, number) = (self.at, self.number);
        let few = wanted.min(FEW_BYTES);
        if let Some(link) = self.table.link(at)
            && link.is_small(number)
            && link.room_for(number, wanted).map_err(|_| at)?.is_none()
            && link.room_for(number, few).map_err(|_| at)? == Some(few)
        {
            return Ok(Some(few));
        }
        self.room_on(self.index, wanted, true)
    }

    /// Sends a frame with bytes of the buffer, for which there is room.
    fn put(&mut self, kind: FrameKind, count: usize) {
        let number = self.number;
        let ChannelTurn { table, delivery, at, .. } = self;
        if let Some(link) = table.link(*at) {
            link.put(number, kind, false, &delivery.buffer[..count]);
        }
    }

    /// Writes data to the output, as much as it takes. A mark is the end of the output.
    pub(super) fn write_out(&mut self, frame: LaneFrame) -> Result<FrameStep, CorruptLink> {
        if frame.kind == FrameKind::End {
            if frame.left > 0 {
                return Err(self.at);
            }
            self.skip();
            self.came(1, 0);
            self.release(Direction::Output, None);
            return Ok(FrameStep::Done(0));
        }
        if !self.joined(Direction::Output).is_some_and(|output| output.may) {
            return Ok(FrameStep::Held);
        }
        let buffer = std::mem::take(&mut self.delivery.buffer);
        let count = self.peek(buffer);
        let output = self.joined(Direction::Output);
        let written = match output {
            // A frame without bytes has nothing to write, and a write of nothing says nothing.
            Some(output) if count > 0 => output.write(&buffer[..count]),
            _ => Ok(0),
        };
        self.delivery.buffer = buffer;
        match written {
            Ok(written) => {
                self.pass(written);
                self.delivery.bytes += written;
                self.came((written == frame.left && !self.is_cut()).into(), written);
                Ok(FrameStep::Done(written))
            }
            Err(Errno::AGAIN) => Ok(FrameStep::Held),
            Err(why) => {
                self.release(Direction::Output, (why != Errno::PIPE).then_some(why));
                Ok(FrameStep::Done(0))
            }
        }
    }

    /// Drops a descriptor that has ended, or all of the channel after an error. After the last one the
    /// channel is the user's again, which a record says.
    fn release(&mut self, direction: Direction, why: Option<Errno>) {
        let mut is_last = self.table.drop_descriptor(self.index, direction);
        if why.is_some() {
            self.table.drop_descriptors(self.index);
            is_last = true;
        }
        let text = why.map_or(String::new(), |why| std::io::Error::from(why).to_string());
        // Cut at the end of a character.
        let fits = |end: &usize| text.is_char_boundary(*end);
        let count = (0..=LABEL_BYTES.min(text.len())).rev().find(fits).unwrap_or(0);
        self.delivery.buffer[..count].copy_from_slice(&text.as_bytes()[..count]);
        if is_last {
            self.shown(RecordKind::Released, count);
        }
    }
}
