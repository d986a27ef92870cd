//! A region as a slice of bytes. A thread of this process serves its faults.

use super::join::join;
use super::pager::{Pager, Shown, ShownHere};
use super::thread::{Kick, RegionThread};
use super::{RegionAccount, RegionAdvice, RegionOptions, check_range, pages};
use crate::memory::{
    ExclusiveFile, FrontBytes, KernelPaged, PageTransfers, RegionFront, RegionMemory, file_bytes,
};
use rustix::event::{PollFd, PollFlags};
use rustix::mm::Advice as KernelAdvice;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir::parts::{ShareState, page_bytes, wait_for_any};
use weir::{Error, Result};

/// The variable that lets the kernel page a region, if it is `kernel`.
const WANTED: &str = "WEIR_REGION_PAGING";
/// How often a page is tried whose transfer fails, before touches of it end in SIGBUS.
const TRIES: u32 = 20;
/// The time between two tries.
const BETWEEN: Duration = Duration::from_millis(50);
/// Faults between two looks at which CPU the program runs on.
const LOOKS_EVERY: u32 = 16;

/// Bytes in a budget of memory with a file behind it, as a slice.
///
/// A touch of a page that is not in memory waits until a thread of this process has brought it in
/// (userfaultfd(2)). If its file fails, the thread tries for a second, and then the touch ends in
/// SIGBUS: nobody gets wrong bytes. [`Region`](super::Region) returns errors instead.
///
/// Without userfaultfd the kernel pages a file without a name, and does not keep the budget.
/// [`MappedRegion::mechanism`] says so. A region over a user's file is refused then.
///
/// ```
/// use weir_region::{MappedRegion, RegionOptions};
/// let mut region = MappedRegion::new(4 << 20, &RegionOptions::new().memory_bytes(1 << 20))?;
/// region.fill(7);
/// region[1 << 20..][..3].copy_from_slice(b"abc");
/// region.sort_unstable();
/// assert_eq!((region[0], region[(4 << 20) - 1]), (7, b'c'));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct MappedRegion {
    paged: Paged,
    bytes: usize,
    writes_back: bool,
}

#[derive(Debug)]
enum Paged {
    Served { bytes: FrontBytes, server: RegionThread<Shared> },
    Kernel { map: KernelPaged, why: String },
}

/// What the thread that serves the faults shares.
#[derive(Debug)]
struct Shared {
    pager: Arc<Mutex<Pager>>,
    share: Option<Arc<ShareState>>,
    front: Arc<RegionFront>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pager> {
        self.pager.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MappedRegion {
    /// Makes a region of zeros, with a file without a name. Memory is taken when it is touched.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](weir::ErrorKind::Invalid): a size is out of its range.
    /// [`ErrorKind::Os`](weir::ErrorKind::Os): the directory of the file cannot be used, or there
    /// are no addresses or threads left.
    pub fn new(bytes: usize, options: &RegionOptions) -> Result<MappedRegion> {
        options.settings(bytes as u64, true, false)?;
        let reserved = (bytes as u64).next_multiple_of(page_bytes());
        let wanted = std::env::var_os(WANTED).filter(|word| word == "kernel");
        let memory = RegionMemory::new(reserved as usize)?;
        let front = match wanted {
            Some(_) => Err(format!("{WANTED} asks for it")),
            None => RegionFront::new(&memory).map_err(|why| why.to_string()),
        };
        let front = match front {
            Ok(front) => front,
            Err(why) => {
                let map = KernelPaged::new(&options.directory(), reserved as usize)?;
                return Ok(MappedRegion {
                    paged: Paged::Kernel { map, why },
                    bytes,
                    writes_back: false,
                });
            }
        };
        let transfers = PageTransfers::spill(&options.directory(), reserved)?;
        MappedRegion::with(bytes, options, (memory, front), transfers, false)
    }

    /// Makes a region over a file, open for reading and writing, that nobody else changes. The region
    /// is as long as the file.
    ///
    /// # Errors
    /// As [`Region::over`](super::Region::over). [`ErrorKind::Os`](weir::ErrorKind::Os) also
    /// without userfaultfd, with what is missing.
    pub fn over(file: ExclusiveFile, options: &RegionOptions) -> Result<MappedRegion> {
        let ExclusiveFile(file) = file;
        let bytes = file_bytes(&file)?;
        let transfers = PageTransfers::over(file, bytes)?;
        let memory = RegionMemory::new(bytes.next_multiple_of(page_bytes()) as usize)?;
        let front = RegionFront::new(&memory)
            .map_err(|cause| Error::os("map", "the file of a region", cause))?;
        MappedRegion::with(bytes as usize, options, (memory, front), transfers, true)
    }

    pub(super) fn with(
        bytes: usize,
        options: &RegionOptions,
        (memory, (front, slice)): (RegionMemory, (RegionFront, FrontBytes)),
        transfers: PageTransfers,
        over: bool,
    ) -> Result<MappedRegion> {
        let settings = options.settings(bytes as u64, true, over)?;
        let front = Arc::new(front);
        let shown = ShownHere::new(Arc::clone(&front), settings.pages as usize);
        let shown = Shown::Here(shown);
        let pager = Pager::new(memory, (bytes as u64, settings), transfers, Some(shown))?;
        let (pager, share) = join(options.shared_pool(), pager)?;
        let server = RegionThread::start("weir-region", Shared { pager, share, front }, serve)?;
        Ok(MappedRegion { paged: Paged::Served { bytes: slice, server }, bytes, writes_back: over })
    }

    fn pager(&self, operation: &'static str) -> Result<Option<MutexGuard<'_, Pager>>> {
        match &self.paged {
            Paged::Served { server, .. } if server.front.is_here() => Ok(Some(server.lock())),
            Paged::Kernel { map, .. } if map.is_here() => Ok(None),
            _ => Err(Error::forked(operation, "the region")),
        }
    }

    /// Whether system calls (`read` into the region) are served as touches are. If not, a call that
    /// meets a page that is not in memory fails with `EFAULT`: this process may serve faults of user
    /// mode only.
    pub fn serves_calls(&self) -> bool {
        match &self.paged {
            Paged::Served { server, .. } => server.front.serves_calls(),
            Paged::Kernel { .. } => true,
        }
    }

    /// Tells the region in which order it will be touched.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`](weir::ErrorKind::Forked): this is a forked child.
    pub fn advise(&self, advice: RegionAdvice) -> Result<()> {
        if let Some(mut pager) = self.pager("advise")? {
            super::advise(&mut pager, advice);
        } else if let Paged::Kernel { map, .. } = &self.paged {
            let advice = match advice {
                RegionAdvice::Normal => KernelAdvice::Normal,
                RegionAdvice::Sequential | RegionAdvice::NoReference => KernelAdvice::Sequential,
                RegionAdvice::Random => KernelAdvice::Random,
            };
            map.advise(0, self.bytes, advice);
        }
        Ok(())
    }

    /// Brings `bytes` of them in, from `at` on, before they are touched, as far as memory is free.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](weir::ErrorKind::Invalid): they reach beyond the end.
    /// [`ErrorKind::Forked`](weir::ErrorKind::Forked): this is a forked child.
    pub fn will_need(&self, at: usize, bytes: usize) -> Result<()> {
        let (at, bytes) = (at as u64, bytes as u64);
        check_range("read ahead in", (at, bytes), self.bytes as u64)?;
        match self.pager("read ahead in")? {
            Some(mut pager) => super::will_need(&mut pager, pages(at, bytes, page_bytes())),
            None => Ok(()),
        }
    }

    /// The working set: which bytes are in memory now, as places and lengths. A program that keeps
    /// them can give them to [`MappedRegion::bring_back`] after its next start, over the same file.
    /// It is empty where the kernel pages.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`](weir::ErrorKind::Forked): this is a forked child.
    pub fn working_set(&self) -> Result<Vec<(u64, u64)>> {
        let runs = self.pager("ask")?.map(|pager| pager.working_set()).unwrap_or_default();
        Ok(super::places(&runs, page_bytes(), self.bytes as u64))
    }

    /// Reads a working set of an earlier time, in order and in the largest clusters, as far as memory
    /// is free. Parts beyond the end are left out.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`](weir::ErrorKind::Forked): this is a forked child. What cannot be read
    /// ends in SIGBUS when it is touched.
    pub fn bring_back(&self, working_set: &[(u64, u64)]) -> Result<()> {
        if let Some(mut pager) = self.pager("read ahead in")? {
            pager.bring_back(&super::runs(working_set, page_bytes(), self.bytes as u64));
        }
        Ok(())
    }

    /// Lets `bytes` of them, from `at` on, go before others. They are written first if they are dirty.
    ///
    /// # Errors
    /// As [`MappedRegion::will_need`].
    pub fn dont_need(&self, at: usize, bytes: usize) -> Result<()> {
        let (at, bytes) = (at as u64, bytes as u64);
        check_range("let go of", (at, bytes), self.bytes as u64)?;
        if let Some(mut pager) = self.pager("let go of")? {
            pager.policy().let_go(pages(at, bytes, page_bytes()));
        }
        Ok(())
    }

    /// Writes what is dirty to the file, in clusters, and waits until that is done. The file is not
    /// synced.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](weir::ErrorKind::Os): the cause of the last write that failed. Its pages stay in memory, dirty.
    pub fn flush(&mut self) -> Result<()> {
        self.pager("flush")?.map_or(Ok(()), |mut pager| pager.flush())
    }

    /// The account: empty where the kernel pages, and in a forked child.
    pub fn account(&self) -> RegionAccount {
        let pager = self.pager("ask").ok().flatten();
        pager.map(|pager| pager.account()).unwrap_or_default()
    }

    /// Describes how it is paged, and why nothing better does.
    pub fn mechanism(&self) -> String {
        match (&self.paged, self.pager("ask")) {
            (Paged::Kernel { why, .. }, _) => format!("mmap and madvise, without a budget: {why}"),
            (Paged::Served { .. }, Ok(Some(pager))) => {
                let calls = if self.serves_calls() { "" } else { " of user mode" };
                format!("userfaultfd{calls}, {}", pager.transfers().describe())
            }
            _ => String::new(),
        }
    }
}

impl Deref for MappedRegion {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.paged {
            Paged::Served { bytes, .. } => bytes.bytes(self.bytes),
            Paged::Kernel { map, .. } => map.bytes(self.bytes),
        }
    }
}

impl DerefMut for MappedRegion {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.paged {
            Paged::Served { bytes, .. } => bytes.bytes_mut(self.bytes),
            Paged::Kernel { map, .. } => map.bytes_mut(self.bytes),
        }
    }
}

impl Drop for MappedRegion {
    fn drop(&mut self) {
        if self.writes_back {
            let _ = self.flush();
        }
    }
}

/// Serves faults until the region ends.
fn serve(shared: &Shared, kick: &Kick) {
    let mut faults = Vec::with_capacity(16);
    let (mut served, mut here) = (0, None);
    while wait(shared, kick) {
        let taken =
            shared.front.take(&mut |page, writes, thread| faults.push((page, writes, thread)));
        if taken.is_err() {
            return;
        }
        if let Some((_, _, thread)) = faults.first() {
            if served % LOOKS_EVERY == 0 {
                follow(*thread, &mut here);
            }
            served = served.wrapping_add(1);
        }
        // What fails here is tried again for the next fault.
        let _ = shared.lock().complete();
        faults.drain(..).for_each(|(page, writes, _)| bring((shared, kick), page, writes));
    }
}

/// Waits for a fault, for the end of a transfer, or for the end of the region: whether to continue.
fn wait(shared: &Shared, kick: &Kick) -> bool {
    let (Some(faults), Some(bell)) = (shared.front.descriptor(), kick.bell()) else {
        return false;
    };
    let mut descriptors =
        [faults, bell].map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
    wait_for_any(&mut descriptors, None);
    !kick.stops()
}

/// Brings a page in, or lets touches of it end in SIGBUS.
fn bring((shared, kick): (&Shared, &Kick), page: u32, writes: bool) {
    if let Some(share) = &shared.share {
        share.wait_until_in(|| kick.stops());
    }
    bring_or(|| shared.lock().fetch(page, writes), || drop(shared.front.poison(page)));
}

/// Tries to bring a page in for a second, and then lets touches of it end in SIGBUS.
pub(super) fn bring_or(mut fetch: impl FnMut() -> Result<()>, poison: impl FnOnce()) {
    for _ in 0..TRIES {
        if fetch().is_ok() {
            return;
        }
        // sleep: a device that fails now may work again soon, and the toucher waits.
        std::thread::sleep(BETWEEN);
    }
    poison();
}

/// Moves this thread to the CPU of the program's thread, which waits: a wake-up from another CPU
/// takes several times longer.
fn follow(thread: weir_sys::Pid, here: &mut Option<usize>) {
    let Some(cpu) = weir_sys::threads::last_cpu(thread).filter(|cpu| Some(*cpu) != *here) else {
        return;
    };
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
        if sched_setaffinity(None, &set).is_ok() {
            *here = Some(cpu);
        }
    }
}
