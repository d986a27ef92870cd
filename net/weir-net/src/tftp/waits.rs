//! Which side a transfer waits for: ours, the network, or the other.
//!
//! Between the end of our sending and the next packet of the other side, the shortest such time so
//! far counts as the network's, and what is beyond it as the other side's. Between two blocks of a
//! window the other side has its turn. Time that ends with a packet sent again counts as the
//! network's, since a packet was lost, and so do a sender's pauses. Where the other side then answers
//! each copy, none was lost: that time counts as the other side's. All other time is ours.
//!
//! A transfer that does not move is stalled ([`mod@crate::stalls`]), by the side that it waits for
//! then.

use crate::stalls::{StallCounts, StallWatch, WaitedSide, is_stall};

/// How long each side was waited for, and the whole time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Waits {
    /// From the first packet on.
    pub total_ns: u64,
    /// Beyond the shortest round trip.
    pub other_ns: u64,
    /// Round trips as short as the shortest, and times that ended with a packet sent again.
    pub network_ns: u64,
    /// Times without progress.
    #[serde(flatten)]
    pub stalls: StallCounts,
}

impl Waits {
    /// Adds those of another transfer.
    pub fn add(&mut self, other: &Waits) {
        self.total_ns += other.total_ns;
        self.other_ns += other.other_ns;
        self.network_ns += other.network_ns;
        self.stalls.add(&other.stalls);
    }

    /// Returns the time that this side took: files, and waiting for a CPU.
    pub fn ours_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.other_ns).saturating_sub(self.network_ns)
    }

    /// Returns the side that was waited for longest.
    pub fn longest(&self) -> WaitedSide {
        let most = self.ours_ns().max(self.other_ns).max(self.network_ns);
        match most {
            most if most == self.other_ns => WaitedSide::Other,
            most if most == self.network_ns => WaitedSide::Network,
            _ => WaitedSide::This,
        }
    }
}

/// Keeps [`Waits`] while a transfer runs.
#[derive(Clone, Copy, Debug)]
pub struct WaitClock {
    begun_ns: u64,
    /// Since when the other side has something to answer.
    since_ns: Option<u64>,
    /// Whether it is in the middle of its window.
    is_in_window: bool,
    /// Since when we pause between two bursts.
    paused_ns: Option<u64>,
    shortest_ns: u64,
    watch: StallWatch,
    /// Time in which packets were sent again since something moved, and before that: the other side
    /// may answer each copy of them yet.
    lost_ns: u64,
    doubtful_ns: u64,
    waits: Waits,
}

impl WaitClock {
    /// Starts it.
    pub fn new(now_ns: u64) -> WaitClock {
        let waits = Waits::default();
        WaitClock {
            begun_ns: now_ns,
            since_ns: None,
            is_in_window: false,
            paused_ns: None,
            shortest_ns: u64::MAX,
            watch: StallWatch::new(now_ns),
            lost_ns: 0,
            doubtful_ns: 0,
            waits,
        }
    }

    /// Notes that everything is sent, and the other side has its turn.
    pub fn wait(&mut self, now_ns: u64) {
        self.since_ns.get_or_insert(now_ns);
    }

    /// Notes that what was to be sent at `due_ns` is sent now: the time between is ours.
    pub fn sent(&mut self, due_ns: u64, now_ns: u64) {
        if self.since_ns == Some(due_ns) {
            self.since_ns = Some(now_ns);
        }
    }

    /// Notes the time. Returns whom it waits for where a stall begins.
    pub fn note_wait(&mut self, now_ns: u64) -> Option<WaitedSide> {
        self.watch.note_wait(self.waits_for(), now_ns, &mut self.waits.stalls)
    }

    /// Returns the side that has its turn.
    pub fn waits_for(&self) -> WaitedSide {
        match (self.lost_ns > 0 || self.paused_ns.is_some(), self.since_ns) {
            (true, _) => WaitedSide::Network,
            (false, Some(_)) => WaitedSide::Other,
            (false, None) => WaitedSide::This,
        }
    }

    /// Notes that the other side has answered a copy of what it had answered: nothing was lost.
    pub fn answered_again(&mut self) {
        let slept_ns = std::mem::take(&mut self.doubtful_ns).min(self.waits.network_ns);
        self.waits.network_ns -= slept_ns;
        self.waits.other_ns += slept_ns;
        let stalls = &mut self.waits.stalls;
        if is_stall(slept_ns) && stalls.network_stalls > 0 {
            stalls.network_stalls -= 1;
            stalls.other_side_stalls += 1;
        }
    }

    /// Notes that the other side is in the middle of its window.
    pub fn wait_for_more(&mut self, now_ns: u64) {
        self.wait(now_ns);
        self.is_in_window = true;
    }

    /// Notes that we pause until [`WaitClock::resume`].
    pub fn pause(&mut self, now_ns: u64) {
        self.paused_ns.get_or_insert(now_ns);
    }

    /// Notes that we send again after a pause, if there was one.
    pub fn resume(&mut self, now_ns: u64) {
        if let Some(since_ns) = self.paused_ns.take() {
            self.waits.network_ns += now_ns.saturating_sub(since_ns);
        }
    }

    /// Notes that it has answered; `clean` if the answer is to a packet that was sent once.
    pub fn answered(&mut self, now_ns: u64, clean: bool) {
        self.watch.moved(now_ns);
        self.doubtful_ns = std::mem::take(&mut self.lost_ns);
        let Some(since_ns) = self.since_ns.take() else { return };
        let waited_ns = now_ns.saturating_sub(since_ns);
        if std::mem::take(&mut self.is_in_window) {
            self.waits.other_ns += waited_ns;
            return;
        }
        if clean {
            self.shortest_ns = self.shortest_ns.min(waited_ns);
        }
        let network_ns = waited_ns.min(self.shortest_ns);
        self.waits.network_ns += network_ns;
        self.waits.other_ns += waited_ns - network_ns;
    }

    /// Notes that the wait was in vain: a packet was lost.
    pub fn lost(&mut self, now_ns: u64) {
        self.is_in_window = false;
        if let Some(since_ns) = self.since_ns.take() {
            let lost_ns = now_ns.saturating_sub(since_ns);
            self.waits.network_ns += lost_ns;
            self.lost_ns += lost_ns.max(1);
        }
    }

    /// Returns the times so far. What is waited for now counts as if it ended now.
    pub fn waits(&self, now_ns: u64) -> Waits {
        let mut ended = *self;
        ended.resume(now_ns);
        ended.answered(now_ns, false);
        Waits { total_ns: now_ns.saturating_sub(self.begun_ns), ..ended.waits }
    }
}
