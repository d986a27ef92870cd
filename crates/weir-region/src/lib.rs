//! Memory larger than memory: bytes in a budget of memory with a file behind it.
//!
//! The file has no name, or is the user's. Regions can share the budget of a [`weir::Pool`] with its
//! streams, and several processes can share a region.
//!
//! A [`Region`] is read and written by calls, which return the errors of its file. A
//! [`MappedRegion`] is a slice of bytes; the faults on it are served by a thread of this process.
//! Pages come in and are written in clusters (Joy and Babaoglu 1980; `weir_policy::paging`
//! decides).

#![deny(unsafe_code)]

mod account;
mod board;
mod join;
mod mapped;
mod member_news;
#[allow(unsafe_code, reason = "mappings, and what the kernel does to them")]
mod memory;
mod options;
mod pager;
mod shared;
#[cfg(test)]
mod tests;
mod thread;

pub use account::RegionAccount;
pub use mapped::MappedRegion;
use mapped::bring_or;
pub use memory::ExclusiveFile;
pub use options::{PageReplacement, RegionOptions};
pub use shared::{SharedRegion, SharedRegionMember};

use crate::memory::{PageTransfers, RegionMemory, file_bytes};
use join::join;
use pager::Pager;
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir::parts::ShareState;
use weir::{Error, ErrorKind, Result};
use weir_policy::paging::{Advice, Run};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("weir runs on 64-bit Linux only");

/// The order in which a region will be touched.
///
/// ```
/// use weir_region::{Region, RegionAdvice, RegionOptions};
/// let region = Region::new(4 << 20, &RegionOptions::new().memory_bytes(1 << 20))?;
/// region.advise(RegionAdvice::Sequential)?;
/// let mut bytes = [0; 4096];
/// for at in (0..4 << 20).step_by(4096) {
///     region.read_at(at, &mut bytes)?;
/// }
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionAdvice {
    /// Unknown. Clusters follow what is used.
    Normal,
    /// Upwards. The largest clusters come in, and what was left behind goes first.
    Sequential,
    /// In no order. Pages come in alone.
    Random,
    /// Each page once, as a collector of garbage sweeps a heap. What the sweep touches goes first,
    /// and stays no longer for it. This holds until other advice comes.
    NoReference,
}

/// Bytes in a budget of memory with a file behind it, read and written by calls.
///
/// Threads can share it. Its file is written when memory is short, by [`Region::flush`], and, if it
/// is the user's, when the region is dropped.
///
/// ```
/// use weir_region::{Region, RegionOptions};
/// let region = Region::new(4 << 20, &RegionOptions::new().memory_bytes(1 << 20))?;
/// for at in (0..4 << 20).step_by(4096) {
///     region.write_at(at, &at.to_le_bytes())?;
/// }
/// assert_eq!(u64::from_le_bytes(region.read_array(3 << 20)?), 3 << 20);
/// assert!(region.account().most_memory_bytes <= 1 << 20);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct Region {
    pager: Arc<Mutex<Pager>>,
    share: Option<Arc<ShareState>>,
    bytes: AtomicU64,
    reserved: u64,
    page_bytes: u64,
    // Names the process that made it without the lock, which stays locked in a forked child.
    epoch: u32,
    writes_back: bool,
}

impl Region {
    /// Makes a region of zeros, with a file without a name. Memory is taken when it is touched.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: a size is out of its range. [`ErrorKind::Os`]: the directory of the
    /// file cannot be used, or there are no addresses left.
    pub fn new(bytes: u64, options: &RegionOptions) -> Result<Region> {
        let reserved = options.reserved(bytes)?;
        let transfers = PageTransfers::spill(&options.directory(), reserved)?;
        Region::with(bytes, options, transfers, false)
    }

    /// Makes a region over a file, open for reading and writing. The region is as long as the file,
    /// and the file should have no other user while the region lives.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: it is not a regular file, or is empty. [`ErrorKind::Os`]: it is not
    /// open for both, or there are no addresses left.
    pub fn over(file: File, options: &RegionOptions) -> Result<Region> {
        let bytes = file_bytes(&file)?;
        Region::with(bytes, options, PageTransfers::over(file, bytes)?, true)
    }

    fn with(
        bytes: u64,
        options: &RegionOptions,
        transfers: PageTransfers,
        over: bool,
    ) -> Result<Region> {
        let reserved = if over {
            bytes.next_multiple_of(weir::parts::page_bytes())
        } else {
            options.reserved(bytes)?
        };
        let memory = RegionMemory::new(reserved as usize)?;
        let settings = options.settings(bytes, false, over)?;
        let page_bytes = memory.page_bytes() as u64;
        let pager = Pager::new(memory, (bytes, settings), transfers, None)?;
        let (pager, share) = join(options.shared_pool(), pager)?;
        Ok(Region {
            page_bytes,
            pager,
            share,
            bytes: AtomicU64::new(bytes),
            reserved: if over { bytes } else { reserved },
            epoch: weir_sys::forks::epoch(),
            writes_back: over,
        })
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        // Relaxed: a number, which only grows.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it has no bytes, which is never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self, operation: &'static str) -> Result<MutexGuard<'_, Pager>> {
        if self.epoch != weir_sys::forks::epoch() {
            return Err(Error::forked(operation, "the region"));
        }
        Ok(self.pager.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn each_page(
        &self,
        operation: &'static str,
        (at, bytes): (u64, usize),
        writes: bool,
        each: impl FnMut(&RegionMemory, usize, Range<usize>),
    ) -> Result<()> {
        check_range(operation, (at, bytes as u64), self.len())?;
        if let Some(share) = self.share.as_ref().filter(|_| self.epoch == weir_sys::forks::epoch())
        {
            share.wait_until_in(|| false);
        }
        each_page(&mut *self.lock(operation)?, (at, bytes), writes, each)
    }

    /// Fills `to` with the bytes from `at` on, where 0 is the first.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: they reach beyond the end. [`ErrorKind::Os`]: a page could not be
    /// read, or no page could be written to make room. [`ErrorKind::Forked`]: this is a forked child.
    pub fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        self.each_page("read from", (at, to.len()), false, |memory, start, part| {
            memory.copy_out(start, &mut to[part]);
        })
    }

    /// Reads the `N` bytes from `at` on, such as those of a number.
    ///
    /// # Errors
    /// Those of [`Region::read_at`].
    pub fn read_array<const N: usize>(&self, at: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_at(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes all of `from`, from the byte `at` on.
    ///
    /// # Errors
    /// Those of [`Region::read_at`]. Bytes of earlier pages may have been written then.
    pub fn write_at(&self, at: u64, from: &[u8]) -> Result<()> {
        self.each_page("write to", (at, from.len()), true, |memory, start, part| {
            memory.copy_in(start, &from[part]);
        })
    }

    /// Makes the region so many bytes long, by zeros at its end. [`RegionOptions::most_bytes`] has
    /// reserved the room.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: it is longer already, or that many bytes were not reserved.
    /// [`ErrorKind::Forked`]: this is a forked child.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        let mut pager = self.lock("grow")?;
        let (now, most) = (self.len(), self.reserved);
        if !(now..=most).contains(&bytes) {
            let why = format!("{bytes} bytes are out of range: {now} to {most}");
            return Err(Error::new(ErrorKind::Invalid, "grow", "the region", why));
        }
        pager.grow(bytes.div_ceil(self.page_bytes) as u32, bytes)?;
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Tells the region in which order it will be touched.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]: this is a forked child.
    pub fn advise(&self, advice: RegionAdvice) -> Result<()> {
        advise(&mut *self.lock("advise")?, advice);
        Ok(())
    }

    /// Brings `bytes` of them in, from `at` on, before they are touched, as far as memory is free.
    ///
    /// # Errors
    /// Those of [`Region::read_at`].
    pub fn will_need(&self, at: u64, bytes: u64) -> Result<()> {
        check_range("read ahead in", (at, bytes), self.len())?;
        will_need(&mut *self.lock("read ahead in")?, pages(at, bytes, self.page_bytes))
    }

    /// The working set: which bytes are in memory now, as places and lengths. A program that keeps
    /// them can give them to [`Region::bring_back`] after its next start, over the same file.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]: this is a forked child.
    pub fn working_set(&self) -> Result<Vec<(u64, u64)>> {
        let runs = self.lock("ask")?.working_set();
        Ok(places(&runs, self.page_bytes, self.len()))
    }

    /// Reads a working set of an earlier time, in order and in the largest clusters, as far as memory
    /// is free. Parts beyond the end are left out.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]: this is a forked child. What cannot be read is an error when it is
    /// touched.
    pub fn bring_back(&self, working_set: &[(u64, u64)]) -> Result<()> {
        let runs = runs(working_set, self.page_bytes, self.len());
        self.lock("read ahead in")?.bring_back(&runs);
        Ok(())
    }

    /// Lets `bytes` of them, from `at` on, go before others. They are written first if they are dirty.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: they reach beyond the end. [`ErrorKind::Forked`]: this is a forked
    /// child.
    pub fn dont_need(&self, at: u64, bytes: u64) -> Result<()> {
        check_range("let go of", (at, bytes), self.len())?;
        self.lock("let go of")?.policy().let_go(pages(at, bytes, self.page_bytes));
        Ok(())
    }

    /// Writes what is dirty to the file, in clusters, and waits until that is done. The file is not
    /// synced.
    ///
    /// # Errors
    /// [`ErrorKind::Os`]: the cause of the last write that failed. Its pages stay in memory, dirty.
    pub fn flush(&self) -> Result<()> {
        self.lock("flush")?.flush()
    }

    /// The account. It is empty in a forked child.
    pub fn account(&self) -> RegionAccount {
        self.lock("ask").map(|pager| pager.account()).unwrap_or_default()
    }

    /// Describes how it is paged, and why nothing better does. Empty in a forked child.
    pub fn mechanism(&self) -> String {
        let pager = self.lock("ask");
        pager.map(|pager| format!("calls, {}", pager.transfers().describe())).unwrap_or_default()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.writes_back && self.epoch == weir_sys::forks::epoch() {
            let _ = self.flush();
        }
    }
}

/// Fails if a range reaches beyond the length of a region.
fn check_range(operation: &'static str, (at, bytes): (u64, u64), length: u64) -> Result<()> {
    if at.checked_add(bytes).is_some_and(|end| end <= length) {
        return Ok(());
    }
    let why = format!("{bytes} bytes at {at} reach beyond its {length} bytes");
    Err(Error::new(ErrorKind::Invalid, operation, "the region", why))
}

/// Calls `each` with every part of a range that is in one page, once the page is in memory.
fn each_page(
    pager: &mut Pager,
    (at, bytes): (u64, usize),
    writes: bool,
    mut each: impl FnMut(&RegionMemory, usize, Range<usize>),
) -> Result<()> {
    let (mut done, page_bytes) = (0, pager.memory().page_bytes() as u64);
    while done < bytes {
        let start = at + done as u64;
        let page = (start / page_bytes) as u32;
        let part = ((page_bytes - start % page_bytes) as usize).min(bytes - done);
        if !pager.policy().is_hot(page, writes) {
            pager.fetch(page, writes)?;
        }
        each(pager.memory(), start as usize, done..done + part);
        done += part;
    }
    Ok(())
}

fn places(runs: &[Run], page_bytes: u64, length: u64) -> Vec<(u64, u64)> {
    let place = |run: &Run| {
        let at = u64::from(run.first) * page_bytes;
        (at, (u64::from(run.count) * page_bytes).min(length - at.min(length)))
    };
    runs.iter().map(place).collect()
}

fn runs(working_set: &[(u64, u64)], page_bytes: u64, length: u64) -> Vec<Run> {
    let inside = |(at, bytes): &(u64, u64)| {
        let bytes = (*bytes).min(length.checked_sub(*at)?);
        (bytes > 0).then(|| pages(*at, bytes, page_bytes))
    };
    working_set.iter().filter_map(inside).collect()
}

fn pages(at: u64, bytes: u64, page_bytes: u64) -> Run {
    let (first, end) = (at / page_bytes, (at + bytes).div_ceil(page_bytes));
    Run { first: first as u32, count: (end - first) as u32 }
}

fn advise(pager: &mut Pager, advice: RegionAdvice) {
    let order = match advice {
        RegionAdvice::Normal => Advice::Normal,
        RegionAdvice::Sequential | RegionAdvice::NoReference => Advice::Sequential,
        RegionAdvice::Random => Advice::Random,
    };
    pager.policy().advise(order);
    pager.policy().sweep(advice == RegionAdvice::NoReference);
}

fn will_need(pager: &mut Pager, run: Run) -> Result<()> {
    let failed = |cause| Error::os("read ahead in", "the region", cause);
    for page in run.pages() {
        if pager.policy().bring_ahead(page) {
            pager.act().map_err(failed)?;
        }
    }
    let ended = pager.complete().map_err(failed);
    pager.publish();
    ended
}
