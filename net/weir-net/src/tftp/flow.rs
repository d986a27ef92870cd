//! What both sides of a transfer keep: when to send again, whose turn it is, what was counted, and what
//! changed.

use super::Patience;
use super::waits::{WaitClock, Waits};
use crate::log::FlowChange;
use crate::stalls::WaitedSide;

/// The shortest time until packets are sent again.
const LEAST_RESEND_NS: u64 = 50_000_000;

/// When packets are sent again, and when the transfer is given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResendTimer {
    patience: Patience,
    wait_ns: u64,
    deadline_ns: u64,
    progress_ns: u64,
    /// Smoothed round trip and its variation (RFC 6298).
    round_trip: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Again,
    GiveUp,
}

impl ResendTimer {
    pub fn new(patience: Patience, now_ns: u64) -> ResendTimer {
        let wait_ns = patience.resend_ns;
        let deadline_ns = now_ns + wait_ns;
        ResendTimer { patience, wait_ns, deadline_ns, progress_ns: now_ns, round_trip: None }
    }

    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    pub fn sent(&mut self, now_ns: u64) {
        self.deadline_ns = now_ns + self.wait_ns;
    }

    /// Notes progress, and a round trip where it was measured.
    pub fn progressed(&mut self, now_ns: u64, round_trip_ns: Option<u64>) {
        self.progress_ns = now_ns;
        if let Some(sample) = round_trip_ns {
            let (mean, variation) = match self.round_trip {
                None => (sample, sample / 2),
                Some((mean, variation)) => {
                    ((7 * mean + sample) / 8, (3 * variation + mean.abs_diff(sample)) / 4)
                }
            };
            self.round_trip = Some((mean, variation));
        }
        let least = LEAST_RESEND_NS.min(self.patience.resend_ns);
        let adapted = self.round_trip.map(|(mean, variation)| mean + 4 * variation);
        self.wait_ns =
            adapted.map_or(self.patience.resend_ns, |ns| ns.clamp(least, self.patience.resend_ns));
        self.deadline_ns = now_ns + self.wait_ns;
    }

    /// Notes that nothing was sent for so long because this side held back.
    pub fn held(&mut self, held_ns: u64) {
        self.deadline_ns = self.deadline_ns.saturating_add(held_ns);
        self.progress_ns = self.progress_ns.saturating_add(held_ns);
    }

    pub fn round_trip_ns(&self) -> u64 {
        self.round_trip.map_or(1_000_000, |(mean, _)| mean)
    }

    /// Says what is due. After `Again`, the next wait is twice as long.
    pub fn due(&mut self, now_ns: u64) -> Due {
        if now_ns.saturating_sub(self.progress_ns) >= self.patience.give_up_ns {
            return Due::GiveUp;
        }
        if now_ns < self.deadline_ns {
            return Due::Nothing;
        }
        self.wait_ns = (2 * self.wait_ns).min(self.patience.resend_ns);
        self.deadline_ns = now_ns + self.wait_ns;
        Due::Again
    }
}

/// Counts of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TransferCounts {
    /// Bytes of the file that are acknowledged, or were received in order.
    pub bytes: u64,
    /// Blocks sent or received, every copy counted.
    pub blocks: u64,
    /// Blocks sent again, or received again.
    pub blocks_again: u64,
    /// Times at which nothing came until packets were sent again.
    pub timeouts: u64,
    /// Losses that the other side reported by acknowledging less than was sent, or that the receiver
    /// saw as a gap.
    pub gaps: u64,
}

impl TransferCounts {
    /// Adds those of another transfer.
    pub fn add(&mut self, other: &TransferCounts) {
        self.bytes += other.bytes;
        self.blocks += other.blocks;
        self.blocks_again += other.blocks_again;
        self.timeouts += other.timeouts;
        self.gaps += other.gaps;
    }
}

/// What happened within a transfer since that was asked for, for a log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransferChanges {
    pub again: Option<u64>,
    pub stalled: Option<WaitedSide>,
}

impl TransferChanges {
    /// Returns the next change.
    pub fn take(&mut self) -> Option<FlowChange> {
        let again = self.again.take().map(|from| FlowChange::Again { from });
        let stalled = || self.stalled.take().map(|waits_for| FlowChange::Stalled { waits_for });
        again.or_else(stalled)
    }
}

/// How a transfer continues, whichever way the file travels.
#[derive(Debug)]
pub struct TransferFlow {
    pub(super) timer: ResendTimer,
    pub(super) clock: WaitClock,
    pub(super) changes: TransferChanges,
    pub(super) counts: TransferCounts,
}

impl TransferFlow {
    pub(super) fn new(patience: Patience, now_ns: u64) -> TransferFlow {
        TransferFlow {
            timer: ResendTimer::new(patience, now_ns),
            clock: WaitClock::new(now_ns),
            changes: TransferChanges::default(),
            counts: TransferCounts::default(),
        }
    }

    /// Returns what was counted.
    pub fn counts(&self) -> TransferCounts {
        self.counts
    }

    /// Returns how long each side was waited for.
    pub fn waits(&self, now_ns: u64) -> Waits {
        self.clock.waits(now_ns)
    }

    /// Returns the side that has its turn.
    pub fn waits_for(&self) -> WaitedSide {
        self.clock.waits_for()
    }

    /// Returns what has happened since the last call, one change a call.
    pub fn change(&mut self) -> Option<FlowChange> {
        self.changes.take()
    }

    /// Notes that what was written at `due_ns` was sent.
    pub fn sent(&mut self, due_ns: u64, now_ns: u64) {
        self.clock.sent(due_ns, now_ns);
    }

    /// Notes that nothing was sent for so long although something was due: this side held back.
    pub fn held(&mut self, held_ns: u64) {
        self.timer.held(held_ns);
    }

    /// Notes the time, and says what is due.
    pub(super) fn expire(&mut self, now_ns: u64) -> Due {
        self.changes.stalled = self.clock.note_wait(now_ns).or(self.changes.stalled);
        let due = self.timer.due(now_ns);
        self.counts.timeouts += u64::from(due == Due::Again);
        due
    }
}
