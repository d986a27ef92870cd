//! Datagrams that leave together.

use crate::sys::segments::MOST_SEGMENTS;

/// Most bytes of a burst: they are one datagram until the kernel cuts it.
const MOST_BURST_BYTES: usize = 65_000;

/// Datagrams of one length, the last of which may be shorter. They are written in place, and the kernel
/// gathers them.
#[derive(Debug, Default)]
pub struct Burst {
    /// Those that wait, and behind them memory for further ones.
    datagrams: Vec<Vec<u8>>,
    count: usize,
    bytes: usize,
}

impl Burst {
    /// Returns memory for the next datagram; it holds what an earlier one has left there.
    pub fn space(&mut self) -> &mut Vec<u8> {
        if self.datagrams.len() <= self.count {
            self.datagrams.push(Vec::new());
        }
        &mut self.datagrams[self.count]
    }

    /// Takes what was written to [`Burst::space`]. Returns `false` where it has no place behind those
    /// that are there, or no other has place beside it.
    pub fn keep(&mut self) -> bool {
        let bytes = self.space().len();
        let (longest, last) = match &self.datagrams[..self.count] {
            [] => (bytes, bytes),
            [first, .., last] => (first.len(), last.len()),
            [only] => (only.len(), only.len()),
        };
        let has_place = 2 * bytes <= MOST_BURST_BYTES
            && last == longest
            && bytes <= longest
            && self.count < MOST_SEGMENTS
            && self.bytes + bytes <= MOST_BURST_BYTES;
        if has_place {
            self.count += 1;
            self.bytes += bytes;
        }
        has_place
    }

    /// Returns those that wait.
    pub fn each(&self) -> impl Iterator<Item = &[u8]> {
        self.datagrams.iter().take(self.count).map(Vec::as_slice)
    }

    /// Returns how many wait.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Forgets those that wait. What was written behind them is next.
    pub fn clear(&mut self) {
        if self.count < self.datagrams.len() {
            self.datagrams.swap(0, self.count);
        }
        (self.count, self.bytes) = (0, 0);
    }
}
