//! The pager of a region: carries out what the policy decides, and waits for the file.

use super::account::RegionAccount;
use super::board::AccountPage;
use crate::memory::{MemberFront, PageTransfers, RegionFront, RegionMemory, SharedFronts};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Instant;
use weir::parts::{Share, wait_for_any};
use weir::{Error, ErrorKind, Result};
use weir_policy::paging::{PagingAction, PagingPolicy, PagingSettings, Run, Touch};
use weir_sys::spill::TransferDirection;

/// A transfer under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    run: Run,
    direction: TransferDirection,
}

/// Where touches reach pages without a call.
#[derive(Debug)]
pub(super) enum Shown {
    /// In this process.
    Here(ShownHere),
    /// In the members of a shared region.
    Shared {
        fronts: Arc<SharedFronts>,
        /// The one whose fault is served.
        toucher: Option<Arc<MemberFront>>,
    },
}

impl Shown {
    /// Lets touches reach pages that have come.
    fn show(&mut self, run: Run) -> std::io::Result<()> {
        match self {
            Shown::Here(here) => here.show(run),
            Shown::Shared { toucher, .. } => {
                toucher.as_ref().map_or(Ok(()), |member| show_in(member, run, false))
            }
        }
    }

    /// Lets the touch that is served reach its page.
    fn show_touched(&mut self, page: u32, writes: bool) -> std::io::Result<()> {
        let run = Run { first: page, count: 1 };
        match self {
            Shown::Here(here) => here.show(run),
            Shown::Shared { fronts, toucher } => {
                let Some(member) = toucher else { return Ok(()) };
                if writes {
                    fronts.note(page);
                }
                show_in(member, run, writes)
            }
        }
    }

    fn hide(&mut self, run: Run) -> std::io::Result<u32> {
        match self {
            Shown::Here(here) => here.hide(run),
            Shown::Shared { fronts, .. } => Ok(fronts.hide(run)),
        }
    }
}

/// Shows pages to a member. One in which that fails has died, or touched what it has not mapped: the
/// file is not at fault, and nobody waits for it.
fn show_in(member: &MemberFront, run: Run, writes: bool) -> std::io::Result<()> {
    member.show(run, writes).inspect_err(|_| member.end())
}

/// The program's side, and which pages touches reach there.
#[derive(Debug)]
pub(super) struct ShownHere {
    front: Arc<RegionFront>,
    pages: Vec<u64>,
}

impl ShownHere {
    pub(super) fn new(front: Arc<RegionFront>, pages: usize) -> ShownHere {
        ShownHere { front, pages: vec![0; pages.div_ceil(64)] }
    }

    fn set(&mut self, page: u32, shown: bool) {
        let (word, bit) = (&mut self.pages[page as usize / 64], 1 << (page % 64));
        *word = if shown { *word | bit } else { *word & !bit };
    }

    fn show(&mut self, run: Run) -> std::io::Result<()> {
        self.front.show(run)?;
        run.pages().for_each(|page| self.set(page, true));
        Ok(())
    }

    fn hide(&mut self, run: Run) -> std::io::Result<u32> {
        let is_shown = |page: u32| self.pages[page as usize / 64] >> (page % 64) & 1;
        let bits = run.pages().map(|page| (is_shown(page) as u32) << (page - run.first));
        let written = self.front.hide(run, bits.sum())?;
        run.pages().for_each(|page| self.set(page, false));
        Ok(written)
    }
}

#[derive(Debug)]
pub(crate) struct Pager {
    // Dropped first: that waits until the kernel is done with the memory.
    transfers: PageTransfers,
    policy: PagingPolicy,
    shown: Option<Shown>,
    under_way: Vec<Option<UnderWay>>,
    memory: RegionMemory,
    // Dropped after the memory, which it gives back.
    share: Option<Share>,
    board: Option<AccountPage>,
    /// Why the last transfer of each direction failed.
    failed: [Option<Errno>; 2],
    failures: u64,
    waits: u64,
    waited_ns: u64,
}

impl Pager {
    pub(super) fn new(
        memory: RegionMemory,
        (bytes, settings): (u64, PagingSettings),
        transfers: PageTransfers,
        shown: Option<Shown>,
    ) -> Result<Pager> {
        let policy = PagingPolicy::new(settings).map_err(|_| {
            let pages = settings.pages;
            Error::os("make", format!("the tables of a region of {pages} pages"), Errno::NOMEM)
        })?;
        Ok(Pager {
            under_way: vec![None; transfers.most_in_flight()],
            transfers,
            policy,
            shown,
            memory,
            share: None,
            board: AccountPage::new(bytes),
            failed: [None; 2],
            failures: 0,
            waits: 0,
            waited_ns: 0,
        })
    }

    pub(super) fn policy(&mut self) -> &mut PagingPolicy {
        &mut self.policy
    }

    /// Adds empty pages, up to `pages` in all, for a region of this length.
    pub(super) fn grow(&mut self, pages: u32, bytes: u64) -> Result<()> {
        let grown = self.policy.grow(pages);
        grown.map_err(|_| Error::os("grow", "the region", Errno::NOMEM))?;
        if let Some(board) = &self.board {
            board.publish_length(bytes);
        }
        Ok(())
    }

    pub(super) fn transfers(&self) -> &PageTransfers {
        &self.transfers
    }

    pub(super) fn memory(&self) -> &RegionMemory {
        &self.memory
    }

    /// Carries out what the policy has decided.
    pub(super) fn act(&mut self) -> std::io::Result<()> {
        while let Some(action) = self.policy.action() {
            match action {
                PagingAction::Read(run) => self.start(run, TransferDirection::FromDisk),
                PagingAction::Write(run) => self.start(run, TransferDirection::ToDisk),
                PagingAction::Zero(run) => {
                    let filled = self.memory.fill(run);
                    self.came(run, filled.is_ok())?;
                    filled?;
                }
                PagingAction::Look(run) => {
                    let Some(shown) = &mut self.shown else { continue };
                    let written = shown.hide(run)?;
                    self.policy.looked(run, written);
                }
                PagingAction::Drop(run) => self.memory.release(run)?,
            }
        }
        Ok(())
    }

    fn came(&mut self, run: Run, succeeded: bool) -> std::io::Result<()> {
        self.policy.came(run, succeeded);
        let Some(shown) = self.shown.as_mut().filter(|_| succeeded) else { return Ok(()) };
        // A page whose use is looked for stays hidden.
        let mut first = run.first;
        for page in run.pages() {
            if self.policy.is_unasked(page) {
                if page > first {
                    shown.show(Run { first, count: page - first })?;
                }
                first = page + 1;
            }
        }
        let count = run.first + run.count - first;
        if count > 0 { shown.show(Run { first, count }) } else { Ok(()) }
    }

    fn start(&mut self, run: Run, direction: TransferDirection) {
        let token = loop {
            match self.under_way.iter().position(Option::is_none) {
                Some(token) => break token,
                None => self.wait_for_one(),
            }
        };
        self.under_way[token] = Some(UnderWay { run, direction });
        if !self.transfers.start(&self.memory, token as u64, direction, run) {
            self.ended(token, Err(Errno::IO));
        }
    }

    fn ended(&mut self, token: usize, result: std::result::Result<(), Errno>) {
        let Some(of) = self.under_way.get_mut(token).and_then(Option::take) else { return };
        if let Err(cause) = result {
            self.failed[of.direction as usize] = Some(cause);
            self.failures += 1;
        }
        let outcome = match of.direction {
            TransferDirection::ToDisk => {
                self.policy.written(of.run, result.is_ok());
                Ok(())
            }
            TransferDirection::FromDisk => self.came(of.run, result.is_ok()),
        };
        // A front that cannot show a page shows it when the page is touched, or reports that then.
        let _ = outcome;
    }

    /// Learns which transfers have ended.
    pub(super) fn complete(&mut self) -> std::io::Result<()> {
        self.take_ended();
        self.act()
    }

    fn take_ended(&mut self) {
        let done = self.transfers.completed();
        done.for_each(|(token, result)| self.ended(token as usize, result));
    }

    /// Waits until a transfer has ended.
    fn wait_for_one(&mut self) {
        let begun = Instant::now();
        self.waits += 1;
        let before = self.transfers.in_flight();
        while before > 0 && self.transfers.in_flight() == before {
            if let Some(descriptor) = self.transfers.descriptor() {
                wait_for_any(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], None);
            }
            self.take_ended();
        }
        self.waited_ns += begun.elapsed().as_nanos() as u64;
    }

    /// Shows the account to other processes.
    pub(super) fn publish(&self) {
        if let Some(board) = &self.board {
            let budget = u64::from(self.policy.limit()) * self.memory.page_bytes() as u64;
            board.publish(budget, &self.account());
        }
    }

    /// Brings a page into memory for a touch.
    pub(super) fn fetch(&mut self, page: u32, writes: bool) -> Result<()> {
        let fetched = self.bring(page, writes);
        self.publish();
        fetched
    }

    fn bring(&mut self, page: u32, writes: bool) -> Result<()> {
        let failures = self.failures;
        loop {
            match self.policy.touch(page, writes) {
                // What comes ahead of the next touches is begun first, and may let this page go.
                Touch::Here if self.policy.has_actions() => {}
                Touch::Here => break,
                Touch::Coming => self.wait_for_one(),
                Touch::Absent => {
                    self.check_failures(failures)?;
                    self.borrow();
                    let comes = self.policy.bring(page);
                    self.act().map_err(|cause| page_error("bring in", page, cause))?;
                    if !comes && self.transfers.in_flight() > 0 {
                        self.wait_for_one();
                    }
                }
            }
            self.act().map_err(|cause| page_error("bring in", page, cause))?;
        }
        let Some(shown) = &mut self.shown else { return Ok(()) };
        shown.show_touched(page, writes).map_err(|cause| page_error("map", page, cause))
    }

    /// Brings a page into memory for a touch of a member of a shared region.
    pub(super) fn fetch_for(
        &mut self,
        of: &Arc<MemberFront>,
        page: u32,
        writes: bool,
    ) -> Result<()> {
        self.set_toucher(Some(Arc::clone(of)));
        let fetched = self.fetch(page, writes);
        self.set_toucher(None);
        fetched
    }

    fn set_toucher(&mut self, of: Option<Arc<MemberFront>>) {
        if let Some(Shown::Shared { toucher, .. }) = &mut self.shown {
            *toucher = of;
        }
    }

    /// Takes memory from the pool, if a fault could use it.
    fn borrow(&mut self) {
        let Some(share) = &mut self.share else { return };
        share.publish(&self.policy.counts(), self.waited_ns);
        let lacks = self.policy.lacks();
        if lacks > 0 && share.borrow(lacks) {
            self.policy.set_limit(share.pages());
        }
    }

    pub(super) fn share(&mut self, share: Share) {
        self.policy.set_limit(share.pages());
        self.policy.set_reach(share.reach());
        self.share = Some(share);
    }

    /// Takes memory for this many pages from the pool, as far as it has it, and reads what a region
    /// had when it went out.
    pub(crate) fn come_in(&mut self, pages: u32, set: &[Run]) {
        let Some(share) = &mut self.share else { return };
        let more = pages.saturating_sub(share.pages());
        if more > 0 && share.borrow(more) {
            self.policy.set_limit(share.pages());
        }
        self.bring_back(set);
    }

    /// Reads what a region had at an earlier time, as far as memory is free. Many reads are under
    /// way at once.
    pub(super) fn bring_back(&mut self, set: &[Run]) {
        for run in set {
            let mut left = *run;
            while left.count > 0 {
                // What cannot be read now is read, or fails, when it is touched.
                let Some(done) = self.policy.bring_exactly(left) else {
                    return drop(self.settle());
                };
                if self.act().is_err() {
                    return;
                }
                left = Run { first: left.first + done, count: left.count - done };
            }
        }
        drop(self.settle());
    }

    /// Waits until all transfers have ended.
    fn settle(&mut self) -> std::io::Result<()> {
        let mut acted = Ok(());
        while acted.is_ok() && self.transfers.in_flight() > 0 {
            self.wait_for_one();
            acted = self.act();
        }
        self.publish();
        acted
    }

    pub(crate) fn working_set(&self) -> Vec<Run> {
        self.policy.working_set()
    }

    /// Lets pages go until the region has this many fewer, and gives their memory back to the pool.
    /// Returns how many frames of the pool went back.
    pub(crate) fn give(&mut self, pages: u32) -> usize {
        let Some((most, least)) = self.share.as_ref().map(|share| (share.pages(), share.least()))
        else {
            return 0;
        };
        let failures = self.failures;
        // In whole frames of the pool.
        let each = self.share.as_ref().map_or(1, Share::pages_each);
        let wanted = (most.saturating_sub(pages) / each * each).max(least);
        self.policy.set_limit(wanted);
        let mut acted = self.act();
        while acted.is_ok() && self.policy.frames_used().0 > wanted && self.failures == failures {
            if self.transfers.in_flight() > 0 {
                self.wait_for_one();
            }
            let before = self.policy.frames_used().0;
            self.policy.set_limit(wanted);
            acted = self.act();
            if before == self.policy.frames_used().0 && self.transfers.in_flight() == 0 {
                break;
            }
        }
        // Pages that could not be written stay.
        let used = self.policy.frames_used().0;
        let Some(share) = &mut self.share else { return 0 };
        let gone = share.keep(wanted.max(used));
        self.policy.set_limit(share.pages());
        self.publish();
        gone
    }

    /// An error if a transfer has failed since there were so many failures.
    fn check_failures(&mut self, before: u64) -> Result<()> {
        if self.failures == before {
            return Ok(());
        }
        let [to_disk, from_disk] = std::mem::take(&mut self.failed);
        let (operation, cause) = match (from_disk, to_disk) {
            (Some(cause), _) => ("read a page of", cause),
            (None, cause) => ("write a page of", cause.unwrap_or(Errno::IO)),
        };
        if self.transfers.is_cut() {
            let why = "others have made it shorter";
            return Err(Error::new(ErrorKind::Os, operation, "the region's file", why));
        }
        Err(Error::os(operation, "the region's file", cause))
    }

    /// Writes all dirty pages, and waits until they are written.
    pub(super) fn flush(&mut self) -> Result<()> {
        let failed = |cause| Error::os("flush", "the region", cause);
        // What was changed on its way to the file counts as dirty once it has arrived there.
        self.settle().map_err(failed)?;
        let failures = self.failures;
        let mut from = 0;
        while let Some(next) = self.policy.flush(from) {
            from = next;
            self.act().map_err(failed)?;
        }
        self.settle().map_err(failed)?;
        self.check_failures(failures)
    }

    pub(super) fn account(&self) -> RegionAccount {
        let counts = self.policy.counts();
        let (frames, most) = self.policy.frames_used();
        let bytes = |pages: u64| pages * self.memory.page_bytes() as u64;
        RegionAccount {
            hard_faults: counts.hard,
            reclaimed_pages: counts.reclaimed,
            read_bytes: bytes(counts.read),
            written_bytes: bytes(counts.written),
            reads: counts.reads,
            writes: counts.writes,
            unasked_pages: counts.unasked,
            used_pages: counts.used,
            seen_pages: counts.seen,
            cluster_pages: self.policy.cluster().into(),
            waits: self.waits,
            waited_ns: self.waited_ns,
            memory_bytes: bytes(frames.into()),
            most_memory_bytes: bytes(most.into()),
            again_faults: counts.again,
            swapped: self.share.as_ref().map_or(0, Share::swapped),
            failures: self.failures,
        }
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        let is_here = self.share.as_ref().is_some_and(Share::is_here);
        if is_here {
            while self.transfers.in_flight() > 0 {
                self.wait_for_one();
            }
            // A mapping of it may live longer, and others get the budget now.
            let _ = self.memory.release_all();
        }
    }
}

fn page_error(operation: &'static str, page: u32, cause: std::io::Error) -> Error {
    Error::os(operation, format!("page {page} of the region"), cause)
}
