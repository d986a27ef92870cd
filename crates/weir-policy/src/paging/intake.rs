//! How many pages come in at a fault: what was advised, or else what was learnt; and what a
//! sequential reader has left behind.

use super::cluster::ClusterSize;
use super::table::{PageTable, UNASKED};
use super::{Advice, PagingSettings, Run};
use alloc::collections::TryReserveError;

/// Clusters that are not left behind yet: of a page and the one before it. An instruction may need
/// both, and would fault without end if one of them went for the other.
const LAST: usize = 2;

/// The advice, and the clusters that came in.
#[derive(Debug)]
pub struct Intake {
    settings: PagingSettings,
    advice: Advice,
    cluster: ClusterSize,
    /// The last clusters of a sequential reader or of a sweep.
    last: [Run; LAST],
}

impl Intake {
    pub fn new(settings: PagingSettings) -> Result<Intake, TryReserveError> {
        let cluster = ClusterSize::new(settings.most_cluster)?;
        Ok(Intake { settings, advice: Advice::Normal, cluster, last: [Run::NONE; LAST] })
    }

    pub fn advise(&mut self, advice: Advice) {
        self.advice = advice;
        self.last = [Run::NONE; LAST];
    }

    /// Pages that a fault brings in at present, while this many frames may be used.
    pub fn cluster(&self, limit: u32) -> u32 {
        match self.advice {
            Advice::Normal => self.cluster.pages().min(self.most_cluster(limit)),
            Advice::Random => 1,
            Advice::Sequential => self.most_cluster(limit),
        }
    }

    /// The largest cluster: at most a quarter of the frames that may be used.
    pub fn most_cluster(&self, limit: u32) -> u32 {
        self.settings.most_cluster.min(1 << (limit / 4).max(1).ilog2())
    }

    /// The pages in a row that may come in for a page: all in the file, or all empty.
    pub fn run(&self, pages: &PageTable, page: u32, cluster: u32) -> Run {
        let place = pages[page].place;
        let upwards = self.advice == Advice::Sequential;
        let low = if upwards { page } else { page - page % cluster };
        let is_alike = |other: &u32| pages[*other].place == place;
        let first = (low..page).rev().take_while(is_alike).last().unwrap_or(page);
        let count = pages.row(first..low.saturating_add(cluster), |entry| entry.place == place);
        Run { first, count }
    }

    /// Learns from the fault with this number, and from clusters that came some time ago.
    pub fn fault(&mut self, pages: &PageTable, page: u32, number: u64, is_missed: bool) {
        if self.advice != Advice::Normal {
            return;
        }
        self.cluster.fault(page, number, is_missed);
        let age = u64::from(self.settings.frames / (2 * self.cluster.pages())).clamp(4, 64);
        while let Some(ripe) = self.cluster.ripe(number, age) {
            let unused = ripe.run.pages().filter(|page| pages[*page].has(UNASKED)).count();
            // Where touches are seen by faults, one page of the cluster stands for the others.
            let seen = if self.settings.looks { 1 } else { ripe.run.count - 1 };
            self.cluster.outcome(seen.saturating_sub(unused as u32), seen, number);
        }
    }

    /// Learns which cluster came in at a fault. Returns what a sequential reader or a sweep has left
    /// behind: it goes before others. It is empty otherwise.
    pub fn brought(&mut self, run: Run, number: u64, sweeps: bool) -> Run {
        if self.advice == Advice::Normal {
            self.cluster.watch(run, number);
        }
        if !sweeps && self.advice != Advice::Sequential {
            return Run::NONE;
        }
        let behind = self.last[0];
        self.last.rotate_left(1);
        self.last[LAST - 1] = run;
        behind
    }
}
