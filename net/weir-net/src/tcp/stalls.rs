//! Which side a connection waits for while it has bytes that do not move.
//!
//! - The other side: there are bytes to send, and its window is full.
//! - The network: something was lost and is sent again, or there are bytes to send, its window has
//!   room, and the congestion window has none.
//! - This side: bytes came that nobody here takes, and our window is full of them.
//!
//! A connection without any of these waits for nobody: it has nothing to do.

use super::flows::FlowState;
use crate::stalls::{StallCounts, StallWatch, WaitedSide};
use serde::Serialize;

/// For how long connections waited, and for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionWaits {
    /// Time that connections waited for this side; those of several connections are added.
    pub this_side_ns: u64,
    /// Time that connections waited for the network.
    pub network_ns: u64,
    /// Time that connections waited for the other side.
    pub other_side_ns: u64,
    /// Times of 0.2 s or more without a byte that moved.
    #[serde(flatten)]
    pub stalls: StallCounts,
}

impl ConnectionWaits {
    fn time_of(&mut self, side: WaitedSide) -> &mut u64 {
        match side {
            WaitedSide::This => &mut self.this_side_ns,
            WaitedSide::Network => &mut self.network_ns,
            WaitedSide::Other => &mut self.other_side_ns,
        }
    }
}

/// How many bytes a connection holds here.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Bytes to send, those included that are not acknowledged.
    pub to_send_bytes: usize,
    /// Bytes that came and were not taken.
    pub unread_bytes: usize,
    /// Bytes of a full segment.
    pub segment_bytes: usize,
}

/// Returns the side that a connection waits for; `None` if it has nothing to do.
pub fn waits_for(state: &FlowState, held: Held) -> Option<WaitedSide> {
    let flight_bytes = state.flight_bytes as usize;
    let unsent_bytes = held.to_send_bytes.saturating_sub(flight_bytes);
    let next_bytes = unsent_bytes.min(held.segment_bytes);
    if state.repairs {
        Some(WaitedSide::Network)
    } else if unsent_bytes > 0 {
        let is_full = (state.other_window_bytes as usize) < flight_bytes + next_bytes;
        Some(if is_full { WaitedSide::Other } else { WaitedSide::Network })
    } else if held.unread_bytes > 0 && (state.own_window_bytes as usize) < held.segment_bytes {
        Some(WaitedSide::This)
    } else {
        None
    }
}

/// Keeps the time that a connection waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct StallClock {
    side: Option<WaitedSide>,
    checked_ns: u64,
    mark: u64,
    watch: StallWatch,
}

impl StallClock {
    /// Returns the side that is waited for.
    pub fn side(&self) -> Option<WaitedSide> {
        self.side
    }

    /// Notes that from now on `side` is waited for. `mark` changes when bytes move. Time since the
    /// last call is added to `waits`; returns the side that a stall is due to when one begins.
    pub fn note_wait(
        &mut self,
        side: Option<WaitedSide>,
        mark: u64,
        now_ns: u64,
        waits: &mut ConnectionWaits,
    ) -> Option<WaitedSide> {
        let waited_ns = now_ns.saturating_sub(self.checked_ns);
        if let Some(side) = self.side {
            *waits.time_of(side) += waited_ns;
        }
        self.checked_ns = now_ns;
        let (Some(now), Some(_), true) = (side, self.side, mark == self.mark) else {
            (self.side, self.mark) = (side, mark);
            self.watch.moved(now_ns);
            return None;
        };
        self.side = side;
        self.watch.note_wait(now, now_ns, &mut waits.stalls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn held(to_send_bytes: usize, unread_bytes: usize) -> Held {
        Held { to_send_bytes, unread_bytes, segment_bytes: 1460 }
    }

    #[test]
    fn the_side_is_the_one_whose_window_is_full() {
        let open = FlowState {
            other_window_bytes: 10_000,
            own_window_bytes: 10_000,
            ..Default::default()
        };
        assert_eq!(waits_for(&open, held(0, 0)), None);
        assert_eq!(waits_for(&open, held(0, 5)), None, "there is room for more");
        assert_eq!(waits_for(&open, held(5, 0)), Some(WaitedSide::Network));
        let flying = FlowState { flight_bytes: 9_000, ..open };
        assert_eq!(waits_for(&flying, held(9_000, 0)), None, "all is on its way");
        assert_eq!(waits_for(&flying, held(10_000, 0)), Some(WaitedSide::Network));
        assert_eq!(waits_for(&flying, held(11_000, 0)), Some(WaitedSide::Other));
        let full = FlowState { own_window_bytes: 100, ..open };
        assert_eq!(waits_for(&full, held(0, 5)), Some(WaitedSide::This));
        let lossy = FlowState { repairs: true, ..flying };
        assert_eq!(waits_for(&lossy, held(9_000, 0)), Some(WaitedSide::Network));
    }

    #[test]
    fn a_stall_is_counted_once_and_again_only_after_bytes_moved() {
        let (mut clock, mut counts) = (StallClock::default(), ConnectionWaits::default());
        let mut look =
            |mark, ms: u64| clock.note_wait(Some(WaitedSide::Other), mark, ms * MS, &mut counts);
        assert_eq!(look(1, 1_000), None);
        assert_eq!(look(1, 1_100), None);
        assert_eq!(look(1, 1_250), Some(WaitedSide::Other));
        assert_eq!(look(1, 9_000), None, "the same stall");
        assert_eq!(look(2, 9_001), None, "a byte moved");
        assert_eq!(look(2, 9_300), Some(WaitedSide::Other));
        let stalls = StallCounts { other_side_stalls: 2, ..Default::default() };
        let expected = ConnectionWaits { stalls, other_side_ns: 8_300 * MS, ..Default::default() };
        assert_eq!(counts, expected, "time before the wait began is not waited");
    }
}
