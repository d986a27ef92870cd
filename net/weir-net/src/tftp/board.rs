//! What a daemon shows of its transfers: those that run, the last that ended, and sums of all.

use super::flow::TransferCounts;
use super::waits::Waits;
use crate::report::{ReportedService, ServiceReport};
use crate::stalls::WaitedSide;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Transfers that have ended and are still shown.
const MOST_ENDED: usize = 32;

/// Whether a transfer continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TransferState {
    /// It continues.
    Running,
    /// The whole file has arrived.
    Completed,
    /// It was refused, or did not come to its end.
    Failed,
}

/// How a transfer stands, or how it ended.
#[derive(Clone, Debug, Serialize)]
pub struct TransferReport {
    /// Whether it continues.
    pub state: TransferState,
    /// The local process that asked for it, by its own account; `None` where a client did.
    pub pid: Option<u32>,
    /// The other side.
    pub peer: SocketAddr,
    /// The name of the file in the request; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Whether the file comes here.
    pub receives: bool,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// The length of the file, where that is known.
    pub size_bytes: Option<u64>,
    /// Bytes of a block.
    pub block_bytes: u16,
    /// Blocks of a window.
    pub window: u16,
    /// The side that has its turn, while it continues.
    pub waits_for: Option<WaitedSide>,
    /// What was counted.
    #[serde(flatten)]
    pub counts: TransferCounts,
    /// Which side was waited for.
    #[serde(flatten)]
    pub waits: Waits,
}

impl TransferReport {
    /// A transfer that was refused with these words.
    pub(super) fn refused(peer: SocketAddr, name: String, receives: bool, why: String) -> Self {
        TransferReport {
            state: TransferState::Failed,
            pid: None,
            peer,
            name,
            receives,
            failure: Some(why),
            size_bytes: None,
            block_bytes: super::DEFAULT_BLOCK_BYTES,
            window: 1,
            waits_for: None,
            counts: TransferCounts::default(),
            waits: Waits::default(),
        }
    }
}

/// Sums over all transfers that have ended.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    ended: u64,
    failed: u64,
    counts: TransferCounts,
    waits: Waits,
}

impl Totals {
    fn add(&mut self, report: &TransferReport) {
        self.ended += 1;
        self.failed += u64::from(report.state == TransferState::Failed);
        self.counts.add(&report.counts);
        self.waits.add(&report.waits);
    }
}

#[derive(Debug, Default)]
struct Rows {
    next: u64,
    running: BTreeMap<u64, TransferReport>,
    ended: VecDeque<TransferReport>,
    totals: Totals,
}

/// The transfers of a daemon. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct TransferBoard(Arc<Mutex<Rows>>);

impl TransferBoard {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number for a transfer that begins.
    pub(super) fn number(&self) -> u64 {
        let mut rows = self.rows();
        rows.next += 1;
        rows.next
    }

    /// Shows how a transfer stands.
    pub(super) fn show(&self, number: u64, report: TransferReport) {
        self.rows().running.insert(number, report);
    }

    /// Shows how a transfer ended.
    pub(super) fn end(&self, number: u64, report: TransferReport) {
        let mut rows = self.rows();
        rows.running.remove(&number);
        rows.totals.add(&report);
        rows.ended.truncate(MOST_ENDED - 1);
        rows.ended.push_front(report);
    }

    /// Counts a request that was refused. It is not shown: anybody can send such requests, and they
    /// would push out the transfers.
    pub(super) fn refuse(&self, report: &TransferReport) {
        self.rows().totals.add(report);
    }

    /// Forgets a transfer that gave way to another one.
    pub(super) fn forget(&self, number: u64) {
        self.rows().running.remove(&number);
    }

    /// Returns the transfers that run, the oldest first, and those that have ended, the last first.
    pub fn transfers(&self) -> Vec<TransferReport> {
        let rows = self.rows();
        rows.running.values().chain(&rows.ended).cloned().collect()
    }

    /// Returns the sums, for the switch.
    pub fn sums(&self) -> ServiceReport {
        let rows = self.rows();
        let (running, Totals { ended, failed, counts, waits }) =
            (rows.running.len() as u64, &rows.totals);
        let figures = [
            ended + running,
            running,
            *failed,
            counts.bytes,
            counts.blocks,
            counts.blocks_again,
            counts.gaps,
            counts.timeouts,
            waits.ours_ns(),
            waits.network_ns,
            waits.other_ns,
            waits.stalls.this_side_stalls,
            waits.stalls.network_stalls,
            waits.stalls.other_side_stalls,
        ];
        ServiceReport::new(ReportedService::Tftp, &figures)
    }
}
