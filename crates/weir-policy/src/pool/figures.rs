//! What a pool tells about itself.

use super::{BlockCounts, PoolPolicy, PoolSettings};

impl PoolPolicy {
    /// Returns the counts of all streams together.
    pub fn counts(&self) -> BlockCounts {
        self.streams.counts
    }

    /// Returns the counts of one stream.
    pub fn stream_counts(&self, stream: u32) -> BlockCounts {
        self.streams[stream].counts
    }

    /// Returns the number of a stream's blocks that are not consumed.
    pub fn backlog(&self, stream: u32) -> u32 {
        self.streams[stream].count
    }

    /// Returns the frames in use now, and at most.
    pub fn frames_used(&self) -> (u32, u32) {
        (self.frames.used(), self.frames.most_used())
    }

    /// Returns the places of the file in use now, and at most.
    pub fn slots_used(&self) -> (u32, u32) {
        (self.slots.used(), self.slots.most_used())
    }

    /// Returns the number of transfers under way.
    pub fn transfers_under_way(&self) -> u32 {
        self.transfers.under_way()
    }

    /// Returns the settings, within their bounds.
    pub fn settings(&self) -> PoolSettings {
        self.settings
    }
}
