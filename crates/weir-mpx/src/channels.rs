//! The names of channels: one entry for each, in one table for all links. Entries are used again, with
//! another generation.

use super::link_end::NONE;
use super::record::{ChannelId, DEFAULT_PRIORITY, invalid};
use std::ops::{Index, IndexMut};
use weir::Result;
use weir_policy::ready::Turn;

/// The state of a channel, as this side knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelState {
    Free,
    /// At the owner: something has come on a number without a channel, an open or something invalid.
    Fresh,
    /// At the owner: the open was received but not yet answered. What follows it is not looked at.
    Asked,
    /// At the peer: not yet answered.
    Opening,
    /// Both sides send and receive.
    Open,
    /// This side has sent its last frame. It skips what comes, up to the other side's last frame.
    Closing,
    /// Another mpx.
    Joined,
}

/// The table's entry of one channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelEntry {
    pub generation: u32,
    pub link: u32,
    pub number: u32,
    pub state: ChannelState,
    pub priority: u8,
    /// A send was not taken whole, and there has not been room since.
    pub blocked: bool,
    /// The user does not yet know that it is blocked.
    pub report_blocked: bool,
    /// The user knows that it was blocked, and not yet that there is room again.
    pub knows_blocked: bool,
    /// What comes on it goes to its partner.
    pub forwards: bool,
    /// A descriptor is joined as its input: what is read there is sent on it.
    pub has_input: bool,
    /// A descriptor is joined as its output: data that comes on it is written there.
    pub has_output: bool,
    /// What comes on it while its lane is full goes to a backlog.
    pub accumulates: bool,
    pub turn: Turn,
    /// The channel that it is connected to, or [`NONE`].
    pub partner: u32,
}

impl ChannelEntry {
    /// Whether a [`ChannelId`] can name it.
    fn is_visible(&self) -> bool {
        !matches!(self.state, ChannelState::Free | ChannelState::Fresh | ChannelState::Closing)
    }
}

/// The entry, its place in the queue (12 bytes) and the link's knowledge of its lanes: the private
/// memory of an idle channel at one side.
const _: () = assert!(size_of::<ChannelEntry>() + size_of::<super::link_end::Lanes>() + 12 <= 256);

/// The entries of all channels.
#[derive(Debug, Default)]
pub struct Channels {
    entries: Vec<ChannelEntry>,
    /// Entries that can be used again.
    free: Vec<u32>,
}

impl Channels {
    #[inline]
    pub fn get(&self, index: u32) -> Option<&ChannelEntry> {
        self.entries.get(index as usize)
    }

    /// The number of channels that a [`ChannelId`] can name.
    pub fn visible(&self) -> usize {
        self.entries.iter().filter(|channel| channel.is_visible()).count()
    }

    #[inline]
    pub fn find(&self, operation: &'static str, id: ChannelId) -> Result<u32> {
        let there = self
            .get(id.index)
            .is_some_and(|channel| channel.generation == id.generation && channel.is_visible());
        if there { Ok(id.index) } else { Err(invalid(operation, id)) }
    }

    pub fn id(&self, index: u32) -> ChannelId {
        ChannelId { index, generation: self[index].generation }
    }

    /// Makes an entry for a channel with this number on a link.
    pub fn enter(&mut self, link: u32, number: u32, state: ChannelState) -> u32 {
        let fresh = ChannelEntry {
            generation: 1,
            link,
            number,
            state,
            priority: DEFAULT_PRIORITY,
            blocked: false,
            report_blocked: false,
            knows_blocked: false,
            forwards: false,
            has_input: false,
            has_output: false,
            accumulates: false,
            turn: Turn::default(),
            partner: NONE,
        };
        let Some(index) = self.free.pop() else {
            self.entries.push(fresh);
            return self.entries.len() as u32 - 1;
        };
        self[index] = ChannelEntry { generation: self[index].generation + 1, ..fresh };
        index
    }

    /// Frees an entry.
    pub fn leave(&mut self, index: u32) {
        self[index].state = ChannelState::Free;
        // An entry whose generations are used up is never used again.
        if self[index].generation != u32::MAX {
            self.free.push(index);
        }
    }
}

impl Index<u32> for Channels {
    type Output = ChannelEntry;

    #[inline]
    fn index(&self, index: u32) -> &ChannelEntry {
        &self.entries[index as usize]
    }
}

impl IndexMut<u32> for Channels {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut ChannelEntry {
        &mut self.entries[index as usize]
    }
}
