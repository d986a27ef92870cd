//! Frames that are lent to others, who keep what they like in them: the regions of a pool.

use super::PoolPolicy;

impl PoolPolicy {
    /// Lends up to `most` frames, by calling `each` with each. If there are fewer, blocks are written
    /// earlier from now on, as for a writer that waits.
    pub fn lend(&mut self, now_ns: u64, most: u32, mut each: impl FnMut(u32)) {
        for _ in 0..most {
            // Writers that wait come first.
            let spare = self.appending.is_empty()
                && self.frames.available() > self.settings.reserve().max(1);
            let frame = if spare { self.frames.take(&mut self.streams) } else { None };
            let Some(frame) = frame else {
                self.laundry.press();
                break;
            };
            self.lent += 1;
            each(frame);
        }
        self.balance(now_ns);
    }

    /// Takes a frame back that was lent.
    pub fn take_back(&mut self, now_ns: u64, frame: u32) {
        self.lent -= 1;
        self.frames.give_back(frame);
        self.grant(now_ns);
        self.balance(now_ns);
        self.serve_readers(now_ns);
    }

    /// Returns how many frames are lent.
    pub fn lent(&self) -> u32 {
        self.lent
    }

    /// Whether writers wait for frames while others have some that are lent.
    pub fn wants_back(&self) -> bool {
        self.lent > 0 && !self.appending.is_empty()
    }
}
