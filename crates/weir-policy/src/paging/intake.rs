//! How many pages come in at a fault: what was advised, or else what was learnt; which come ahead of
//! a sequential reader, and which it has left behind.

use super::cluster::ClusterSize;
use super::frames::NONE;
use super::table::{PageTable, Place, UNASKED};
use super::{Advice, PagingSettings, Run};
use alloc::collections::TryReserveError;

/// Clusters that are not left behind yet: of a page and the one before it. An instruction may need
/// both, and would fault without end if one of them went for the other.
const LAST: usize = 2;
/// So many clusters in a row, each right after the one before, are a sequence.
const SEQUENCE: u32 = 3;
/// Smaller clusters do not come ahead: to begin their transfers takes as long as to wait for them.
const LEAST_AHEAD: u32 = 8;

/// The advice, and the clusters that came in.
#[derive(Debug)]
pub struct Intake {
    settings: PagingSettings,
    advice: Advice,
    cluster: ClusterSize,
    /// The last clusters of a sequential reader or of a sweep.
    last: [Run; LAST],
    /// The page after the last cluster, and how many came in a row before it.
    end: u32,
    in_a_row: u32,
    /// The page of a sequence whose touch brings the next cluster.
    marker: u32,
}

impl Intake {
    pub fn new(settings: PagingSettings) -> Result<Intake, TryReserveError> {
        let cluster = ClusterSize::new(settings.most_cluster)?;
        Ok(Intake {
            settings,
            advice: Advice::Normal,
            cluster,
            last: [Run::NONE; LAST],
            end: NONE,
            in_a_row: 0,
            marker: NONE,
        })
    }

    pub fn advise(&mut self, advice: Advice) {
        self.advice = advice;
        self.last = [Run::NONE; LAST];
        self.in_a_row = 0;
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

    /// Whether a page comes next after the last cluster: those between are in memory already.
    fn is_next(&self, page: u32) -> bool {
        page.checked_sub(self.end).is_some_and(|gap| gap < self.cluster.pages().max(LEAST_AHEAD))
    }

    /// The next cluster of a sequence.
    pub fn next_in_sequence(&self, pages: &PageTable, limit: u32) -> Option<Run> {
        let cluster = self.cluster(limit);
        let is_filed = |page: &u32| pages.get(*page).is_some_and(|at| at.place == Place::Filed);
        let page = (self.end..self.end.saturating_add(cluster)).find(is_filed)?;
        Some(self.run(pages, page, cluster))
    }

    /// The page of a cluster that comes whose touch brings the next one, if this is a sequence: in
    /// the middle, where no instruction needs the cluster before it any more.
    pub fn mark(&mut self, run: Run, asked: u32) -> Option<u32> {
        let middle = run.first + run.count / 2;
        let is_marked = self.is_next(run.first) && self.in_a_row + 2 >= SEQUENCE;
        let is_marked = is_marked && run.count >= LEAST_AHEAD && middle != asked;
        self.marker = if is_marked { middle } else { NONE };
        is_marked.then_some(middle)
    }

    /// Whether this touch of a page is the one that brings the next cluster.
    pub fn reaches_marker(&mut self, page: u32) -> bool {
        let reaches = self.marker == page;
        if reaches {
            self.marker = NONE;
        }
        reaches
    }

    /// Learns from the fault with this number, and from clusters that came some time ago. As long as
    /// no page `has_gone`, those that came unasked have displaced none, and may still be used.
    pub fn fault(
        &mut self,
        pages: &PageTable,
        page: u32,
        number: u64,
        (is_missed, has_gone): (bool, bool),
    ) {
        if self.advice != Advice::Normal {
            return;
        }
        let in_sequence = self.is_next(page) && self.in_a_row + 2 >= SEQUENCE;
        self.cluster.fault(page, number, is_missed, in_sequence);
        if !has_gone {
            return;
        }
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
        self.follow(run, sweeps)
    }

    /// Learns that a cluster comes, for a fault or ahead. Returns what is left behind.
    pub fn follow(&mut self, run: Run, sweeps: bool) -> Run {
        self.in_a_row = if self.is_next(run.first) { self.in_a_row.saturating_add(1) } else { 0 };
        self.end = run.first + run.count;
        if !sweeps && self.advice != Advice::Sequential {
            return Run::NONE;
        }
        let behind = self.last[0];
        self.last.rotate_left(1);
        self.last[LAST - 1] = run;
        behind
    }
}
