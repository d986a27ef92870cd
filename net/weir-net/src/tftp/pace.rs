//! How fast a window leaves: in bursts, with pauses between them.
//!
//! A burst begins with 8 blocks, and doubles with each window of which nothing is lost, up to a whole
//! window. A loss halves it, unless four bursts and more have arrived since the last one: then it was
//! not for its length that something was lost. From then on it grows by an eighth, and only after
//! eight clean windows, since the loss has shown how much the receiver takes. The pauses of a window
//! add up to a round trip; where single blocks are lost too, they double.

const FIRST_BURST: u64 = 8;
/// Bursts between two losses from which on the losses are not for the length of a burst.
const BURSTS_BETWEEN: u64 = 4;
/// Clean windows after a loss before the next burst is longer.
const CLEAN_WINDOWS: u32 = 8;
/// Bounds of a pause.
const PAUSE_NS: (u64, u64) = (50_000, 10_000_000);
/// How often the pauses can double.
const MOST_DOUBLINGS: u32 = 8;

/// The pace of a sender.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    window: u64,
    burst: u64,
    doublings: u32,
    clean: u32,
    has_lost: bool,
}

impl Pace {
    /// The pace at which a transfer with this window begins.
    pub fn new(window: u16) -> Pace {
        let window = u64::from(window.max(1));
        let burst = FIRST_BURST.min(window);
        Pace { window, burst, doublings: 0, clean: 0, has_lost: false }
    }

    /// Returns how many blocks leave without a pause.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Returns how long to pause after a burst.
    pub fn pause_ns(&self, round_trip_ns: u64) -> u64 {
        let share_ns = round_trip_ns.saturating_mul(self.burst) / self.window;
        share_ns.saturating_mul(1 << self.doublings).clamp(PAUSE_NS.0, PAUSE_NS.1)
    }

    /// Notes that a window arrived, each block sent once.
    pub fn clean(&mut self) {
        if !self.has_lost {
            self.burst = (2 * self.burst).min(self.window);
            return;
        }
        self.clean += 1;
        if self.clean >= CLEAN_WINDOWS {
            self.clean = 0;
            match self.doublings {
                0 => self.burst = (self.burst + (self.burst / 8).max(1)).min(self.window),
                _ => self.doublings -= 1,
            }
        }
    }

    /// Notes that something was lost, after this many blocks that arrived since the last loss.
    pub fn lost(&mut self, blocks_between: u64) {
        (self.has_lost, self.clean) = (true, 0);
        if blocks_between >= BURSTS_BETWEEN * self.burst {
            return;
        }
        match self.burst {
            1 => self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS),
            _ => self.burst /= 2,
        }
    }
}
